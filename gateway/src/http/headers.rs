//! Request headers that only one handler uses, such as `Prefer`.

use std::convert::Infallible;
use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde_json::json;

use super::describe::{Description, Input, Parameter};

pub(crate) trait HeaderNames {
    const HEADERS: &'static [(&'static str, &'static str)];
}

pub(crate) enum RangeHeaders {}

pub(crate) enum DatedRangeHeaders {}

impl HeaderNames for RangeHeaders {
    const HEADERS: &'static [(&'static str, &'static str)] = &[
        ("Range", "The byte range to return."),
        (
            "If-Range",
            "The entity tag of the file that the client has in part. If it has changed, the whole file is returned.",
        ),
    ];
}

impl HeaderNames for DatedRangeHeaders {
    const HEADERS: &'static [(&'static str, &'static str)] = &[
        RangeHeaders::HEADERS[0],
        RangeHeaders::HEADERS[1],
        ("If-Modified-Since", "The date of the file that the client has. Ignored if `If-None-Match` is present."),
    ];
}

/// All headers of a request. The handler uses those of `N`.
pub(crate) struct Headers<N> {
    pub(crate) map: HeaderMap,
    names: PhantomData<fn() -> N>,
}

impl<S: Send + Sync, N> FromRequestParts<S> for Headers<N> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self { map: parts.headers.clone(), names: PhantomData })
    }
}

impl<N: HeaderNames> Input for Headers<N> {
    fn describe(about: &mut Description) {
        let headers = N::HEADERS.iter();
        about.headers.extend(headers.map(|(name, text)| Parameter::new(name, &[*text], json!({"type": "string"}))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn headers_are_all_there_and_some_are_described() {
        let request = axum::http::Request::builder().header("range", "bytes=0-1").header("x", "y").body(()).unwrap();
        let (mut parts, ()) = request.into_parts();
        let Ok(headers) = Headers::<RangeHeaders>::from_request_parts(&mut parts, &()).await;
        assert_eq!(headers.map["range"], "bytes=0-1");
        let mut about = Description::default();
        Headers::<RangeHeaders>::describe(&mut about);
        let names: Vec<_> = about.headers.iter().map(|one| one.name).collect();
        assert_eq!(names, ["Range", "If-Range"]);
    }
}
