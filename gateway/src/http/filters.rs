//! Query parameters as structs: one definition gives parsing and schema. Errors name their
//! parameter and are reported all at once.

use std::convert::Infallible;
use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use ferrite_api_types::schema::{Schema, Schemas, Shape};
use prost_types::Timestamp;
use serde_json::json;

use super::describe::{Description, Input, Parameter};
use super::error::{ApiError, FieldError};
use super::query::Query;
use super::request::{Flag, Integer, Kind, Text, Time, Word};
use super::words::{Words, word_schema};

pub(crate) trait Filter {
    type Value;

    /// Reads the first parameter with this name.
    fn read(query: &Query, name: &str) -> Result<Self::Value, FieldError>;

    fn schema() -> Schema;
}

/// A search text, empty if absent. NUL becomes U+FFFD.
pub(crate) enum Search {}

impl Filter for Search {
    type Value = String;

    fn read(query: &Query, name: &str) -> Result<String, FieldError> {
        Ok(query.filter(name))
    }

    fn schema() -> Schema {
        json!({"type": "string"})
    }
}

/// A path or revision, not necessarily UTF-8; empty if absent.
pub(crate) enum RawText {}

impl Filter for RawText {
    type Value = Vec<u8>;

    fn read(query: &Query, name: &str) -> Result<Vec<u8>, FieldError> {
        Ok(query.bytes(name).unwrap_or_default())
    }

    fn schema() -> Schema {
        json!({"type": "string"})
    }
}

/// An empty text counts as absent.
impl<const MAX: usize> Filter for Text<MAX> {
    type Value = Option<String>;

    fn read(query: &Query, name: &str) -> Result<Option<String>, FieldError> {
        Ok(query.text(name).filter(|text| !text.is_empty()))
    }

    fn schema() -> Schema {
        <Self as Kind>::schema(&mut Schemas::default())
    }
}

/// A flag, false if absent or unknown.
impl Filter for Flag {
    type Value = bool;

    fn read(query: &Query, name: &str) -> Result<bool, FieldError> {
        Ok(query.flag(name).is_ok_and(|flag| flag == Some(true)))
    }

    fn schema() -> Schema {
        json!({"type": "boolean", "default": false})
    }
}

/// A flag with three states. An empty text counts as absent.
pub(crate) enum OptionalFlag {}

impl Filter for OptionalFlag {
    type Value = Option<bool>;

    fn read(query: &Query, name: &str) -> Result<Option<bool>, FieldError> {
        query.flag(name)
    }

    fn schema() -> Schema {
        json!({"type": "boolean"})
    }
}

/// A flag, true if absent or unknown.
pub(crate) enum UnlessFalse {}

impl Filter for UnlessFalse {
    type Value = bool;

    fn read(query: &Query, name: &str) -> Result<bool, FieldError> {
        Ok(!query.flag(name).is_ok_and(|flag| flag == Some(false)))
    }

    fn schema() -> Schema {
        json!({"type": "boolean", "default": true})
    }
}

/// An empty text counts as absent.
impl Filter for Integer {
    type Value = Option<i64>;

    fn read(query: &Query, name: &str) -> Result<Option<i64>, FieldError> {
        query.whole_number(name)
    }

    fn schema() -> Schema {
        i64::schema(&mut Schemas::default())
    }
}

/// Whole numbers, in several parameters or with commas; empty if absent.
pub(crate) enum IntegerList {}

impl Filter for IntegerList {
    type Value = Vec<i64>;

    fn read(query: &Query, name: &str) -> Result<Vec<i64>, FieldError> {
        query.whole_numbers(name)
    }

    fn schema() -> Schema {
        Vec::<i64>::schema(&mut Schemas::default())
    }
}

/// A whole number. Any other text counts as absent.
pub(crate) enum LooseInteger {}

impl Filter for LooseInteger {
    type Value = Option<i64>;

