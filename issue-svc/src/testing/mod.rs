mod pull_peer;
mod service;

pub(crate) use ferrite_db::testing::{on_each_schema, on_each_url};
pub(crate) use ferrite_rpc::testing::{REPOSITORY, TestCaller, reason};
pub(crate) use pull_peer::PullPeer;
pub(crate) use service::Service;
