//! Authentication and authorization of requests, the same in every service.
//!
//! A request carries a grant, a personal access token, a service token, or several of them (metadata names in
//! [`ferrite_proto::metadata`]). [`AuthLayer`] verifies each one that is present and refuses a request without any; an RPC then takes
//! the [`Caller`] from the request and asks [`Authorizer`] for its grant.
//!
//! Not here: permissions. repo-svc decides who may do what; its grants and responses are only passed on.

mod authorizer;
mod caller;
mod error;
mod layer;
mod token_cache;
mod token_validator;

pub use authorizer::{Authorizer, OperationSubject};
pub use caller::Caller;
pub use error::AuthError;
pub use layer::AuthLayer;
pub use token_cache::{TokenCache, TokenCacheWriter, TokenHash};
pub use token_validator::{TokenAuthority, TokenValidator, has_token_form};
