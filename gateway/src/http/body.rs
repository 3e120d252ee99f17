//! Request bodies: read within limits, parsed without trust, taken apart field by field so that every mistake names its field.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use chrono::DateTime;
use futures_util::StreamExt;
use prost_types::Timestamp;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::error::{ApiError, FieldError};
use crate::state::Gateway;

/// Bytes of an ordinary JSON body.
pub(crate) const JSON_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a body that carries a file.
pub(crate) const FILE_BYTES: usize = 96 * 1024 * 1024;
/// The fewest bytes a second of a body whose sender pauses for long.
const SLOWEST: usize = 1024;
/// Values of one document: no operation of ours needs nearly as many.
const MAX_VALUES: usize = 100_000;
/// Stands for the whole document where an error needs a field.
const ROOT: &str = "$";

/// A body that nobody has read yet: permissions are checked first.
pub(crate) struct Payload {
    headers: HeaderMap,
    body: Body,
}

impl<S: Send + Sync> FromRequest<S> for Payload {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        Ok(Self { headers: parts.headers, body })
    }
}

impl Payload {
    /// The fields of the JSON object in the body, which may have up to `limit` bytes.
    pub(crate) async fn fields(self, gateway: &Gateway, limit: usize) -> Result<Fields, ApiError> {
        self.fields_of(gateway, limit, parse).await
    }

    /// The same, where a bare list may stand for an object with the one field `name`.
    pub(crate) async fn fields_or_list(self, gateway: &Gateway, limit: usize, name: &str) -> Result<Fields, ApiError> {
        self.fields_of(gateway, limit, |bytes| parse_or_list(bytes, name)).await
    }

    async fn fields_of(
        self,
        gateway: &Gateway,
        limit: usize,
        parse: impl FnOnce(&[u8]) -> Result<BTreeMap<String, Value>, ApiError>,
    ) -> Result<Fields, ApiError> {
        if !is_json(&self.headers) {
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content type must be JSON"));
        }
        let (bytes, slot) = self.bytes(gateway, limit).await?;
        let (values, slot) = (parse(&bytes)?, Slot { _permit: slot });
        Ok(Fields { values, inside: String::new(), errors: Vec::new(), slot })
    }

    async fn bytes(self, gateway: &Gateway, limit: usize) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), ApiError> {
        let declared = self.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|declared| declared > limit) {
            return Err(ApiError::too_large());
        }
        let mut slot = None;
        let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(JSON_BYTES));
        let (mut frames, started) = (self.body.into_data_stream(), Instant::now());
        loop {
            let earned = Duration::from_secs((bytes.len() / SLOWEST) as u64);
            let left = (gateway.body_pause + earned).saturating_sub(started.elapsed()).min(gateway.body_pause);
            let frame = tokio::time::timeout(left, frames.next())
                .await
                .map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "request body did not arrive in time"))?;
            let Some(frame) = frame else { return Ok((bytes, slot)) };
            let frame = frame.map_err(|_| ApiError::bad_request("request body ended early"))?;
            let total = bytes.len() + frame.len();
            if total > limit {
                return Err(ApiError::too_large());
            }
            if total > JSON_BYTES && slot.is_none() {
                let permit = Arc::clone(&gateway.large_bodies).try_acquire_owned();
                slot = Some(permit.map_err(|_| ApiError::unavailable())?);
                bytes.reserve_exact(declared.unwrap_or(total).saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&frame);
        }
    }
}

/// A missing type is read as JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return true };
    value.to_str().is_ok_and(|value| value.is_empty() || value.to_ascii_lowercase().contains("json"))
}

/// A JSON value, as far as requests need it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is not a 64-bit integer.
    Number,
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

/// The object in `bytes`; nothing at all is an empty one.
fn parse(bytes: &[u8]) -> Result<BTreeMap<String, Value>, ApiError> {
    match document(bytes)? {
        Value::Map(fields) => Ok(fields),
        Value::Null => Ok(BTreeMap::new()),
        Value::Bool(_) | Value::Int(_) | Value::Number | Value::Text(_) | Value::List(_) => {
            Err(ApiError::invalid(vec![wrong_type(ROOT, "an object")]))
        }
    }
}

/// The object in `bytes`, or one whose field `name` is the list in `bytes`.
fn parse_or_list(bytes: &[u8], name: &str) -> Result<BTreeMap<String, Value>, ApiError> {
    match document(bytes)? {
        Value::Map(fields) => Ok(fields),
        Value::Null => Ok(BTreeMap::new()),
        list @ Value::List(_) => Ok(BTreeMap::from([(name.to_owned(), list)])),
        Value::Bool(_) | Value::Int(_) | Value::Number | Value::Text(_) => {
            Err(ApiError::invalid(vec![wrong_type(ROOT, "an object or a list")]))
        }
    }
}

