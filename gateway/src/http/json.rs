//! Writes JSON responses: compact, with the characters that HTML and JavaScript interpret escaped.
//!
//! A handler returns a value and a status. The API layer writes the bytes later, from
//! [`Unwritten`], within the size limit of a response: an oversized response is only counted, never
//! built. Long texts in a list are cut to make the list fit.

use std::io::{self, Write};
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use ferrite_api_types::LongTexts;
use memchr::{memchr_iter, memchr3_iter};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Serializer;

pub(crate) const CONTENT_TYPE_JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

/// Length of the mark of a cut text: `,"truncated":true`.
const MARK_BYTES: usize = 17;
/// Initial buffers for the JSON of a value and of a page of a list.
const VALUE_CAPACITY: usize = 256;
const PAGE_CAPACITY: usize = 32 * 1024;
/// Length of an escape `\u…`.
const ESCAPE_BYTES: usize = 6;

/// Returns the length of the first character of `json` if HTML or JavaScript would interpret it,
/// otherwise 0. In JSON, such characters occur only inside strings.
fn escaped_bytes(json: &[u8]) -> usize {
    match json {
        [b'<' | b'>' | b'&', ..] => 1,
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => 3,
        _ => 0,
    }
}

fn escape_growth(json: &[u8]) -> usize {
    let html = memchr3_iter(b'<', b'>', b'&', json).count();
    let separators = memchr_iter(0xe2, json).filter(|at| escaped_bytes(&json[*at..]) > 0).count();
    html * (ESCAPE_BYTES - 1) + separators * (ESCAPE_BYTES - 3)
}

/// Escapes `json` in place, from the end, adding `growth` bytes.
fn escape(json: &mut Vec<u8>, growth: usize) {
    let mut end = json.len();
    json.reserve_exact(growth);
    json.resize(end + growth, 0);
    let mut to = json.len();
    while end < to {
        let Some(at) = (0..end).rev().find(|at| escaped_bytes(&json[*at..end]) > 0) else { return };
        let (escape, after) = match json[at] {
            b'<' => (b"\\u003c", at + 1),
            b'>' => (b"\\u003e", at + 1),
            b'&' => (b"\\u0026", at + 1),
            _ if json[at + 2] == 0xa8 => (b"\\u2028", at + 3),
            _ => (b"\\u2029", at + 3),
        };
        to -= end - after;
        json.copy_within(after..end, to);
        to -= ESCAPE_BYTES;
        json[to..to + ESCAPE_BYTES].copy_from_slice(escape);
        end = at;
    }
}

/// Returns the length of `character` inside a JSON string.
fn written_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// The bytes of a response, or only their number.
struct Output {
    /// `None` if bytes are only counted.
    kept: Option<Vec<u8>>,
    /// Bytes so far: with escapes if they are only counted, without if they are kept.
    count: usize,
    max_bytes: usize,
}

impl Output {
    fn counting(max_bytes: usize) -> Self {
        Self { kept: None, count: 0, max_bytes }
    }

    fn keeping(capacity: usize, max_bytes: usize) -> Self {
        Self { kept: Some(Vec::with_capacity(capacity)), count: 0, max_bytes }
    }

