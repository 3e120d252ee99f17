//! Credentials of requests and the metadata of calls. Nothing is checked here: repo-svc decides whether a credential is valid.
//!
//! `credential` reads the header; `context` has the extractors for handlers of the API, `body_check` the question that long bodies
//! wait for. Uses `upstream` and `http`.

mod body_check;
mod context;
mod credential;

pub(crate) use body_check::credential_check;
pub(crate) use context::{Authenticated, BasicAuth, MaybeAuthenticated, RequestContext, with_timeout};
pub(crate) use credential::{Credential, InvalidCredential};