fn document(bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    let budget = Cell::new(MAX_VALUES);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Seed(&budget).deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| ApiError::bad_request(format!("request body is not valid JSON: {error}")))
}

/// What a time must be.
pub(crate) const RFC_3339: &str = "must be a time by RFC 3339, such as `2026-01-02T03:04:05Z`";

/// The time that `text` is, by RFC 3339.
pub(crate) fn timestamp(text: &str) -> Option<Timestamp> {
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    // A leap second counts as the end of the second before it.
    let nanos = time.timestamp_subsec_nanos().min(999_999_999);
    Some(Timestamp { seconds: time.timestamp(), nanos: i32::try_from(nanos).ok()? })
}

/// Builds values and counts them: a few bytes of JSON can become many in memory.
struct Seed<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.0.get().checked_sub(1).ok_or_else(|| serde::de::Error::custom("too many values"))?;
        self.0.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Number, Value::Int))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed(self.0))? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            map.insert(key, entries.next_value_seed(Seed(self.0))?);
        }
        Ok(Value::Map(map))
    }
}

/// Keeps the place of a large body until the request is done.
#[derive(Debug)]
pub(crate) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

/// The fields of a body, taken one by one. Mistakes are collected and told together by [`Fields::finish`].
#[derive(Debug)]
pub(crate) struct Fields {
    values: BTreeMap<String, Value>,
    /// The object that they are in, as mistakes name it, with a dot at the end.
    inside: String,
    errors: Vec<FieldError>,
    slot: Slot,
}

fn wrong_type(field: &str, expected: &str) -> FieldError {
    FieldError { field: field.to_owned(), code: "type".into(), message: format!("must be {expected}") }
}

