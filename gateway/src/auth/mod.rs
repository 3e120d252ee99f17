//! Credentials of requests, unchecked: repo-svc checks them.

mod context;
pub(crate) mod git_credentials;

pub(crate) use context::{Anyone, Call, Headers, Password, Signed, within};
