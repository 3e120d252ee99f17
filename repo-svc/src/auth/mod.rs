//! Authentication: access tokens, passwords and how often they may be tried, and the signing of grants.
//!
//! Order of the files, each using only those after it: `credentials`, `tokens`, `throttle`, `password`, `grants`, `last_use`,
//! `client_address`.
//!
//! Not here: what an authenticated caller may do (`access`), and SQL (`store`).

mod client_address;
mod credentials;
mod grants;
mod last_use;
mod password;
mod throttle;
mod tokens;

pub(crate) use client_address::ClientAddress;
pub(crate) use credentials::{CredentialChecker, PasswordProof};
pub(crate) use grants::Grants;
pub(crate) use last_use::LastUse;
pub(crate) use password::Passwords;
pub(crate) use throttle::Throttle;
pub(crate) use tokens::TokenAuthenticator;
