//! JSON request bodies as structs. Fields are read one by one, so that errors name their field and
//! are reported all at once. One definition gives parsing and schema: the kind of value ([`Kind`])
//! and whether it is required ([`Field`]).
//!
//! `null` counts as absent except in [`Nullable`]. Unknown fields are ignored.

mod composed;
mod field;
mod kinds;

use std::convert::Infallible;
use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use ferrite_api_types::schema::{Schema, Schemas};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::body_limits::{BodyLimits, BodyPermit, MAX_JSON_BYTES};
use super::describe::{BodyDescription, Description, Input, JSON};
use super::error::{ApiError, FieldError};

pub(crate) use self::composed::{Integers, Object, Objects, TextMap, Texts};
pub(crate) use self::field::{
    Checked, Clearable, NonBlank, NonEmpty, Nullable, Optional, OrDefault, Present, Required, Unsupported,
    WithoutEffect,
};
pub(crate) use self::kinds::{AccountName, Base64, Email, Flag, Integer, LongText, Seconds, Text, Word};
pub(crate) use super::times::OffsetTime;
pub(crate) use ferrite_api_types::Time;

/// The fields of an object that are not read yet.
pub(crate) type JsonObject = serde_json::Map<String, Value>;

#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    errors: Vec<FieldError>,
    /// Path of the current object with a trailing dot; empty for the body itself.
    prefix: String,
    /// The number of errors that the service finds as well.
    left_to_service: usize,
}

impl Mistakes {
    /// Removes a field from an object and reads it. On an error, notes it and returns `None`.
    pub(crate) fn read<F: Field>(&mut self, object: &mut JsonObject, name: &str) -> Option<F::Value> {
        F::read(name, take::<F>(object, name), self)
    }

    /// As [`Self::read`], for a field with two names. Both may be given if their values are the same.
    pub(crate) fn read_either<F: Field>(&mut self, object: &mut JsonObject, names: [&str; 2]) -> Option<F::Value> {
        let [first, second] = names.map(|name| take::<F>(object, name));
        let Some(first) = first else {
            let name = names[usize::from(second.is_some())];
            return F::read(name, second, self);
        };
        let is_same = second.as_ref().is_none_or(|second| *second == first);
        let read = F::read(names[0], Some(first), self);
        if second.is_some() && F::read(names[1], second, self).is_some() && read.is_some() && !is_same {
            return self.add(names[1], "invalid", &format!("must be the same as `{}`", names[0]));
        }
        read
    }

    pub(crate) fn note(&mut self, name: &str, code: &'static str, message: &str) {
        self.errors.push(FieldError::new(&format!("{}{name}", self.prefix), code, message));
    }

    /// Moves the errors of a field with this code to the end.
    pub(crate) fn move_last(&mut self, name: &str, code: &str) {
        self.errors.sort_by_key(|error| error.field == name && error.code == code);
    }

    /// As [`Self::note`], returning `None` as the field's value.
    pub(crate) fn add<T>(&mut self, name: &str, code: &'static str, message: &str) -> Option<T> {
        self.note(name, code, message);
        None
    }

    /// Adds the error of an absent field that the service checks as well, and returns the value for
    /// the service.
    fn add_absent<T: Default>(&mut self, name: &str) -> Option<T> {
        self.note(name, "required", "is required");
        self.left_to_service += 1;
        Some(T::default())
    }

    pub(crate) fn add_type<T>(&mut self, name: &str, expected: &str) -> Option<T> {
        self.errors.push(FieldError::wrong_type(&format!("{}{name}", self.prefix), expected));
        None
    }

    /// Calls `read` for the object in the field `name`.
    fn within<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.prefix.clone();
        self.prefix = format!("{outer}{name}.");
        let object = read(self);
        self.prefix = outer;
        object
    }

    /// Returns what was read, or 422 with all errors unless the service finds them all.
    fn finish<T>(self, read: Option<T>) -> Result<T, ApiError> {
        match read {
            Some(read) if self.errors.len() == self.left_to_service => Ok(read),
            _ => Err(ApiError::invalid(self.errors)),
        }
    }
}

fn take<F: Field>(object: &mut JsonObject, name: &str) -> Option<Value> {
    object.remove(name).filter(|value| F::TAKES_NULL || !value.is_null())
}

pub(crate) trait Kind {
    type Value;

    /// Reads a value other than null. On an error, notes it and returns `None`.
    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Self::Value>;

    /// Whether the value counts as absent in [`Required`] and similar fields.
    fn is_empty(_: &Value) -> bool {
        false
    }

    fn schema(schemas: &mut Schemas) -> Schema;
}

pub(crate) trait Field {
    type Value;

    const IS_REQUIRED: bool = false;
    /// Whether null is a value of its own.
    const TAKES_NULL: bool = false;

    /// Reads a value; `value` is `None` if it is absent. On an error, notes it and returns `None`.
    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<Self::Value>;

    fn schema(schemas: &mut Schemas) -> Schema;
}

/// The fields of a body or of an object in it, defined by [`fields!`].
pub(crate) trait Fields: Sized {
    const MAX_BYTES: usize = MAX_JSON_BYTES;
    /// The field for which the body can be a plain array.
    const LIST_FIELD: Option<&'static str> = None;

    /// Reads the fields. On errors, notes them and returns `None`.
    fn read(object: &mut JsonObject, mistakes: &mut Mistakes) -> Option<Self>;

    fn schema(schemas: &mut Schemas) -> Schema;
}

