//! Pull requests.

mod changes;
mod heads;
mod merges;
mod pulls;
mod shown;

use super::call::groups;

groups! { changes merges pulls }
