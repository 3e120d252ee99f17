//! Describes what a handler takes and returns, read off its signature, for the OpenAPI document.

use axum::Extension;
use axum::http::{HeaderMap, Method};
use ferrite_api_types::schema::{Schema, Schemas};
use serde_json::json;

use super::error::ApiError;

pub type SchemaFn = fn(&mut Schemas) -> Schema;

pub(super) const JSON: &str = "application/json";

#[derive(Clone, Debug, Default)]
pub struct Description {
    pub query: Vec<Parameter>,
    /// Headers that only this handler uses.
    pub headers: Vec<Parameter>,
    pub bodies: Vec<BodyDescription>,
    /// Success responses. Several can have the same status.
    pub responses: Vec<Success>,
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub about: String,
    pub schema: Schema,
}

impl Parameter {
    /// `about` has the lines of a doc comment.
    pub(crate) fn new(name: &'static str, about: &[&str], schema: Schema) -> Self {
        let lines: Vec<_> = about.iter().map(|line| line.trim()).collect();
        Self { name, about: lines.join(" "), schema }
    }
}

#[derive(Clone, Debug)]
pub struct BodyDescription {
    pub media_type: &'static str,
    pub schema: SchemaFn,
    /// `None` if a setting has the limit.
    pub max_bytes: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Success {
    pub status: u16,
    /// Media type and schema of its body; `None` for a response without a body.
    pub body: Option<(&'static str, SchemaFn)>,
    /// Headers that follow from the handler's return type.
    pub headers: &'static [&'static str],
}

impl Success {
    pub(crate) fn json(status: u16, schema: SchemaFn) -> Self {
        Self { status, body: Some((JSON, schema)), headers: &[] }
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self { status, body: None, headers: &[] }
    }

    pub(crate) fn other(status: u16, media_type: &'static str, schema: SchemaFn) -> Self {
        Self { status, body: Some((media_type, schema)), headers: &[] }
    }

    /// Whether the response has an entity tag as the response of a read: all JSON has one, others
    /// if they say so.
    pub(crate) fn has_tag(&self) -> bool {
        let is_json = self.body.is_some_and(|(media_type, _)| media_type == JSON);
        self.status == 200 && (is_json || self.headers.contains(&"ETag"))
    }

    pub(crate) fn with_headers(self, headers: &'static [&'static str]) -> Self {
        Self { headers, ..self }
    }
}

/// The schema of bytes in a response, which allows anything.
pub(crate) fn bytes_schema(_: &mut Schemas) -> Schema {
    json!({})
}

/// The schema of a file in a request. Client generators recognize files by this format, and treat
/// any other body as a value.
pub(crate) fn file_schema(_: &mut Schemas) -> Schema {
    json!({"type": "string", "format": "binary"})
}

/// A part of a request that a handler takes. Paths and credentials add nothing: the route and the
/// contract describe them.
pub(crate) trait Input {
    fn describe(_: &mut Description) {}
}

/// A handler that takes all headers adds none: `Accept` and the range headers belong to the
/// response.
impl Input for HeaderMap {}

impl Input for Method {}

impl<T> Input for Extension<T> {}

impl<T: Input> Input for Option<T> {
    fn describe(about: &mut Description) {
        T::describe(about);
    }
}

pub(crate) trait Output {
    fn describe(about: &mut Description);
}

pub(crate) trait Handler<Inputs> {
    fn describe(about: &mut Description);
}

macro_rules! handlers {
    ($([$($input:ident)+])+) => {$(
        impl<F, R, T, $($input),+> Handler<($($input,)+)> for F
        where
            F: Fn($($input),+) -> R,
            R: Future<Output = Result<T, ApiError>>,
            T: Output,
            $($input: Input,)+
        {
            fn describe(about: &mut Description) {
                $(<$input as Input>::describe(about);)+
                <T as Output>::describe(about);
            }
        }
    )+};
}

handlers! { [A] [A B] [A B C] [A B C D] [A B C D E] [A B C D E G] }

pub(crate) fn describe<Inputs, H: Handler<Inputs>>(_: H, about: &mut Description) {
    <H as Handler<Inputs>>::describe(about);
}
