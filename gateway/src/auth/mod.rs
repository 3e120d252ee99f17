//! Credentials of requests. Nothing is checked here: repo-svc decides whether a credential is valid.
//!
//! `credential` reads the header; `body_check` has the question that long bodies wait for. Uses `upstream` and `http`.

mod body_check;
mod credential;

pub(crate) use body_check::credential_check;
pub(crate) use credential::{Credential, InvalidCredential};