impl Fields {
    /// The value of a field; `null` is absent.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name).filter(|value| *value != Value::Null)
    }

    /// Notes a mistake.
    pub(crate) fn refuse(&mut self, field: &str, code: &'static str, message: &str) {
        let field = format!("{}{field}", self.inside);
        self.errors.push(FieldError { field, code: code.into(), message: message.to_owned() });
    }

    fn mistyped(&mut self, field: &str, expected: &str) {
        let error = wrong_type(&format!("{}{field}", self.inside), expected);
        self.errors.push(error);
    }

    /// What `take` finds in an object, if there is one. Its mistakes name it as well: `author.date`.
    pub(crate) fn optional_object<T>(&mut self, name: &str, take: impl FnOnce(&mut Self) -> T) -> Option<T> {
        match self.take(name)? {
            Value::Map(entries) => Some(self.within(name, entries, take)),
            _ => {
                self.mistyped(name, "an object");
                None
            }
        }
    }

    /// What `take` finds in each object of a list that must be there and not empty. Mistakes name its place: `files[3].path`.
    pub(crate) fn required_objects<T>(&mut self, name: &str, mut take: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let items = match self.take(name) {
            Some(Value::List(items)) if !items.is_empty() => items,
            None | Some(Value::List(_)) => {
                self.refuse(name, "required", "is required");
                return Vec::new();
            }
            Some(_) => {
                self.mistyped(name, "a list of objects");
                return Vec::new();
            }
        };
        let mut taken = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let name = format!("{name}[{index}]");
            match item {
                Value::Map(entries) => taken.push(self.within(&name, entries, &mut take)),
                _ => self.mistyped(&name, "an object"),
            }
        }
        taken
    }

    /// Takes `entries` apart in the place of our own values.
    fn within<T>(&mut self, name: &str, entries: BTreeMap<String, Value>, take: impl FnOnce(&mut Self) -> T) -> T {
        let values = std::mem::replace(&mut self.values, entries);
        let inside = std::mem::take(&mut self.inside);
        self.inside = format!("{inside}{name}.");
        let taken = take(self);
        (self.values, self.inside) = (values, inside);
        taken
    }

    fn checked(&mut self, field: &str, value: Value) -> Option<String> {
        match value {
            Value::Text(text) if text.contains('\0') => {
                self.refuse(field, "invalid", "must not contain NUL characters");
                None
            }
            Value::Text(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number | Value::List(_) | Value::Map(_) => {
                self.mistyped(field, "a string");
                None
            }
        }
    }

    /// A text, if there is one; it may be empty.
    pub(crate) fn optional_text(&mut self, name: &str) -> Option<String> {
        let value = self.take(name)?;
        self.checked(name, value)
    }

    /// A text for which empty means absent.
    pub(crate) fn optional_word(&mut self, name: &str) -> Option<String> {
        self.optional_text(name).filter(|text| !text.is_empty())
    }

    /// A time by RFC 3339, if there is one; an empty text is none.
    pub(crate) fn optional_time(&mut self, name: &str) -> Option<Timestamp> {
        let text = self.optional_word(name)?;
        let time = timestamp(&text);
        if time.is_none() {
            self.refuse(name, "invalid", RFC_3339);
        }
        time
    }

    /// A text, empty when absent.
    pub(crate) fn text_or_empty(&mut self, name: &str) -> String {
        self.optional_text(name).unwrap_or_default()
    }

    /// A text that must be there, and may be empty.
    pub(crate) fn present(&mut self, name: &str) -> String {
        match self.take(name) {
            Some(value) => self.checked(name, value).unwrap_or_default(),
            None => {
                self.refuse(name, "required", "is required");
                String::new()
            }
        }
    }

    /// A text that must be there and not empty.
    pub(crate) fn required(&mut self, name: &str) -> String {
        match self.take(name) {
            Some(Value::Text(text)) if text.is_empty() => {
                self.refuse(name, "required", "is required");
                text
            }
            Some(value) => self.checked(name, value).unwrap_or_default(),
            None => {
                self.refuse(name, "required", "is required");
                String::new()
            }
        }
    }

    /// A truth value, if there is one.
    pub(crate) fn optional_flag(&mut self, name: &str) -> Option<bool> {
        match self.take(name)? {
            Value::Bool(value) => Some(value),
            _ => {
                self.mistyped(name, "true or false");
                None
            }
        }
    }

    /// A truth value, false when absent.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or_default()
    }

    /// A whole number, if there is one.
    pub(crate) fn optional_number(&mut self, name: &str) -> Option<i64> {
        match self.take(name)? {
            Value::Int(value) => Some(value),
            _ => {
                self.mistyped(name, "a whole number");
                None
            }
        }
    }

    /// A whole number, zero when absent.
    pub(crate) fn number(&mut self, name: &str) -> i64 {
        self.optional_number(name).unwrap_or_default()
    }

    /// A list of texts, empty when absent.
    pub(crate) fn texts(&mut self, name: &str) -> Vec<String> {
        match self.take(name) {
            Some(Value::List(items)) => items.into_iter().filter_map(|item| self.checked(name, item)).collect(),
            None => Vec::new(),
            Some(_) => {
                self.mistyped(name, "a list of strings");
                Vec::new()
            }
        }
    }

    /// A list of texts that must be there and not empty.
    pub(crate) fn required_texts(&mut self, name: &str) -> Vec<String> {
        let is_missing = match self.values.get(name) {
            None | Some(Value::Null) => true,
            Some(Value::List(items)) => items.is_empty(),
            Some(_) => false,
        };
        if is_missing {
            self.refuse(name, "required", "is required");
            return Vec::new();
        }
        self.texts(name)
    }

    /// A list of whole numbers, empty when absent.
    pub(crate) fn numbers(&mut self, name: &str) -> Vec<i64> {
        let wanted = "a list of whole numbers";
        let Some(value) = self.take(name) else { return Vec::new() };
        let Value::List(items) = value else {
            self.mistyped(name, wanted);
            return Vec::new();
        };
        let numbers = items.iter().map(|item| if let Value::Int(number) = item { Some(*number) } else { None });
        numbers.collect::<Option<_>>().unwrap_or_else(|| {
            self.mistyped(name, wanted);
            Vec::new()
        })
    }

    /// An object of texts that must be there, and may be empty. Keys with `null` are left out.
    pub(crate) fn required_map(&mut self, name: &str) -> BTreeMap<String, String> {
        match self.take(name) {
            Some(Value::Map(entries)) => {
                let mut map = BTreeMap::new();
                for (key, value) in entries {
                    if value == Value::Null || key.contains('\0') {
                        continue;
                    }
                    if let Some(text) = self.checked(&format!("{name}.{key}"), value) {
                        map.insert(key, text);
                    }
                }
                map
            }
            Some(_) => {
                self.mistyped(name, "an object of strings");
                BTreeMap::new()
            }
            None => {
                self.refuse(name, "required", "is required");
                BTreeMap::new()
            }
        }
    }

    /// Tells all mistakes, if there were any. Keep the slot until the request is done.
    pub(crate) fn finish(self) -> Result<Slot, ApiError> {
        if self.errors.is_empty() { Ok(self.slot) } else { Err(ApiError::invalid(self.errors)) }
    }
}

#[cfg(test)]
mod tests;
