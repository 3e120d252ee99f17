pub(super) mod accounts;
mod avatars;
mod emails;
mod follows;
pub(super) mod public_keys;
mod sessions;
mod tokens;
mod user_settings;

use super::call::groups;

groups! { accounts avatars emails follows public_keys sessions tokens user_settings }
