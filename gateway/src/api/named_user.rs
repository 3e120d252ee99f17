//! The user that a route names: routes of `/user` and those of `/users/{username}` have one handler.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;

use crate::http::path::Params;

/// The `{username}` of a route; `None` on a route without one, which is about the caller.
pub(super) struct NamedUser(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for NamedUser {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let template = parts.extensions.get::<MatchedPath>();
        let is_named = template.is_some_and(|template| template.as_str().contains("/{username}"));
        let params = Params::from_request_parts(parts, state).await?;
        Ok(Self(is_named.then(|| params.name("username"))))
    }
}
