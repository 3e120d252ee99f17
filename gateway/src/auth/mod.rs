//! Credentials of requests and the metadata of calls. Nothing is checked here: repo-svc decides whether a credential is valid.
//!
//! `credential` reads the header of the API, `git_credentials` that of git over HTTP, whose rules differ; `context` has the
//! extractors for handlers. Uses `upstream` and `http`.

mod context;
mod credential;
pub(crate) mod git_credentials;

pub(crate) use context::{Authenticated, BasicAuth, MaybeAuthenticated, RequestContext, with_timeout};
pub(crate) use credential::InvalidCredential;
