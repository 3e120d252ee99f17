//! The fields of a JSON object, read one by one, so that every mistake names its field and all are reported together.
//!
//! `null` counts as absent everywhere. Fields that no method asks for are ignored.
#![allow(dead_code, reason = "goes when no handler uses it any more")]

use std::collections::BTreeMap;

use prost_types::Timestamp;
use serde_json::{Map, Value};

use super::body_limits::BodyPermit;
use super::error::{ApiError, FieldError};
use super::times::{MUST_BE_RFC_3339, OffsetTime, parse_duration, parse_offset_time};

fn list(value: Value) -> Option<Vec<Value>> {
    if let Value::Array(items) = value { Some(items) } else { None }
}

fn object(value: Value) -> Option<Map<String, Value>> {
    if let Value::Object(entries) = value { Some(entries) } else { None }
}

/// Reads the fields of a body. A method that finds a mistake notes it and returns an empty value; [`Self::finish`] reports all
/// mistakes.
#[derive(Debug)]
pub(crate) struct FieldReader {
    values: Map<String, Value>,
    /// Path of the object that `values` belong to, with a dot at its end; empty for the body itself.
    prefix: String,
    errors: Vec<FieldError>,
    permit: BodyPermit,
}

impl FieldReader {
    /// Reads `values`, of a body that `permit` allows in memory.
    pub(super) fn new(values: Map<String, Value>, permit: BodyPermit) -> Self {
        Self { values, prefix: String::new(), errors: Vec::new(), permit }
    }

