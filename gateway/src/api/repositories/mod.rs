mod collaborators;
mod deploy_keys;
mod forks;
mod imports;
mod mirrors;
pub(super) mod repositories;
mod settings;
mod stars;
mod teams;
mod topics;
mod transfers;
mod watches;

use super::call::groups;

groups! { collaborators deploy_keys forks imports mirrors repositories settings stars teams topics transfers watches }