    fn finish(self) -> Result<Vec<u8>, OverBudget> {
        let mut json = self.kept.unwrap_or_default();
        let growth = escape_growth(&json);
        if json.len() + growth > self.max_bytes {
            return Err(OverBudget);
        }
        escape(&mut json, growth);
        Ok(json)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    /// Gets whole characters: a part of a string, or what is between strings.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let growth = if self.kept.is_some() { 0 } else { escape_growth(bytes) };
        self.count = self.count.saturating_add(bytes.len() + growth);
        if self.count > self.max_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The JSON of a value exceeds its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverBudget;

fn write_to<T: Serialize + ?Sized>(value: &T, output: &mut Output) -> Result<(), OverBudget> {
    let written = value.serialize(&mut Serializer::new(output));
    // Responses have string keys, and their serializers do not fail: only the output can.
    written.map_err(|_| OverBudget)
}

/// Encodes `value` without a limit, for errors and other values of bounded size.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut output = Output::keeping(128, usize::MAX);
    write_to(value, &mut output).and_then(|()| output.finish()).expect("the output has no limit")
}

/// A value that can drop a part of itself and say so.
pub(crate) trait Shorten {
    /// Drops what does not fit, so that the JSON has at most `max_bytes`.
    fn shorten(&mut self, max_bytes: usize);
}

trait Payload: Shorten + Send {
    fn write(&self, output: &mut Output) -> Result<(), OverBudget>;
}

impl<T: Serialize + Shorten + Send> Payload for T {
    fn write(&self, output: &mut Output) -> Result<(), OverBudget> {
        write_to(self, output)
    }
}

/// A value that cannot be shortened.
#[derive(Serialize)]
pub(super) struct Whole<T>(pub(super) T);

impl<T> Shorten for Whole<T> {
    fn shorten(&mut self, _: usize) {}
}

/// A list with texts that can be cut.
#[derive(Serialize)]
pub(super) struct Texts<T>(pub(super) Vec<T>);

impl<T: Serialize + LongTexts> Shorten for Texts<T> {
    /// Divides the bytes that the rest leaves equally among the texts.
    fn shorten(&mut self, max_bytes: usize) {
        let whole = json_bytes(&self.0);
        if whole <= max_bytes {
            return;
        }
        let (mut texts, mut bytes) = (0, 0);
        for entry in &mut self.0 {
            entry.for_each_text(&mut |text, _| {
                texts += 1;
                bytes += text.chars().map(written_bytes).sum::<usize>();
            });
        }
        let rest = whole - bytes + texts * MARK_BYTES;
        let max_text_bytes = max_bytes.saturating_sub(rest) / texts.max(1);
        for entry in &mut self.0 {
            entry.for_each_text(&mut |text, is_cut| *is_cut |= cut(text, max_text_bytes));
        }
    }
}

pub(crate) fn json_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut whole = Output::counting(usize::MAX);
    // Fails only for a value beyond all limits.
    write_to(value, &mut whole).map_or(usize::MAX, |()| whole.count)
}

/// Cuts a text to at most `max_bytes` of JSON. Returns whether it was longer.
fn cut(text: &mut String, max_bytes: usize) -> bool {
    let mut written = 0;
    let end = text.char_indices().find(|(_, character)| {
        written += written_bytes(*character);
        written > max_bytes
    });
    let Some((end, _)) = end else { return false };
    text.truncate(end);
    true
}

/// Response extension: the value that is not written yet. It is written once.
#[derive(Clone)]
pub(crate) struct Unwritten {
    payload: Arc<Mutex<Option<Box<dyn Payload>>>>,
    /// Whether this is a page of a list, of which a client can request less.
    pub(crate) is_page: bool,
}

impl Unwritten {
    fn new(payload: impl Payload + 'static, is_page: bool) -> Self {
        Self { payload: Arc::new(Mutex::new(Some(Box::new(payload)))), is_page }
    }

    fn take(&self) -> Option<Box<dyn Payload>> {
        self.payload.lock().take()
    }

    /// Returns the JSON, or an error if it exceeds `max_bytes`. The value stays as it is.
    pub(crate) fn try_write(&self, max_bytes: usize) -> Result<Vec<u8>, OverBudget> {
        let Some(payload) = self.take() else { return Err(OverBudget) };
        let mut output = Output::keeping(if self.is_page { PAGE_CAPACITY } else { VALUE_CAPACITY }, max_bytes);
        if let Ok(json) = payload.write(&mut output).and_then(|()| output.finish()) {
            return Ok(json);
        }
        *self.payload.lock() = Some(payload);
        Err(OverBudget)
    }

    /// Returns the JSON, with the texts of a list cut to fit into `max_bytes`. CPU-bound; needs no
    /// more memory than the JSON. Fails if the rest alone exceeds the limit.
    pub(crate) fn write(&self, max_bytes: usize) -> Result<Vec<u8>, OverBudget> {
        let Some(mut payload) = self.take() else { return Err(OverBudget) };
        payload.shorten(max_bytes);
        let mut count = Output::counting(max_bytes);
        payload.write(&mut count)?;
        let mut output = Output::keeping(count.count, max_bytes);
        payload.write(&mut output)?;
        output.finish()
    }

    fn into_response(self, status: StatusCode) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, CONTENT_TYPE_JSON);
        response.extensions_mut().insert(self);
        response
    }
}

pub(super) fn value(status: StatusCode, value: impl Serialize + Shorten + Send + 'static) -> Response {
    Unwritten::new(value, false).into_response(status)
}

pub(super) fn page(value: impl Serialize + Shorten + Send + 'static, headers: HeaderMap) -> Response {
    let mut response = Unwritten::new(value, true).into_response(StatusCode::OK);
    response.headers_mut().extend(headers);
    response
}

#[cfg(test)]
mod tests;
