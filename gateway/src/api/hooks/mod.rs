//! Webhooks, their deliveries, and the events of repositories.
//!
//! Order of the files: resources → `owner`.

mod deliveries;
mod events;
mod hooks;
mod owner;

use super::call::groups;

groups! { deliveries events hooks }
