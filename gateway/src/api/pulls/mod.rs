//! Pull requests.

mod changes;
mod merges;

use super::call::groups;

groups! { changes merges }
