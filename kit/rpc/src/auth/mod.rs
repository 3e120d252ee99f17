//! Authentication and authorization of requests, the same in every service.
//!
//! A request carries a grant, a personal access token, a service token, or several of them (see
//! [`ferrite_proto::metadata`]). [`AuthLayer`] verifies all of them and rejects a request without
//! any. An RPC takes the [`Caller`] from the request and asks [`Authorizer`] for its grant.
//! repo-svc decides about permissions.

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
