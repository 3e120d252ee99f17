//! What the tests of this crate stand on: both databases, and the service itself on a real socket.

mod database;
mod harness;

pub(crate) use database::on_both;
pub(crate) use harness::{Harness, PASSWORD, StoreMode, basic, with_token};
