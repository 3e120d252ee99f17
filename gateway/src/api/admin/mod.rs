mod audit;
mod quotas;
mod stores;
mod users;

use super::call::groups;

groups! { audit quotas stores users }