    /// Takes the value of a field out.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name).filter(|value| !value.is_null())
    }

    /// Notes a mistake in a field.
    pub(crate) fn add_error(&mut self, field: &str, code: &'static str, message: &str) {
        self.errors.push(FieldError::new(&format!("{}{field}", self.prefix), code, message));
    }

    fn add_type_error(&mut self, field: &str, expected: &str) {
        let error = FieldError::wrong_type(&format!("{}{field}", self.prefix), expected);
        self.errors.push(error);
    }

    fn add_missing(&mut self, field: &str) {
        self.add_error(field, "required", "is required");
    }

    /// Takes the value of a field out and returns what `read` makes of it; `None` is noted as the mistake that it is not `expected`.
    fn take_as<T>(&mut self, name: &str, expected: &str, read: impl FnOnce(Value) -> Option<T>) -> Option<T> {
        let read = read(self.take(name)?);
        if read.is_none() {
            self.add_type_error(name, expected);
        }
        read
    }

    /// Reads an optional object by `read`. Mistakes in it are named with its own name in front, as in `author.date`.
    pub(crate) fn optional_object<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let entries = self.take_as(name, "an object", object)?;
        Some(self.in_object(name, entries, read))
    }

    /// Reads each object of a required list that is not empty. Mistakes are named with their place, as in `files[3].path`.
    pub(crate) fn required_objects<T>(&mut self, name: &str, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let items = match self.take(name) {
            Some(Value::Array(items)) if !items.is_empty() => items,
            None | Some(Value::Array(_)) => {
                self.add_missing(name);
                return Vec::new();
            }
            Some(_) => {
                self.add_type_error(name, "a list of objects");
                return Vec::new();
            }
        };
        let mut objects = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let name = format!("{name}[{index}]");
            match item {
                Value::Object(entries) => objects.push(self.in_object(&name, entries, &mut read)),
                _ => self.add_type_error(&name, "an object"),
            }
        }
        objects
    }

    /// Calls `read` with `entries` in place of the present values.
    fn in_object<T>(&mut self, name: &str, entries: Map<String, Value>, read: impl FnOnce(&mut Self) -> T) -> T {
        let values = std::mem::replace(&mut self.values, entries);
        let prefix = std::mem::take(&mut self.prefix);
        self.prefix = format!("{prefix}{name}.");
        let object = read(self);
        (self.values, self.prefix) = (values, prefix);
        object
    }

    /// Returns the text that `value` is, without NUL characters.
    fn text_of(&mut self, field: &str, value: Value) -> Option<String> {
        match value {
            Value::String(text) if text.contains('\0') => {
                self.add_error(field, "invalid", "must not contain NUL characters");
                None
            }
            Value::String(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                self.add_type_error(field, "a string");
                None
            }
        }
    }

    /// Returns whether a field is an empty text.
    pub(crate) fn is_empty_text(&self, name: &str) -> bool {
        matches!(self.values.get(name), Some(Value::String(text)) if text.is_empty())
    }

    /// Reads an optional text, which may be empty.
    pub(crate) fn optional_text(&mut self, name: &str) -> Option<String> {
        let value = self.take(name)?;
        self.text_of(name, value)
    }

    /// Reads an optional text; an empty one counts as absent.
    pub(crate) fn optional_non_empty(&mut self, name: &str) -> Option<String> {
        self.optional_text(name).filter(|text| !text.is_empty())
    }

    /// Reads an optional time by RFC 3339; an empty text counts as absent.
    pub(crate) fn optional_time(&mut self, name: &str) -> Option<Timestamp> {
        self.optional_offset_time(name).map(|parsed| parsed.time)
    }

    /// Reads an optional time, as [`Self::optional_time`], and its offset from UTC.
    pub(crate) fn optional_offset_time(&mut self, name: &str) -> Option<OffsetTime> {
        let text = self.optional_non_empty(name)?;
        let time = parse_offset_time(&text);
        if time.is_none() {
            self.add_error(name, "invalid", MUST_BE_RFC_3339);
        }
        time
    }

    /// Reads an optional text, empty when absent.
    pub(crate) fn text_or_empty(&mut self, name: &str) -> String {
        self.optional_text(name).unwrap_or_default()
    }

    /// Reads a required text, which may be empty.
    pub(crate) fn required(&mut self, name: &str) -> String {
        if let Some(value) = self.take(name) {
            return self.text_of(name, value).unwrap_or_default();
        }
        self.add_missing(name);
        String::new()
    }

    /// Reads a required text that is not empty.
    pub(crate) fn required_non_empty(&mut self, name: &str) -> String {
        if self.is_empty_text(name) {
            self.values.remove(name);
        }
        self.required(name)
    }

    /// Reads an optional truth value.
    pub(crate) fn optional_flag(&mut self, name: &str) -> Option<bool> {
        self.take_as(name, "true or false", |value| value.as_bool())
    }

    /// Reads a truth value, false when absent.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or_default()
    }

    /// Reads an optional whole number.
    pub(crate) fn optional_number(&mut self, name: &str) -> Option<i64> {
        self.take_as(name, "a whole number", |value| value.as_i64())
    }

    /// Reads an optional whole number that may be null, which is `Some(None)`.
    pub(crate) fn nullable_number(&mut self, name: &str) -> Option<Option<i64>> {
        if self.values.get(name) == Some(&Value::Null) {
            self.values.remove(name);
            return Some(None);
        }
        self.optional_number(name).map(Some)
    }

    /// Reads a required whole number; zero counts as absent.
    pub(crate) fn required_number(&mut self, name: &str) -> i64 {
        match self.take(name).map(|value| value.as_i64()) {
            Some(Some(number)) if number != 0 => number,
            None | Some(Some(_)) => {
                self.add_missing(name);
                0
            }
            Some(None) => {
                self.add_type_error(name, "a whole number");
                0
            }
        }
    }

    /// Reads an optional duration in seconds: a number of them, or a text as Go writes durations; an empty one counts as absent.
    pub(crate) fn optional_duration(&mut self, name: &str) -> Option<i64> {
        let seconds = match self.take(name)? {
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => parse_duration(&text),
            value if value.is_i64() => value.as_i64(),
            _ => {
                self.add_type_error(name, "a duration or a whole number of seconds");
                return None;
            }
        };
        if seconds.is_none() {
            self.add_error(name, "invalid", "must be a duration such as `8h0m0s`, or a number of seconds");
        }
        seconds
    }

    /// Reads a whole number, zero when absent.
    pub(crate) fn number(&mut self, name: &str) -> i64 {
        self.optional_number(name).unwrap_or_default()
    }

    /// Reads an optional list of texts.
    pub(crate) fn optional_texts(&mut self, name: &str) -> Option<Vec<String>> {
        let items = self.take_as(name, "a list of strings", list)?;
        Some(items.into_iter().filter_map(|item| self.text_of(name, item)).collect())
    }

    /// Reads a list of texts, empty when absent.
    pub(crate) fn texts(&mut self, name: &str) -> Vec<String> {
        self.optional_texts(name).unwrap_or_default()
    }

    /// Reads a required list of texts, which may be empty.
    pub(crate) fn required_list(&mut self, name: &str) -> Vec<String> {
        if matches!(self.values.get(name), None | Some(Value::Null)) {
            self.add_missing(name);
            return Vec::new();
        }
        self.texts(name)
    }

    /// Reads a required list of texts that is not empty.
    pub(crate) fn required_texts(&mut self, name: &str) -> Vec<String> {
        if matches!(self.values.get(name), Some(Value::Array(items)) if items.is_empty()) {
            self.values.remove(name);
        }
        self.required_list(name)
    }

    /// Reads a list of whole numbers, empty when absent.
    pub(crate) fn numbers(&mut self, name: &str) -> Vec<i64> {
        let read = |value| list(value)?.iter().map(Value::as_i64).collect();
        self.take_as(name, "a list of whole numbers", read).unwrap_or_default()
    }

    /// Reads a required object of texts, which may be empty. Keys with `null` and keys with NUL characters are left out.
    pub(crate) fn required_map(&mut self, name: &str) -> BTreeMap<String, String> {
        if matches!(self.values.get(name), None | Some(Value::Null)) {
            self.add_missing(name);
        }
        let mut map = BTreeMap::new();
        for (key, value) in self.take_as(name, "an object of strings", object).unwrap_or_default() {
            if value.is_null() || key.contains('\0') {
                continue;
            }
            if let Some(text) = self.text_of(&format!("{name}.{key}"), value) {
                map.insert(key, text);
            }
        }
        map
    }

    /// Reads the fields by `decode`, and ends the reading. The caller holds the permit until the request is done.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub(crate) fn decode<T>(mut self, decode: impl FnOnce(&mut Self) -> T) -> Result<(T, BodyPermit), ApiError> {
        let decoded = decode(&mut self);
        Ok((decoded, self.finish()?))
    }

    /// Ends the reading. The caller holds the permit until the request is done.
    ///
    /// # Errors
    /// 422 with all mistakes that were noted.
    pub(crate) fn finish(self) -> Result<BodyPermit, ApiError> {
        if self.errors.is_empty() { Ok(self.permit) } else { Err(ApiError::invalid(self.errors)) }
    }
}

#[cfg(test)]
mod tests;
