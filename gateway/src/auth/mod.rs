//! Credentials of requests. repo-svc decides whether a credential is valid.

mod credential;

pub(crate) use credential::{Credential, InvalidCredential, credential_check};
