//! JSON responses: compact, and with the characters that HTML and JavaScript interpret escaped.
//!
//! A handler returns a value and a status. The bytes are made afterwards by the layer of the API, from [`Unwritten`], within the budget
//! of a response: those of a larger one are counted and never made. Long texts of a list are cut so that the list fits.
//!
//! Not here: the threads on which large responses are written.

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

/// Most bytes that a cut text grows by: its mark, `,"truncated":true`.
const MARK_BYTES: usize = 17;
/// Bytes that the JSON of a value, and that of a page of a list, may have before its buffer grows.
const VALUE_CAPACITY: usize = 256;
const PAGE_CAPACITY: usize = 32 * 1024;
/// Bytes of a character that is written as `\u…`.
const ESCAPE_BYTES: usize = 6;

/// Returns the bytes of the character that `json` begins with if HTML or JavaScript would interpret it, otherwise 0. JSON has such
/// characters inside of its strings alone.
fn escaped_bytes(json: &[u8]) -> usize {
    match json {
        [b'<' | b'>' | b'&', ..] => 1,
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => 3,
        _ => 0,
    }
}

/// Returns the bytes that `json` grows by when it is escaped.
fn escape_growth(json: &[u8]) -> usize {
    let html = memchr3_iter(b'<', b'>', b'&', json).count();
    let separators = memchr_iter(0xe2, json).filter(|at| escaped_bytes(&json[*at..]) > 0).count();
    html * (ESCAPE_BYTES - 1) + separators * (ESCAPE_BYTES - 3)
}

/// Escapes `json`, from the end on: it gets `growth` bytes more.
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

/// Returns the bytes with which `character` is written inside of a JSON string.
fn written_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// Bytes of a response as they are written, or their number alone.
struct Output {
    /// `None` if bytes are only counted.
    kept: Option<Vec<u8>>,
    /// Bytes so far: as they will be escaped if they are only counted, as they are if they are kept.
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

    /// Returns the bytes that were kept, escaped.
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

    /// Takes whole characters: those of a part of a string, or of what stands between strings.
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

/// Error of a value whose JSON has more bytes than its output may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverBudget;

/// Writes a value to `output`.
fn write_to<T: Serialize + ?Sized>(value: &T, output: &mut Output) -> Result<(), OverBudget> {
    let written = value.serialize(&mut Serializer::new(output));
    // Responses have string keys and no failing serializer: only the output fails.
    written.map_err(|_| OverBudget)
}

/// Returns `value` as JSON, whatever its size: for errors and other values whose parts are bounded.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut output = Output::keeping(128, usize::MAX);
    write_to(value, &mut output).and_then(|()| output.finish()).expect("the output has no limit")
}

/// A value that can leave out a part of itself and say so.
pub(crate) trait Shorten {
    /// Leaves out what does not fit, so that the JSON has at most `max_bytes`.
    fn shorten(&mut self, max_bytes: usize);
}

/// The value of a response that is not written yet.
trait Payload: Shorten + Send {
    fn write(&self, output: &mut Output) -> Result<(), OverBudget>;
}

impl<T: Serialize + Shorten + Send> Payload for T {
    fn write(&self, output: &mut Output) -> Result<(), OverBudget> {
        write_to(self, output)
    }
}

/// A value of which nothing may be left out.
#[derive(Serialize)]
pub(super) struct Whole<T>(pub(super) T);

impl<T> Shorten for Whole<T> {
    fn shorten(&mut self, _: usize) {}
}

/// A list whose entries have texts that may be cut.
#[derive(Serialize)]
pub(super) struct Texts<T>(pub(super) Vec<T>);

impl<T: Serialize + LongTexts> Shorten for Texts<T> {
    /// Each text gets the same number of bytes of what the rest leaves.
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

/// Returns the bytes of `value` as JSON.
pub(crate) fn json_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut whole = Output::counting(usize::MAX);
    // Fails for a value beyond all limits only.
    write_to(value, &mut whole).map_or(usize::MAX, |()| whole.count)
}

/// Cuts a text so that it is written with at most `max_bytes`. Returns whether that took anything away.
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

/// Extension of a response whose value is not written yet. It is written once.
#[derive(Clone)]
pub(crate) struct Unwritten {
    payload: Arc<Mutex<Option<Box<dyn Payload>>>>,
    /// True for a page of a list, of which a client can ask for less.
    pub(crate) is_page: bool,
}

impl Unwritten {
    fn new(payload: impl Payload + 'static, is_page: bool) -> Self {
        Self { payload: Arc::new(Mutex::new(Some(Box::new(payload)))), is_page }
    }

    fn take(&self) -> Option<Box<dyn Payload>> {
        self.payload.lock().take()
    }

    /// Returns the JSON, if it has at most `max_bytes`. If it has not, nothing is changed.
    ///
    /// # Errors
    /// When the JSON has more bytes.
    pub(crate) fn try_write(&self, max_bytes: usize) -> Result<Vec<u8>, OverBudget> {
        let Some(payload) = self.take() else { return Err(OverBudget) };
        let mut output = Output::keeping(if self.is_page { PAGE_CAPACITY } else { VALUE_CAPACITY }, max_bytes);
        if let Ok(json) = payload.write(&mut output).and_then(|()| output.finish()) {
            return Ok(json);
        }
        *self.payload.lock() = Some(payload);
        Err(OverBudget)
    }

    /// Returns the JSON, with the texts of a list cut so that they fit into `max_bytes`. Keeps a processor busy; takes no more memory than
    /// the JSON has bytes.
    ///
    /// # Errors
    /// When the JSON has more bytes all the same.
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

/// Returns a status with a value.
pub(super) fn value(status: StatusCode, value: impl Serialize + Shorten + Send + 'static) -> Response {
    Unwritten::new(value, false).into_response(status)
}

/// Returns 200 with a page of a list and the headers of the page.
pub(super) fn page(value: impl Serialize + Shorten + Send + 'static, headers: HeaderMap) -> Response {
    let mut response = Unwritten::new(value, true).into_response(StatusCode::OK);
    response.headers_mut().extend(headers);
    response
}

#[cfg(test)]
mod tests;
