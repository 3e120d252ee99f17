pub(super) mod accounts;
mod avatars;
mod emails;
mod follows;
pub(super) mod public_keys;
mod sessions;
mod tokens;

use super::call::groups;

groups! { accounts avatars emails follows public_keys sessions tokens }