pub(crate) fn with_example(mut schema: Schema, example: Value) -> Schema {
    schema["examples"] = Value::Array(vec![example]);
    schema
}

/// Defines a struct of the fields of a body: `fields! { struct Name { field: Required<Text<50>> =
/// "an example" } }`. Each field gets the type of the parsed value.
///
/// - `struct Name | field`: the body can also be a plain array, which is read as that field.
/// - `#[max_bytes = …] struct Name`: a size limit other than that of ordinary bodies.
/// - `kind as "type": …`: called `type` in the body.
/// - `text | "Text": …`: a field with two names.
/// - `..part: Part`, at the beginning: includes the fields of another struct, which are read first.
macro_rules! fields {
    (
        $(#[doc = $about:literal])*
        $(#[max_bytes = $max_bytes:expr])?
        $seen:vis struct $name:ident $(| $list:ident)? {
            $(..$part:ident: $part_fields:ty,)?
            $(
                $(#[doc = $doc:literal])*
                $field_seen:vis $field:ident $(as $wire:literal)? $(| $other:literal)?: $kind:ty $(= $example:expr)?
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])*
        $seen struct $name {
            $($part: $part_fields,)?
            $(
                $(#[doc = $doc])*
                $field_seen $field: <$kind as $crate::http::request::Field>::Value
            ),+
        }

        impl $crate::http::request::Fields for $name {
            $(const MAX_BYTES: usize = $max_bytes;)?
            $(const LIST_FIELD: Option<&'static str> = Some(stringify!($list));)?

            fn read(
                object: &mut $crate::http::request::JsonObject,
                mistakes: &mut $crate::http::request::Mistakes,
            ) -> Option<Self> {
                $(let $part = <$part_fields as $crate::http::request::Fields>::read(object, mistakes);)?
                $(
                    let name = $crate::http::request::wire_name!($field $($wire)?);
                    let $field = $crate::http::request::read_field!(mistakes, object, $kind, name $(, $other)?);
                )+
                Some(Self { $($part: $part?,)? $($field: $field?),+ })
            }

            fn schema(schemas: &mut ferrite_api_types::schema::Schemas) -> ferrite_api_types::schema::Schema {
                schemas.object(concat!(module_path!(), "::", stringify!($name)), &[$($about),*], |fields, schemas| {
                    $(
                        let part = <$part_fields as $crate::http::request::Fields>::schema(schemas);
                        fields.add_fields_of(&part, schemas);
                    )?
                    $(
                        let schema = <$kind as $crate::http::request::Field>::schema(schemas);
                        $(let schema = $crate::http::request::with_example(schema, serde_json::json!($example));)?
                        let is_required = <$kind as $crate::http::request::Field>::IS_REQUIRED;
                        let name = $crate::http::request::wire_name!($field $($wire)?);
                        fields.add(name, &[$($doc),*], schema, is_required);
                    )+
                })
            }
        }
    };
}

/// The name of a field or parameter on the wire.
macro_rules! wire_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $wire:literal) => {
        $wire
    };
}

macro_rules! read_field {
    ($mistakes:ident, $object:ident, $kind:ty, $name:ident) => {
        $mistakes.read::<$kind>($object, $name)
    };
    ($mistakes:ident, $object:ident, $kind:ty, $name:ident, $other:literal) => {
        $mistakes.read_either::<$kind>($object, [$name, $other])
    };
}

pub(crate) use {fields, read_field, wire_name};

/// A body with the fields `T`, not read yet: a handler checks permissions first.
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
    /// Reads the fields. The caller holds the permit until the request is done. Errors as
    /// [`JsonBody::object`], and 422 with all field errors.
    pub(crate) async fn read(self, limits: &BodyLimits) -> Result<(T, BodyPermit), ApiError> {
        self.read_with(limits, T::read).await
    }

    /// As [`Self::read`], with a function that calls [`Fields::read`] and can note further errors
    /// before or after it.
    pub(crate) async fn read_with<R>(
        self,
        limits: &BodyLimits,
        read: impl FnOnce(&mut JsonObject, &mut Mistakes) -> Option<R>,
    ) -> Result<(R, BodyPermit), ApiError> {
        let (mut object, permit) = self.body.object(limits, T::MAX_BYTES, T::LIST_FIELD).await?;
        let mut mistakes = Mistakes::default();
        let read = read(&mut object, &mut mistakes);
        Ok((mistakes.finish(read)?, permit))
    }

    /// Whether the body can exceed the limit for clients that are not authenticated.
    pub(crate) fn may_be_long(&self) -> bool {
        self.body.may_be_long()
    }

    /// Returns the unread body, for one that can have another media type.
    pub(crate) fn into_body(self) -> JsonBody {
        self.body
    }

    /// Returns the media type in lower case, without parameters; empty if there is none.
    pub(crate) fn media_type(&self) -> String {
        self.body.media_type()
    }
}

impl<T: Fields> Input for RequestBody<T> {
    fn describe(about: &mut Description) {
        let max_bytes = Some(T::MAX_BYTES);
        about.bodies.push(BodyDescription { media_type: JSON, schema: body_schema::<T>, max_bytes });
    }
}

/// Returns the schema of the fields, or of the array that can replace them.
fn body_schema<T: Fields>(schemas: &mut Schemas) -> Schema {
    let object = T::schema(schemas);
    let list = T::LIST_FIELD.and_then(|name| schemas.resolve(&object)?["properties"].get(name).cloned());
    match list {
        Some(list) => json!({"anyOf": [object, list]}),
        None => object,
    }
}

#[cfg(test)]
mod tests;
