//! Authentication: access tokens, passwords and how often they may be tried, and the signing of grants.
//!
//! Order of the files, each using only those after it: `credentials`, `tokens`, `throttle`, `password`, `grants`.
//!
//! Not here: what an authenticated caller may do (`access`), and SQL (`store`).

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
