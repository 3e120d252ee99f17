//! REST v1: one folder per group of resources, with one file per resource and its routes.
//!
//! Modules from top to bottom: `admin` → `accounts`, `organizations`, `repositories`, `hooks`,
//! `releases`, `pulls`, `reviews`, `service` → `issues`, `git`, `markdown` → `access` → `call`,
//! `response_layer` → `conditional`, `state`.

mod access;
mod accounts;
mod admin;
mod call;
pub(crate) mod conditional;
mod git;
mod hooks;
mod issues;
mod markdown;
mod organizations;
mod pulls;
mod releases;
mod repositories;
mod response_layer;
mod reviews;
mod service;
mod state;

use self::call::groups;
#[cfg(test)]
pub(crate) use self::conditional::ConditionalWrite;
pub use self::issues::ASSIGNEE_WORDS;
pub(crate) use self::response_layer::{Responder, respond};
pub(crate) use self::state::{ApiParts, ApiState};

groups! { accounts admin git hooks issues markdown organizations pulls releases repositories reviews service }

#[cfg(test)]
mod tests;
