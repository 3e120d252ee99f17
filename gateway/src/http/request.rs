//! The JSON bodies of requests as structs, whose fields are read one by one, so that every mistake names its field and all are
//! reported together. What a field takes is said once, by a kind of value ([`Kind`]) and when it must be there ([`Field`]): how it is read
//! and its schema follow from it.
//!
//! `null` counts as absent everywhere. Fields that no struct has are ignored. Not here: the bytes of a body.

use std::convert::Infallible;
use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use ferrite_api_types::schema::{Schema, Schemas, nullable};
use serde_json::{Map, Value, json};

use super::body::JsonBody;
use super::body_limits::{BodyLimits, BodyPermit, MAX_JSON_BYTES};
use super::describe::{BodyDescription, Description, Input};
use super::error::{ApiError, FieldError};

/// The mistakes in a body.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Vec<FieldError>);

impl Mistakes {
    /// Takes a field out of an object and reads it. `None` if there is a mistake in it, which is noted.
    pub(crate) fn read<F: Field>(&mut self, object: &mut Map<String, Value>, name: &str) -> Option<F::Value> {
        F::read(name, object.remove(name).filter(|value| !value.is_null()), self)
    }

    fn add<T>(&mut self, name: &str, code: &'static str, message: &str) -> Option<T> {
        self.0.push(FieldError::new(name, code, message));
        None
    }

    fn add_type<T>(&mut self, name: &str, expected: &str) -> Option<T> {
        self.0.push(FieldError::wrong_type(name, expected));
        None
    }
}

/// A kind of JSON value.
pub(crate) trait Kind {
    /// What is read.
    type Value;

    /// Reads a value that is not null. `None` if it is a mistake, which is noted.
    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Self::Value>;

    /// Returns whether a value counts as absent for fields that must have one.
    fn is_empty(value: &Value) -> bool;

    fn schema() -> Schema;
}

/// A kind of value, and when it must be there.
pub(crate) trait Field {
    /// What is read.
    type Value;

    /// True if every body has the field.
    const IS_REQUIRED: bool = false;

    /// Reads a value; `None` stands for absence. Returns `None` if there is a mistake, which is noted.
    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<Self::Value>;

    fn schema() -> Schema;
}

/// A value that must be there. An empty one counts as absent.
pub(crate) struct Required<K>(PhantomData<K>);

impl<K: Kind> Field for Required<K> {
    type Value = K::Value;

    const IS_REQUIRED: bool = true;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<K::Value> {
        match value.filter(|value| !K::is_empty(value)) {
            Some(value) => K::read(name, value, mistakes),
            None => mistakes.add(name, "required", "is required"),
        }
    }

    fn schema() -> Schema {
        let mut schema = K::schema();
        match schema["type"].as_str() {
            Some("string") => schema["minLength"] = json!(1),
            Some("array") => schema["minItems"] = json!(1),
            _ => {}
        }
        schema
    }
}

/// A value that may be absent. An empty one is a value.
pub(crate) struct Optional<K>(PhantomData<K>);

impl<K: Kind> Field for Optional<K> {
    type Value = Option<K::Value>;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<Option<K::Value>> {
        match value {
            Some(value) => K::read(name, value, mistakes).map(Some),
            None => Some(None),
        }
    }

    fn schema() -> Schema {
        nullable(K::schema())
    }
}

/// A value that may be absent, as an empty one is.
pub(crate) struct NonEmpty<K>(PhantomData<K>);

impl<K: Kind> Field for NonEmpty<K> {
    type Value = Option<K::Value>;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<Option<K::Value>> {
        Optional::<K>::read(name, value.filter(|value| !K::is_empty(value)), mistakes)
    }

    fn schema() -> Schema {
        nullable(K::schema())
    }
}

/// A value that stands for its default when it is absent.
pub(crate) struct OrDefault<K>(PhantomData<K>);

impl<K: Kind<Value: Default>> Field for OrDefault<K> {
    type Value = K::Value;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<K::Value> {
        match value {
            Some(value) => K::read(name, value, mistakes),
            None => Some(K::Value::default()),
        }
    }

    fn schema() -> Schema {
        nullable(K::schema())
    }
}

/// A text without NUL characters. The service refuses one of more than `MAX` characters.
pub(crate) enum Text<const MAX: usize> {}

