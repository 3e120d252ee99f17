//! Credentials of requests. repo-svc decides whether a credential is valid.

mod credential;

pub(crate) use credential::{CROSS_SITE, Credential, InvalidCredential, credential_check, is_cross_site};
