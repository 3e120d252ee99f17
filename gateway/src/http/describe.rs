//! What the handler of a route takes and returns, read off its signature, for the API's document.
//!
//! Not here: what the contract says about an operation: its comment, its errors, who may call it, and whether it writes.

use axum::Extension;
use axum::http::{HeaderMap, Method};
use ferrite_api_types::schema::{Schema, Schemas};
use serde_json::json;

use super::error::ApiError;

/// A function that returns a schema and adds its named parts to the others.
pub type SchemaFn = fn(&mut Schemas) -> Schema;

/// Media type of JSON.
pub(super) const JSON: &str = "application/json";

/// What a handler takes and returns.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The parameters of the query.
    pub query: Vec<Parameter>,
    /// The headers that mean something to this handler alone.
    pub headers: Vec<Parameter>,
    /// The body of the request, one for each media type that it may have.
    pub bodies: Vec<BodyDescription>,
    /// The responses of success. Several may have the same status.
    pub responses: Vec<Success>,
}

/// A parameter of the query, or a header.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: String,
    /// Its values.
    pub schema: Schema,
}

impl Parameter {
    /// Makes the parameter with the lines of its comment.
    pub(crate) fn new(name: &'static str, about: &[&str], schema: Schema) -> Self {
        let lines: Vec<_> = about.iter().map(|line| line.trim()).collect();
        Self { name, about: lines.join(" "), schema }
    }
}

/// The body of a request.
#[derive(Clone, Debug)]
pub struct BodyDescription {
    /// Its media type.
    pub media_type: &'static str,
    /// Its value.
    pub schema: SchemaFn,
    /// Most bytes; `None` if a setting says how many.
    pub max_bytes: Option<usize>,
}

/// A response of success.
#[derive(Clone, Debug)]
pub struct Success {
    /// Its status.
    pub status: u16,
    /// The media type and the value of its body; `None` for a response without a body.
    pub body: Option<(&'static str, SchemaFn)>,
    /// The headers that it has because of what the handler returns.
    pub headers: &'static [&'static str],
}

impl Success {
    /// Makes a response with a JSON value.
    pub(crate) fn json(status: u16, schema: SchemaFn) -> Self {
        Self { status, body: Some((JSON, schema)), headers: &[] }
    }

    /// Makes a response without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Self { status, body: None, headers: &[] }
    }

    /// Makes a response with a text or bytes.
    pub(crate) fn other(status: u16, media_type: &'static str, schema: SchemaFn) -> Self {
        Self { status, body: Some((media_type, schema)), headers: &[] }
    }

    /// Returns whether the response of a read has a tag: all JSON has one, and of the rest, what says so.
    pub(crate) fn has_tag(&self) -> bool {
        let is_json = self.body.is_some_and(|(media_type, _)| media_type == JSON);
        self.status == 200 && (is_json || self.headers.contains(&"ETag"))
    }

    /// Returns the same response with headers.
    pub(crate) fn with_headers(self, headers: &'static [&'static str]) -> Self {
        Self { headers, ..self }
    }
}

/// The schema of bytes in a response, which allows anything.
pub(crate) fn bytes_schema(_: &mut Schemas) -> Schema {
    json!({})
}

/// The schema of a file in a request. Generators of clients know files by this format, and take any other body for a value.
pub(crate) fn file_schema(_: &mut Schemas) -> Schema {
    json!({"type": "string", "format": "binary"})
}

/// A part of a request that a handler takes. Paths and credentials add nothing: the route and the contract tell about them.
pub(crate) trait Input {
    /// Adds the part to the description.
    fn describe(_: &mut Description) {}
}

/// A handler that takes all headers says nothing about them: `Accept` and those of ranges go with the response.
impl Input for HeaderMap {}

impl Input for Method {}

impl<T> Input for Extension<T> {}

impl<T: Input> Input for Option<T> {
    fn describe(about: &mut Description) {
        T::describe(about);
    }
}

/// The response of a handler that succeeds.
pub(crate) trait Output {
    /// Adds the response to the description.
    fn describe(about: &mut Description);
}

/// An asynchronous function that takes `Inputs`.
pub(crate) trait Handler<Inputs> {
    /// Adds the inputs and the output to the description.
    fn describe(about: &mut Description);
}

/// Implements [`Handler`] for functions of each number of inputs.
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

/// Adds what a handler takes and returns to the description.
pub(crate) fn describe<Inputs, H: Handler<Inputs>>(_: H, about: &mut Description) {
    <H as Handler<Inputs>>::describe(about);
}