impl<const MAX: usize> Kind for Text<MAX> {
    type Value = String;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<String> {
        match value {
            Value::String(text) if text.contains('\0') => {
                mistakes.add(name, "invalid", "must not contain NUL characters")
            }
            Value::String(text) => Some(text),
            _ => mistakes.add_type(name, "a string"),
        }
    }

    fn is_empty(value: &Value) -> bool {
        value.as_str().is_some_and(str::is_empty)
    }

    fn schema() -> Schema {
        json!({"type": "string", "maxLength": MAX})
    }
}

/// A list of whole numbers. The service refuses one of more than `MAX`.
pub(crate) enum Integers<const MAX: usize> {}

impl<const MAX: usize> Kind for Integers<MAX> {
    type Value = Vec<i64>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<i64>> {
        let numbers = value.as_array().and_then(|items| items.iter().map(Value::as_i64).collect());
        numbers.or_else(|| mistakes.add_type(name, "a list of whole numbers"))
    }

    fn is_empty(value: &Value) -> bool {
        value.as_array().is_some_and(Vec::is_empty)
    }

    fn schema() -> Schema {
        json!({"type": "array", "items": {"type": "integer", "format": "int64"}, "maxItems": MAX})
    }
}

/// A struct of the fields of a body, as [`fields!`] makes it.
pub(crate) trait Fields: Sized {
    /// Most bytes of the body.
    const MAX_BYTES: usize = MAX_JSON_BYTES;
    /// The field that the body may be alone, as a list.
    const LIST_FIELD: Option<&'static str> = None;

    /// Reads the fields. `None` if there are mistakes, which are noted.
    fn read(object: &mut Map<String, Value>, mistakes: &mut Mistakes) -> Option<Self>;

    fn schema(schemas: &mut Schemas) -> Schema;
}

