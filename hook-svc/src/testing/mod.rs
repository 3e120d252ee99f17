//! What tests of this service stand on, beside what the kit has for all: the service behind a real socket.

mod service;

pub(crate) use ferrite_kit::testing::{REPOSITORY, TestCaller, on_each_schema, on_each_url, reason};
pub(crate) use service::Service;
