//! How programs decode JSON: a field may be absent or null, but one of another type is an error.

use serde_json::Value;

/// What a field is decoded into.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Text,
    Integer,
    Flag,
    /// A time (RFC 3339).
    Time,
    Texts,
    /// An object whose values are all texts.
    TextMap,
    /// An object whose values are all integers.
    IntegerMap,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// A list of words.
    Words(&'static [&'static str]),
    /// An object.
    One(&'static Shape),
    /// A list of objects, none of which is null.
    Many(&'static Shape),
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Integer => "an integer",
            Self::Flag => "true or false",
            Self::Time => "a time",
            Self::Texts => "a list of texts",
            Self::TextMap => "an object of texts",
            Self::IntegerMap => "an object of integers",
            Self::Word(_) => "a word that the program knows",
            Self::Words(_) => "a list of words that the program knows",
            Self::One(_) => "an object",
            Self::Many(_) => "a list",
        }
    }
}

/// The fields of an object that a program decodes.
pub(super) struct Shape {
    /// Whether the program refuses other fields.
    is_closed: bool,
    fields: &'static [(&'static str, Type)],
}

impl Shape {
    pub(super) const fn new(fields: &'static [(&'static str, Type)]) -> Self {
        Self { is_closed: false, fields }
    }

    pub(super) const fn closed(fields: &'static [(&'static str, Type)]) -> Self {
        Self { is_closed: true, fields }
    }
}

/// Adds what the program cannot decode, each with its place.
pub(super) fn decode(decoded: Type, value: &Value, place: &str, faults: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    let fits = match decoded {
        Type::Text => value.is_string(),
        Type::Integer => value.is_i64(),
        Type::Flag => value.is_boolean(),
        Type::Time => is_time(value),
        Type::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Type::Texts => has_items(value, Value::is_string),
        Type::Words(words) => has_items(value, |item| item.as_str().is_some_and(|word| words.contains(&word))),
        Type::TextMap => has_values(value, Value::is_string),
        Type::IntegerMap => has_values(value, Value::is_i64),
        Type::One(shape) => decode_object(shape, value, place, faults),
        Type::Many(shape) => value.as_array().is_some_and(|items| {
            for (index, item) in items.iter().enumerate() {
                let place = format!("{place}/{index}");
                if item.is_null() {
                    faults.push(format!("{place} is null"));
                }
                decode(Type::One(shape), item, &place, faults);
            }
            true
        }),
    };
    if !fits {
        faults.push(format!("{place} is not {}: {:.120}", decoded.name(), value.to_string()));
    }
}

fn decode_object(shape: &Shape, value: &Value, place: &str, faults: &mut Vec<String>) -> bool {
    let Some(object) = value.as_object() else { return false };
    for (name, decoded) in shape.fields {
        if let Some(value) = object.get(*name) {
            decode(*decoded, value, &format!("{place}/{name}"), faults);
        }
    }
    if shape.is_closed {
        let unknown = object.keys().filter(|key| shape.fields.iter().all(|(name, _)| name != key));
        faults.extend(unknown.map(|key| format!("{place}/{key} is unknown to the program")));
    }
    true
}

fn has_items(value: &Value, fits: impl Fn(&Value) -> bool) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(fits))
}

fn has_values(value: &Value, fits: impl Fn(&Value) -> bool) -> bool {
    value.as_object().is_some_and(|fields| fields.values().all(fits))
}

pub(super) fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| chrono::DateTime::parse_from_rfc3339(text).is_ok())
}