/// Makes a struct of the fields of a body: `fields! { struct Name { field: Required<Text<50>> = "an example" } }`. Each field has the type
/// of what is read. `struct Name | field` may be a list as well, which stands for that field.
macro_rules! fields {
    (
        $(#[doc = $about:literal])*
        struct $name:ident $(| $list:ident)? {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $kind:ty = $example:expr
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])*
        struct $name {
            $(
                $(#[doc = $doc])*
                $field: <$kind as $crate::http::request::Field>::Value
            ),+
        }

        impl $crate::http::request::Fields for $name {
            $(const LIST_FIELD: Option<&'static str> = Some(stringify!($list));)?

            fn read(
                object: &mut serde_json::Map<String, serde_json::Value>,
                mistakes: &mut $crate::http::request::Mistakes,
            ) -> Option<Self> {
                $(let $field = mistakes.read::<$kind>(object, stringify!($field));)+
                Some(Self { $($field: $field?),+ })
            }

            fn schema(schemas: &mut ferrite_api_types::schema::Schemas) -> ferrite_api_types::schema::Schema {
                schemas.object(stringify!($name), &[$($about),*], |fields, _| {
                    $(
                        let mut schema = <$kind as $crate::http::request::Field>::schema();
                        schema["examples"] = serde_json::json!([$example]);
                        let is_required = <$kind as $crate::http::request::Field>::IS_REQUIRED;
                        fields.add(stringify!($field), &[$($doc),*], schema, is_required);
                    )+
                })
            }
        }
    };
}

pub(crate) use fields;

/// A body with the fields `T` that is not read yet: a handler checks permissions first.
pub(crate) struct RequestBody<T> {
    body: JsonBody,
    fields: PhantomData<fn() -> T>,
}

impl<S: Send + Sync, T> FromRequest<S> for RequestBody<T> {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(Self { body: JsonBody::of(request), fields: PhantomData })
    }
}

impl<T: Fields> RequestBody<T> {
    /// Reads the fields. The caller holds the permit until the request is done.
    ///
    /// # Errors
    /// As [`JsonBody::fields`], and 422 with all mistakes.
    pub(crate) async fn read(self, limits: &BodyLimits) -> Result<(T, BodyPermit), ApiError> {
        let (mut object, permit) = self.body.object(limits, T::MAX_BYTES, T::LIST_FIELD).await?;
        let mut mistakes = Mistakes::default();
        match T::read(&mut object, &mut mistakes) {
            Some(fields) => Ok((fields, permit)),
            None => Err(ApiError::invalid(mistakes.0)),
        }
    }
}

impl<T: Fields> Input for RequestBody<T> {
    fn describe(about: &mut Description) {
        about.body = Some(BodyDescription { schema: body_schema::<T>, max_bytes: T::MAX_BYTES });
    }
}

/// Returns the schema of a body: that of its fields, and of the list that may stand for one of them.
fn body_schema<T: Fields>(schemas: &mut Schemas) -> Schema {
    let object = T::schema(schemas);
    let list = T::LIST_FIELD.and_then(|name| schemas.resolve(&object)?["properties"].get(name).cloned());
    match list {
        Some(list) => json!({"anyOf": [object, list]}),
        None => object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::fields::FieldReader;
    use crate::http::json_value::parse_object;

    fields! {
        /// One field of each kind.
        /// And a list.
        struct Sample | numbers {
            /// Its name.
            name: Required<Text<50>> = "bug",
            title: NonEmpty<Text<50>> = "a title",
            color: Optional<Text<7>> = "#e11d21",
            body: OrDefault<Text<100>> = "a text",
            numbers: OrDefault<Integers<100>> = [1, 2],
        }
    }

    /// Reads a body by [`Sample`] and by the methods of a [`FieldReader`].
    fn read_both(body: &str) -> [String; 2] {
        let object = || parse_object(body.as_bytes(), None).unwrap();
        let mut mistakes = Mistakes::default();
        let sample = Sample::read(&mut object(), &mut mistakes);
        let by_struct = match sample {
            Some(Sample { name, title, color, body, numbers }) => Ok((name, title, color, body, numbers)),
            None => Err(ApiError::invalid(mistakes.0)),
        };
        let mut reader = FieldReader::new(object(), BodyPermit::default());
        let read = (
            reader.required_non_empty("name"),
            reader.optional_non_empty("title"),
            reader.optional_text("color"),
            reader.text_or_empty("body"),
            reader.numbers("numbers"),
        );
        let by_reader = reader.finish().map(|_| read);
        [format!("{by_struct:?}"), format!("{by_reader:?}")]
    }

    #[test]
    fn a_struct_reads_what_a_reader_reads_and_notes_the_same_mistakes() {
        let values = ["null", "\"\"", "\"x\"", "\"a\\u0000b\"", "7", "true", "{}", "[]", "[1,2]", "[1,\"2\"]", "[1.5]"];
        for value in values {
            let fields = ["name", "title", "color", "body", "numbers"].map(|name| format!("\"{name}\":{value}"));
            for body in fields.iter().map(|field| format!("{{\"name\":\"n\",\"other\":{value},{field}}}")).chain([
                "{}".to_owned(),
                format!("{{{}}}", fields.join(",")),
                format!("{{{}}}", fields[1..].join(",")),
            ]) {
                let [by_struct, by_reader] = read_both(&body);
                assert_eq!(by_struct, by_reader, "{body}");
            }
        }
    }

    #[test]
    fn a_body_is_described_as_it_is_read() {
        let mut schemas = Schemas::default();
        let text = |max| json!({"type": ["string", "null"], "maxLength": max});
        let with = |mut schema: Schema, example: Value| {
            schema["examples"] = json!([example]);
            schema
        };
        let numbers = json!({
            "type": ["array", "null"], "items": {"type": "integer", "format": "int64"}, "maxItems": 100,
            "examples": [[1, 2]],
        });
        let expected = json!({"anyOf": [{"$ref": "#/components/schemas/Sample"}, numbers]});
        assert_eq!(body_schema::<Sample>(&mut schemas), expected);
        let sample = json!({
            "type": "object",
            "description": "One field of each kind. And a list.",
            "properties": {
                "name": {
                    "type": "string", "minLength": 1, "maxLength": 50, "examples": ["bug"], "description": "Its name.",
                },
                "title": with(text(50), "a title".into()),
                "color": with(text(7), "#e11d21".into()),
                "body": with(text(100), "a text".into()),
                "numbers": numbers,
            },
            "required": ["name"],
        });
        assert_eq!(json!(schemas.into_map()), json!({"Sample": sample}));
    }
}
