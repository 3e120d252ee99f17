//! Validates every response against the OpenAPI document, `docs/openapi.json`: status, headers,
//! content type, and a JSON value without fields outside its schema. Requests that match no
//! operation are not checked.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::LazyLock;

use reqwest::Method;
use reqwest::header::HeaderName;
use serde_json::Value;

use super::client::Response;
use crate::json_schema;

/// Headers allowed in any response: those of HTTP, caches, browsers and logs.
const COMMON_HEADERS: [&str; 10] = [
    "cache-control",
    "connection",
    "content-length",
    "content-security-policy",
    "content-type",
    "date",
    "transfer-encoding",
    "vary",
    "x-content-type-options",
    "x-request-id",
];
const MAX_FAULTS: usize = 5;

static DOCUMENT: LazyLock<Document> = LazyLock::new(Document::read);

/// The file that `make test` names, for `tests/exercised.rs`. Each line has the operation and
/// status of a response.
static RECORD: LazyLock<Option<File>> = LazyLock::new(|| {
    let path = std::env::var_os("FERRITE_TEST_RESPONSES")?;
    Some(OpenOptions::new().create(true).append(true).open(path).expect("the record can be written"))
});

/// Fails unless the document allows this response to the request. Ignores requests that match no
/// operation.
pub(super) fn check(method: &Method, path: &str, response: &Response) {
    let Some(operation) = DOCUMENT.operation(method, path) else { return };
    let status = response.status.as_u16();
    let faults = DOCUMENT.faults(operation, method, response);
    assert!(
        faults.is_empty(),
        "{method} {path}: the response {status} is not in docs/openapi.json: {}",
        faults[..faults.len().min(MAX_FAULTS)].join("; ")
    );
    if let Some(mut record) = RECORD.as_ref() {
        // One write, because other threads write as well.
        let line = format!("{} {status}\n", operation["operationId"].as_str().expect("it has a name"));
        record.write_all(line.as_bytes()).expect("the record can be written");
    }
}

struct Document {
    whole: Value,
    templates: Vec<Template>,
}

struct Template {
    /// Segments: fixed, `{name}` for any one, or a final `{*name}` for any number.
    parts: Vec<&'static str>,
    /// As in the document.
    key: String,
}

impl Template {
    fn new(path: &'static str) -> Self {
        Self { parts: path.split('/').collect(), key: path.replace("{*", "{") }
    }

    fn fits(&self, path: &[&str]) -> bool {
        let may_be_longer = self.parts.last().is_some_and(|part| part.starts_with("{*"));
        let has_length = path.len() == self.parts.len() || (may_be_longer && path.len() > self.parts.len());
        let fits =
            |(part, given): (&&str, &&str)| if part.starts_with('{') { !given.is_empty() } else { part == given };
        has_length && self.parts.iter().zip(path).all(fits)
    }

    /// Of two matching paths, the router takes the one with a fixed segment where they first
    /// differ.
    fn precedence(&self) -> Vec<bool> {
        self.parts.iter().map(|part| !part.starts_with('{')).collect()
    }
}

impl Document {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
        let text = std::fs::read_to_string(path).expect("the document can be read");
        let mut paths: Vec<_> = gateway::operations().iter().map(|route| route.path).collect();
        paths.sort_unstable();
        paths.dedup();
        Self {
            whole: serde_json::from_str(&text).expect("the document is JSON"),
            templates: paths.into_iter().map(Template::new).collect(),
        }
    }

    fn operation(&self, method: &Method, path: &str) -> Option<&Value> {
        let parts: Vec<_> = path.strip_suffix('/').unwrap_or(path).split('/').collect();
        let fitting = self.templates.iter().filter(|template| template.fits(&parts));
        let template = fitting.max_by_key(|template| template.precedence())?;
        // HEAD gets the response of GET, without the body.
        let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
        self.whole["paths"].get(&template.key)?.get(method.to_lowercase())
    }

    fn faults(&self, operation: &Value, method: &Method, response: &Response) -> Vec<String> {
        let Some(described) = operation["responses"].get(response.status.as_str()) else {
            return vec![format!("no such status; the body is {:.200}", response.text())];
        };
        let described = self.resolve(described);
        let mut faults = self.header_faults(&described["headers"], response);
        if *method != Method::HEAD {
            faults.extend(self.body_faults(&described["content"], response));
        }
        faults
    }

    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        pointer.map_or(value, |pointer| self.whole.pointer(pointer).expect("the reference leads to something"))
    }

    fn header_faults(&self, described: &Value, response: &Response) -> Vec<String> {
        let described = described.as_object().into_iter().flatten();
        let known: BTreeMap<_, _> =
            described.map(|(name, header)| (name.to_lowercase(), self.resolve(header))).collect();
        let mut faults = Vec::new();
        for (name, header) in &known {
            if let Some(value) = response.headers.get(name) {
                let (text, schema) = (String::from_utf8_lossy(value.as_bytes()), &header["schema"]);
                let number = text.parse::<i64>().ok().filter(|_| schema["type"] == "integer");
                let value = number.map_or_else(|| Value::from(&*text), Value::from);
                let errors = json_schema::errors(&self.whole, schema, &value, true);
                faults.extend(errors.into_iter().map(|error| format!("{name}{error}")));
            } else if header["required"] == true {
                faults.push(format!("the header {name} is missing"));
            }
        }
        let is_unknown = |name: &&str| !known.contains_key(*name) && !COMMON_HEADERS.contains(name);
        let unknown = response.headers.keys().map(HeaderName::as_str).filter(is_unknown);
        faults.extend(unknown.map(|name| format!("no such header: {name}")));
        faults
    }

    fn body_faults(&self, described: &Value, response: &Response) -> Vec<String> {
        let content_type = response.header("content-type");
        let media_type = content_type.split(';').next().unwrap_or_default().trim_end();
        let Some(contents) = described.as_object() else {
            let is_empty = response.body.is_empty() && media_type.is_empty();
            let fault = || format!("no such body: {media_type} {:.200}", response.text());
            return if is_empty { Vec::new() } else { vec![fault()] };
        };
        let Some(content) = contents.get(media_type).or_else(|| contents.get("*/*")) else {
            return vec![format!("no such content type: {content_type:?}")];
        };
        if media_type != "application/json" {
            return Vec::new();
        }
        match serde_json::from_slice(&response.body) {
            Ok(value) => json_schema::errors(&self.whole, &content["schema"], &value, true),
            Err(error) => vec![format!("no JSON: {error}")],
        }
    }
}

