//! Fixtures of this crate's tests, beside those of the kit: the service on a real socket.

mod service;

pub(crate) use ferrite_db::testing::{on_each_schema, on_each_url};
pub(crate) use ferrite_rpc::testing::{REPOSITORY, TestCaller, reason};
pub(crate) use service::Service;
