//! Credentials of requests. Nothing is checked here: repo-svc decides whether a credential is valid.
//!
//! Uses `upstream` and `http`.

mod credential;

pub(crate) use credential::{Credential, InvalidCredential, credential_check};