/// The operation id of a request; empty if there is none.
fn name(method: &Method, path: &str) -> &'static str {
    DOCUMENT.operation(method, path).and_then(|operation| operation["operationId"].as_str()).unwrap_or_default()
}

#[test]
fn a_request_asks_for_the_operation_that_the_router_finds() {
    let repository = "/api/v1/repos/ada/demo";
    for (method, path, expected) in [
        (Method::GET, "", "GetRepository"),
        (Method::GET, "/", "GetRepository"),
        (Method::HEAD, "", "GetRepository"),
        (Method::PUT, "", ""),
        (Method::GET, "/contents/a/b%2Fc.txt", "GetContents"),
        (Method::GET, "/contents", "GetContentsOfRoot"),
        (Method::GET, "/issues/comments", "ListCommentsOfRepository"),
        (Method::PATCH, "/issues/comments", ""),
        (Method::GET, "/issues/7", "GetIssue"),
        (Method::GET, "/issues/7/nothing", ""),
        (Method::GET, "/releases/latest", "GetReleaseLatest"),
    ] {
        assert_eq!(name(&method, &format!("{repository}{path}")), expected, "{method} {path}");
    }
    assert_eq!(name(&Method::GET, "/ada/demo/releases/download/v1/a.zip"), "DownloadReleaseAsset");
    assert_eq!(name(&Method::GET, "/ada/demo/info/refs"), "");
    assert_eq!(name(&Method::GET, "/api/v1//user"), "");
}

#[test]
fn what_the_document_does_not_have_is_a_fault() {
    use reqwest::StatusCode;
    use reqwest::header::{HeaderMap, HeaderValue};
    use serde_json::json;

    let path = "/api/v1/repos/ada/demo/labels/1";
    let operation = DOCUMENT.operation(&Method::GET, path).unwrap();
    let label = json!({"id": 1, "name": "bug", "color": "ff0000", "description": "", "url": "http://127.0.0.1/"});
    let faults = |status: u16, headers: &[(&'static str, &'static str)], body: &Value| {
        let mut all = HeaderMap::new();
        all.insert("content-type", HeaderValue::from_static("application/json; charset=UTF-8"));
        for &(name, value) in headers {
            all.insert(name, HeaderValue::from_static(value));
        }
        let status = StatusCode::from_u16(status).unwrap();
        let response = Response { status, headers: all, body: body.to_string().into_bytes() };
        DOCUMENT.faults(operation, &Method::GET, &response)
    };
    let changed = |field: &str, value: Value| {
        let mut label = label.clone();
        label[field] = value;
        faults(200, &[], &label)
    };
    assert_eq!(faults(200, &[("etag", "\"1\"")], &label), [""; 0]);
    assert_eq!(changed("extra", json!(1)), ["/extra is not known"]);
    assert_eq!(changed("name", json!(null)), ["/name: null is not of type \"string\""]);
    assert_eq!(changed("id", json!(u64::MAX)), ["/id: 18446744073709551615 is not a valid \"int64\""]);
    assert_eq!(
        faults(200, &[], &json!({"id": 1, "color": "", "description": "", "url": ""})),
        [": \"name\" is missing"]
    );
    assert_eq!(faults(200, &[("x-new", "1")], &label), ["no such header: x-new"]);
    assert_eq!(faults(200, &[("content-type", "text/plain")], &label), ["no such content type: \"text/plain\""]);
    assert!(faults(418, &[], &label)[0].starts_with("no such status"));
    assert!(faults(304, &[], &label)[0].starts_with("no such body"));
    let error = json!({"message": "busy", "url": "http://127.0.0.1/"});
    assert_eq!(faults(503, &[], &error), ["the header retry-after is missing"]);
    assert_eq!(faults(503, &[("retry-after", "soon")], &error), ["retry-after: \"soon\" is not of type \"integer\""]);
}
