use std::collections::BTreeMap;
use std::marker::PhantomData;

use ferrite_api_types::schema::{Schema, Schemas, Shape};
use serde_json::{Value, json};

use super::kinds::{limited, read_text};
use super::{Fields, Kind, Mistakes};

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn whole<T>(values: Vec<Option<T>>) -> Option<Vec<T>> {
    values.into_iter().collect()
}

/// A list of [`super::Text`]. Errors name the list. The service rejects more than `MAX` entries.
pub(crate) enum Texts<const MAX: usize = { usize::MAX }> {}

impl<const MAX: usize> Kind for Texts<MAX> {
    type Value = Vec<String>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<String>> {
        let Value::Array(items) = value else { return mistakes.add_type(name, "a list of strings") };
        whole(items.into_iter().map(|item| read_text(name, item, mistakes)).collect())
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_list(value)
    }

    fn schema(_: &mut Schemas) -> Schema {
        limited(json!({"type": "array", "items": {"type": "string"}}), "maxItems", MAX)
    }
}

/// A list of whole numbers, with at most one error. The service rejects more than `MAX` entries.
pub(crate) enum Integers<const MAX: usize = { usize::MAX }> {}

impl<const MAX: usize> Kind for Integers<MAX> {
    type Value = Vec<i64>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<i64>> {
        let numbers = value.as_array().and_then(|items| items.iter().map(Value::as_i64).collect());
        numbers.or_else(|| mistakes.add_type(name, "a list of whole numbers"))
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_list(value)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        limited(Vec::<i64>::schema(schemas), "maxItems", MAX)
    }
}

/// An object of texts, with errors such as `config.url`. Drops keys with `null` and keys with NUL
/// characters.
pub(crate) enum TextMap {}

impl Kind for TextMap {
    type Value = BTreeMap<String, String>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<BTreeMap<String, String>> {
        let Value::Object(entries) = value else { return mistakes.add_type(name, "an object of strings") };
        let entries = entries.into_iter().filter(|(key, value)| !value.is_null() && !key.contains('\0'));
        let texts = entries.map(|(key, value)| {
            let text = read_text(&format!("{name}.{key}"), value, mistakes);
            text.map(|text| (key, text))
        });
        Some(whole(texts.collect())?.into_iter().collect())
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        BTreeMap::<String, String>::schema(schemas)
    }
}

/// An object with the fields `R`, with errors such as `author.date`.
pub(crate) struct Object<R>(PhantomData<R>);

impl<R: Fields> Kind for Object<R> {
    type Value = R;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<R> {
        match value {
            Value::Object(mut entries) => mistakes.within(name, |mistakes| R::read(&mut entries, mistakes)),
            _ => mistakes.add_type(name, "an object"),
        }
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        R::schema(schemas)
    }
}

/// A list of objects with the fields `R`, with errors such as `files[3].path`.
pub(crate) struct Objects<R>(PhantomData<R>);

impl<R: Fields> Kind for Objects<R> {
    type Value = Vec<R>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<R>> {
        let Value::Array(items) = value else { return mistakes.add_type(name, "a list of objects") };
        let items = items.into_iter().enumerate();
        whole(items.map(|(at, item)| Object::<R>::read(&format!("{name}[{at}]"), item, mistakes)).collect())
    }

    fn is_empty(value: &Value) -> bool {
        is_empty_list(value)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        json!({"type": "array", "items": R::schema(schemas)})
    }
}
