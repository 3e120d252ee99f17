//! Sends the rows of a table in order, and compares the responses with what the program reads.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::row::{Body, Caller, Check, Row};
use super::shape::{decode, is_time};
use crate::harness::{Response, User};

/// Rounds of a repeated row, and the pause between them.
const ROUNDS: usize = 200;
const ROUND_PAUSE: Duration = Duration::from_millis(25);
const MAX_BODY_CHARS: usize = 400;

/// A program, and the requests that it sends.
pub(super) struct Program {
    /// The scheme of its tokens in `Authorization`.
    pub(super) scheme: &'static str,
    /// Headers of all its requests.
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) tables: &'static [&'static [Row]],
}

/// Those who send requests, and what placeholders stand for.
pub(super) struct Replay {
    pub(super) owner: User,
    pub(super) reader: User,
    pub(super) administrator: User,
    pub(super) kept: HashMap<String, String>,
}

impl Replay {
    pub(super) fn keep(&mut self, name: &str, value: impl Into<String>) {
        self.kept.insert(name.to_owned(), value.into());
    }

    /// Sends all requests of a program. Fails with all its faults at the end.
    pub(super) async fn run(&mut self, program: &Program) {
        let mut faults = Vec::new();
        for row in program.tables.iter().copied().flatten() {
            let mut found = self.replay(program, row).await;
            for _ in 0..ROUNDS {
                if !row.is_repeated || found.is_empty() {
                    break;
                }
                tokio::time::sleep(ROUND_PAUSE).await;
                found = self.replay(program, row).await;
            }
            faults.extend(found.into_iter().map(|fault| format!("{} {}: {fault}", row.method, row.path)));
        }
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    }

    /// Sends one request. Returns the faults of its response.
    async fn replay(&mut self, program: &Program, row: &Row) -> Vec<String> {
        let request = match self.request(program, row) {
            Ok(request) => request,
            Err(fault) => return vec![fault],
        };
        let response = Response::of(request).await;
        let mut faults = self.compare(row, &response);
        if !faults.is_empty() {
            let body: String = response.text().chars().take(MAX_BODY_CHARS).collect();
            faults.push(format!("the response is {} {body}", response.status));
        }
        faults
    }

    fn request(&self, program: &Program, row: &Row) -> Result<RequestBuilder, String> {
        let method = Method::from_bytes(row.method.as_bytes()).expect("a method");
        let sender = match row.caller {
            Caller::Owner | Caller::Password => &self.owner,
            Caller::Administrator => &self.administrator,
            Caller::Reader | Caller::Anonymous => &self.reader,
        };
        let mut request = sender.raw(method, &format!("/api/v1{}", self.fill(row.path)?));
        match (row.caller, &sender.token) {
            (Caller::Password, _) => request = request.basic_auth(&sender.name, Some(&sender.password)),
            (Caller::Anonymous, _) | (_, None) => {}
            (_, Some(token)) => request = request.header("authorization", format!("{} {token}", program.scheme)),
        }
        for (name, value) in program.headers {
            request = request.header(*name, *value);
        }
        Ok(match row.body {
            Body::None => request,
            Body::Json(body) => request.header("content-type", "application/json").body(self.fill(body)?),
            Body::File(name, content) => {
                // Jenkins makes such a boundary.
                let head =
                    format!("--===8f2a===\r\nContent-Disposition: form-data; name=\"attachment\"; filename=\"{name}\"");
                let form = format!("{head}\r\nContent-Type: application/octet-stream\r\n\r\n{content}\r\n");
                request
                    .header("content-type", "multipart/form-data; boundary=\"===8f2a===\"")
                    .body(format!("{form}--===8f2a===--\r\n"))
            }
        })
    }

