//! Who is calling, and may they: the same answer in every service.
//!
//! A request proves itself by a grant, a personal access token, or a service credential (metadata names in
//! [`ferrite_proto::metadata`]). [`AuthLayer`] checks whatever came along and refuses requests that bring nothing; an RPC then
//! takes the [`Caller`] from the request and asks [`Access`] for its grant.
//!
//! Not here: who may do what. That is repo-svc's to know; this module only carries its answers.

mod access;
mod caller;
mod error;
mod layer;
mod token_authority;
mod token_cache;
mod token_hash;
mod token_validator;

#[cfg(test)]
mod tests;

pub use access::Access;
pub use caller::Caller;
pub use error::AuthError;
pub use layer::AuthLayer;
pub use token_authority::TokenAuthority;
pub use token_cache::TokenCache;
pub use token_hash::TokenHash;
pub use token_validator::TokenValidator;
