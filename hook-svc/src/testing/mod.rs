//! Fixtures of this crate's tests, beside those of the kit: the service on a real socket.

mod service;

pub(crate) use ferrite_kit::testing::{REPOSITORY, TestCaller, on_each_schema, on_each_url, reason};
pub(crate) use service::Service;