    fn read(query: &Query, name: &str) -> Result<Option<i64>, FieldError> {
        Ok(query.number(name))
    }

    fn schema() -> Schema {
        i64::schema(&mut Schemas::default())
    }
}

/// An RFC 3339 time. An empty text counts as absent.
impl Filter for Time {
    type Value = Option<Timestamp>;

    fn read(query: &Query, name: &str) -> Result<Option<Timestamp>, FieldError> {
        query.time(name)
    }

    fn schema() -> Schema {
        <Self as Shape>::schema(&mut Schemas::default())
    }
}

/// An empty text counts as absent.
impl<W: Words> Filter for Word<W> {
    type Value = Option<W::Meaning>;

    fn read(query: &Query, name: &str) -> Result<Option<W::Meaning>, FieldError> {
        query.word(name, W::WORDS)
    }

    fn schema() -> Schema {
        word_schema::<W>()
    }
}

pub(crate) trait Filters: Sized {
    /// Reads the parameters. On errors, adds them to `errors` and returns `None`.
    fn read(query: &Query, errors: &mut Vec<FieldError>) -> Option<Self>;

    fn describe(parameters: &mut Vec<Parameter>);
}

pub(crate) fn read_filter<F: Filter>(query: &Query, name: &str, errors: &mut Vec<FieldError>) -> Option<F::Value> {
    F::read(query, name).map_err(|error| errors.push(error)).ok()
}

/// Defines a struct of query parameters: `filters! { struct Name { /// Its meaning. name:
/// Word<State> = "open" } }`. The doc comment is required, the example optional. `kind as "type":
/// …` is called `type` in the query.
macro_rules! filters {
    (
        $(#[doc = $about:literal])*
        $seen:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $field_seen:vis $field:ident $(as $wire:literal)?: $kind:ty $(= $example:expr)?
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])*
        $seen struct $name {
            $(
                $(#[doc = $doc])+
                $field_seen $field: <$kind as $crate::http::filters::Filter>::Value
            ),+
        }

        impl $crate::http::filters::Filters for $name {
            fn read(
                query: &$crate::http::query::Query,
                errors: &mut Vec<$crate::http::error::FieldError>,
            ) -> Option<Self> {
                $(
                    let name = $crate::http::request::wire_name!($field $($wire)?);
                    let $field = $crate::http::filters::read_filter::<$kind>(query, name, errors);
                )+
                Some(Self { $($field: $field?),+ })
            }

            fn describe(parameters: &mut Vec<$crate::http::describe::Parameter>) {
                $(
                    let schema = <$kind as $crate::http::filters::Filter>::schema();
                    $(let schema = $crate::http::request::with_example(schema, serde_json::json!($example));)?
                    let name = $crate::http::request::wire_name!($field $($wire)?);
                    parameters.push($crate::http::describe::Parameter::new(name, &[$($doc),+], schema));
                )+
            }
        }
    };
}

pub(crate) use filters;

/// The query parameters `T`, not parsed yet: a handler checks permissions first.
pub(crate) struct QueryOf<T> {
    query: Query,
    parameters: PhantomData<fn() -> T>,
}

impl<S: Send + Sync, T> FromRequestParts<S> for QueryOf<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Query::from_request_parts(parts, state).await.map(Self::of)
    }
}

impl<T> QueryOf<T> {
    pub(crate) fn of(query: Query) -> Self {
        Self { query, parameters: PhantomData }
    }
}

impl<T: Filters> QueryOf<T> {
    /// Parses the parameters. 422 with every parameter that is invalid.
    pub(crate) fn read(&self) -> Result<T, ApiError> {
        let mut errors = Vec::new();
        match T::read(&self.query, &mut errors) {
            Some(parameters) => Ok(parameters),
            None => Err(ApiError::invalid(errors)),
        }
    }
}

