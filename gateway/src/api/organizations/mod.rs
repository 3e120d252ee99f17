mod labels;
mod members;
pub(super) mod organizations;
mod permissions;
pub(super) mod teams;
mod units;

use super::call::groups;

groups! { labels members organizations permissions teams }
