//! Reviews of pull requests, their comments on lines, and requests for them.

mod comments;
mod requests;
mod reviews;

use super::call::groups;

groups! { comments requests reviews }