impl<T: Filters> Input for QueryOf<T> {
    fn describe(about: &mut Description) {
        T::describe(&mut about.query);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::words::words;

    words! {
        enum Direction: i32 { "up" = 1, "down" = -1 }
    }

    filters! {
        /// One of each kind.
        struct Sample {
            /// A text.
            q: Search = "bug",
            /// A path.
            path: RawText,
            /// A name
            /// of something.
            name: Text<50>,
            /// All of it.
            recursive: Flag,
            /// Numbers.
            stat: UnlessFalse,
            /// An id.
            uid: Integer = 7,
            /// A number.
            wait: LooseInteger,
            /// A time.
            since: Time,
            /// A direction.
            kind as "type": Word<Direction> = "up",
        }
    }

    #[test]
    fn an_optional_flag_has_three_states() {
        let read =
            |text: &str| OptionalFlag::read(&Query::new("/", text), "on").map_err(|error| error.code.into_owned());
        for (text, expected) in [
            ("", None),
            ("on=", None),
            ("on=true", Some(true)),
            ("on=1", Some(true)),
            ("on=false", Some(false)),
            ("on=0", Some(false)),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        assert_eq!(read("on=yes"), Err("unknown".to_owned()));
    }

    fn query(text: &str) -> QueryOf<Sample> {
        QueryOf::of(Query::new("/", text))
    }

    #[test]
    fn parameters_are_read_as_the_query_reads_them() {
        let text = "q=a%00b&path=%ff&name=x&recursive=1&stat=0&uid=-7&wait=x&since=1970-01-01T00:00:01Z&type=down";
        let Sample { q, path, name, recursive, stat, uid, wait, since, kind } = query(text).read().unwrap();
        assert_eq!((q.as_str(), path, name.as_deref()), ("a\u{fffd}b", vec![0xff], Some("x")));
        assert_eq!((recursive, stat, uid, wait, kind), (true, false, Some(-7), None, Some(-1)));
        assert_eq!(since, Some(Timestamp { seconds: 1, nanos: 0 }));
        for absent in ["", "q=&path=&name=&recursive=&stat=&uid=&wait=&since=&type="] {
            let Sample { q, path, name, recursive, stat, uid, wait, since, kind } = query(absent).read().unwrap();
            assert_eq!((q, path, name, recursive, stat), (String::new(), Vec::new(), None, false, true), "{absent}");
            assert_eq!((uid, wait, since, kind), (None, None, None, None), "{absent}");
        }
    }

    #[test]
    fn every_mistake_is_told_in_order() {
        let error = query("type=Up&since=now&uid=x&wait=x&recursive=x").read().err().unwrap();
        let expected = [
            FieldError::new("uid", "invalid", "must be a whole number"),
            Query::new("/", "since=now").time("since").unwrap_err(),
            FieldError::new("type", "unknown", "must be one of `up`, `down`"),
        ];
        assert_eq!(format!("{error:?}"), format!("{:?}", ApiError::invalid(expected.to_vec())));
    }

    #[test]
    fn parameters_are_described() {
        let mut about = Description::default();
        <QueryOf<Sample> as Input>::describe(&mut about);
        let names: Vec<_> = about.query.iter().map(|one| one.name).collect();
        assert_eq!(names, ["q", "path", "name", "recursive", "stat", "uid", "wait", "since", "type"]);
        assert_eq!(about.query[2].about, "A name of something.");
        assert_eq!(about.query[2].schema, json!({"type": "string", "maxLength": 50}));
        assert_eq!(about.query[4].schema, json!({"type": "boolean", "default": true}));
        assert_eq!(about.query[5].schema, json!({"type": "integer", "format": "int64", "examples": [7]}));
        assert_eq!(about.query[7].schema, json!({"type": "string", "format": "date-time"}));
        assert_eq!(about.query[8].schema, json!({"type": "string", "enum": ["up", "down"], "examples": ["up"]}));
        for at in [0, 1, 3, 6] {
            assert!(about.query[at].schema.is_object(), "{}", about.query[at].name);
        }
    }
}