    /// Replaces `{name}` by what is kept.
    fn fill(&self, text: &str) -> Result<String, String> {
        let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            match after.split_once('}') {
                Some((name, behind)) if is_name(name) => {
                    filled.push_str(self.kept.get(name).ok_or_else(|| format!("no row keeps `{name}`"))?);
                    rest = behind;
                }
                _ => {
                    filled.push('{');
                    rest = after;
                }
            }
        }
        Ok(filled + rest)
    }

    /// Compares a response with its row, and keeps what later rows need.
    fn compare(&mut self, row: &Row, response: &Response) -> Vec<String> {
        let status = response.status.as_u16();
        let is_expected = if row.statuses.is_empty() { status / 100 == 2 } else { row.statuses.contains(&status) };
        if !is_expected {
            return vec![format!("the status is {status}, not {:?}", row.statuses)];
        }
        let mut faults = Vec::new();
        if let Some(text) = row.text
            && Ok(response.text()) != self.fill(text)
        {
            faults.push(format!("the text is not {text:?}"));
        }
        if row.has_next && !has_next(&response.header("link")) {
            faults.push(format!("no next page in {:?}", response.header("link")));
        }
        if row.has_total && response.header("x-total-count").parse::<u64>().is_err() {
            faults.push(format!("the total is {:?}", response.header("x-total-count")));
        }
        if row.decoded.is_none() && row.reads.is_empty() && row.keeps.is_empty() {
            return faults;
        }
        let Ok(json) = serde_json::from_slice::<Value>(&response.body) else {
            return vec!["the response is not JSON".to_owned()];
        };
        if let Some(decoded) = row.decoded {
            if json.is_null() {
                faults.push("the response is null".to_owned());
            }
            decode(decoded, &json, "", &mut faults);
        }
        for (pointer, check) in row.reads {
            faults.extend(self.check(&json, pointer, *check));
        }
        for (name, pointer) in row.keeps {
            match places(&json, pointer)[..] {
                [Some(Value::String(text)), ..] => self.keep(name, text.as_str()),
                [Some(value), ..] if !value.is_null() => self.keep(name, value.to_string()),
                _ => faults.push(format!("{pointer} is missing")),
            }
        }
        faults
    }

    fn check(&self, json: &Value, pointer: &str, check: Check) -> Option<String> {
        let found = places(json, pointer);
        let expected = match check {
            Check::Is(text) | Check::Has(text) => match self.fill(text) {
                Ok(expected) => expected,
                Err(fault) => return Some(fault),
            },
            _ => String::new(),
        };
        let fits = |place: &Option<&Value>| place.is_some_and(|value| fits(check, value, &expected));
        let is_any = pointer.contains('?');
        let is_fit = if is_any { found.iter().any(fits) } else { !found.is_empty() && found.iter().all(fits) };
        let shown = format!("{found:?}");
        (!is_fit).then(|| format!("{pointer} is not {check:?}, but {shown:.200}"))
    }
}

fn fits(check: Check, value: &Value, expected: &str) -> bool {
    match check {
        Check::Present => true,
        Check::Filled => value.as_str().is_some_and(|text| !text.is_empty()),
        Check::Positive => value.as_i64().is_some_and(|number| number > 0),
        Check::Set => is_time(value),
        Check::True => *value == Value::Bool(true),
        Check::False => *value == Value::Bool(false),
        Check::Null => value.is_null(),
        Check::Empty => size(value) == Some(0),
        Check::Entries => !value.is_string() && size(value).is_some_and(|size| size > 0),
        Check::Is(_) => value.as_str().map_or_else(|| value.to_string(), str::to_owned) == expected,
        Check::Has(_) => value.as_str().is_some_and(|text| text.contains(expected)),
    }
}

/// Whether this is a name of what can be kept. JSON in braces never is.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn size(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.len()),
        Value::Array(items) => Some(items.len()),
        Value::Object(fields) => Some(fields.len()),
        _ => None,
    }
}

/// The values at a pointer, in which `*` and `?` stand for the entries of a list; `None` where
/// there is none.
fn places<'a>(json: &'a Value, pointer: &str) -> Vec<Option<&'a Value>> {
    let mut found = vec![Some(json)];
    for part in pointer.split('/').skip(1) {
        let below = |place: Option<&'a Value>| match (part, place) {
            ("*" | "?", Some(Value::Array(items))) => items.iter().map(Some).collect(),
            (part, Some(value)) => vec![value.pointer(&format!("/{part}"))],
            (_, None) => vec![None],
        };
        found = found.into_iter().flat_map(below).collect();
    }
    found
}

/// Whether programs find the next page: some take everything up to the last `>; rel="next"`, so it
/// has to be the first link.
fn has_next(link: &str) -> bool {
    let Some((url, rest)) = link.strip_prefix('<').and_then(|link| link.split_once('>')) else { return false };
    rest.starts_with("; rel=\"next\"") && url.starts_with("http") && url.contains("page=")
}
