//! Authentication: access tokens, passwords and their throttling, and signing of grants.
//!
//! Each file uses only those after it: `credentials`, `tokens`, `throttle`, `password`, `grants`.

mod credentials;
mod grants;
mod password;
mod throttle;
mod tokens;

pub(crate) use credentials::{ClientAddress, CredentialChecker, PasswordProof};
pub(crate) use grants::Grants;
pub(crate) use password::Passwords;
pub(crate) use throttle::Throttle;
pub(crate) use tokens::{LastUse, TokenAuthenticator};
