use axum::http::HeaderName;
use http_body_util::BodyExt;
use serde_json::Value;

use super::*;
use crate::http::json::Unwritten;
use crate::http::page::{Total, WholeList};

ferrite_api_types::shape! {
    #[derive(Clone, Serialize)]
    struct Thing {
        id: i64,
        text: String,
        truncated: bool,
    }
}

impl LongTexts for Thing {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.text, &mut self.truncated);
    }
}

impl Shorten for Thing {
    fn shorten(&mut self, _: usize) {
        self.text.clear();
    }
}

fn thing() -> Thing {
    Thing { id: 7, text: "a".into(), truncated: false }
}

async fn written(response: impl IntoResponse) -> (u16, Vec<(String, String)>, String) {
    let mut response = response.into_response();
    let json = response.extensions_mut().remove::<Unwritten>().map(|unwritten| unwritten.write(1000).unwrap());
    let header = |(name, value): (&HeaderName, &HeaderValue)| (name.to_string(), value.to_str().unwrap().to_owned());
    let mut headers: Vec<_> = response.headers().iter().map(header).collect();
    headers.sort();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes().to_vec();
    (status, headers, String::from_utf8(json.unwrap_or(bytes)).unwrap())
}

fn named(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn every_type_writes_its_status_its_headers_and_its_value() {
    let content_type = ("content-type", "application/json; charset=UTF-8");
    let text = r#"{"id":7,"text":"a","truncated":false}"#;
    let whole = |status| (status, named(&[content_type]), text.to_owned());
    assert_eq!(written(Json(thing())).await, whole(200));
    let created = || Created::at("http://h/api/v1/things/7".into(), thing());
    let located = named(&[content_type, ("location", "http://h/api/v1/things/7")]);
    assert_eq!(written(created()).await, (201, located.clone(), text.to_owned()));
    assert_eq!(written(Accepted(thing())).await, whole(202));
    let shortened = r#"{"id":7,"text":"","truncated":false}"#.to_owned();
    assert_eq!(written(Shortened(thing())).await, (200, named(&[content_type]), shortened));
    assert_eq!(written(Started).await, (202, Vec::new(), String::new()));
    assert_eq!(written(NoContent).await, (204, Vec::new(), String::new()));
    let headers = || HeaderMap::from_iter([(HeaderName::from_static("link"), HeaderValue::from_static("x"))]);
    let of_page = named(&[content_type, ("link", "x")]);
    let paged = Paged { value: thing(), headers: headers() };
    assert_eq!(written(paged).await, (200, of_page.clone(), text.to_owned()));
    let texts = TextList { entries: vec![thing()], headers: headers() };
    assert_eq!(written(texts).await, (200, of_page, format!("[{text}]")));
    assert_eq!(written(CursorPage(thing())).await, whole(200));
    assert_eq!(written(Either::<_, NoContent>::First(created())).await, (201, located, text.to_owned()));
    assert_eq!(written(Either::<Json<Thing>, _>::Second(NoContent)).await, (204, Vec::new(), String::new()));
}

#[test]
fn pages_are_marked_as_such() {
    let is_page = |response: Response| response.extensions().get::<Unwritten>().map(|unwritten| unwritten.is_page);
    assert_eq!(is_page(Paged { value: thing(), headers: HeaderMap::new() }.into_response()), Some(true));
    assert_eq!(is_page(TextList { entries: vec![thing()], headers: HeaderMap::new() }.into_response()), Some(true));
    assert_eq!(is_page(CursorPage(thing()).into_response()), Some(true));
    assert_eq!(is_page(Json(thing()).into_response()), Some(false));
}

#[tokio::test]
async fn texts_and_files_have_their_media_types() {
    let policy = "default-src 'none'; sandbox";
    let html = named(&[("content-security-policy", policy), ("content-type", "text/html; charset=utf-8")]);
    assert_eq!(written(Html("<p>".into())).await, (200, html, "<p>".to_owned()));
    let text = named(&[("content-type", "text/plain")]);
    assert_eq!(written(PlainText("abc".into())).await, (200, text, "abc".to_owned()));
    let events = named(&[("cache-control", "no-store"), ("content-type", "text/event-stream")]);
    assert_eq!(written(EventStream(Body::from("id: 1"))).await, (200, events, "id: 1".to_owned()));
    let response = || (StatusCode::PARTIAL_CONTENT, [("etag", "\"x\"")], "ab").into_response();
    assert_eq!(written(File::<Archive>::from(response())).await, written(response()).await);
}

enum Archive {}

impl Media for Archive {
    const TYPES: &'static [&'static str] = &["application/zip"];
}

enum Picture {}

impl Media for Picture {
    const TYPES: &'static [&'static str] = &["image/png", "image/svg+xml"];
    const HAS_RANGES: bool = false;
}

enum Dated {}

impl Media for Dated {
    const TYPES: &'static [&'static str] = &["*/*"];
    const HAS_DATE: bool = true;
}

fn described<T: Output>() -> Value {
    let mut about = Description::default();
    T::describe(&mut about);
    let schemas = &mut Schemas::default();
    let one = |success: &Success| {
        let (media_type, schema) = success.body.map(|(media_type, schema)| (media_type, schema(schemas))).unzip();
        json!([success.status, media_type, schema, success.headers])
    };
    about.responses.iter().map(one).collect()
}

#[test]
fn every_type_is_described() {
    let thing = json!({"$ref": "#/components/schemas/Thing"});
    let json = |status: u16| json!([[status, "application/json", thing, []]]);
    assert_eq!((described::<Json<Thing>>(), described::<Shortened<Thing>>()), (json(200), json(200)));
    let created = json!([[201, "application/json", thing, ["Location"]]]);
    assert_eq!((described::<Created<Thing>>(), described::<Accepted<Thing>>()), (created, json(202)));
    assert_eq!(described::<CursorPage<Thing>>(), json(200));
    let empty = |status: u16| json!([[status, null, null, []]]);
    assert_eq!((described::<NoContent>(), described::<Started>()), (empty(204), empty(202)));
    let list = json!({"type": "array", "items": thing});
    let expected = json!([[200, "application/json", list, ["Link", "X-Total-Count"]]]);
    assert_eq!((described::<List<Thing>>(), described::<TextList<Thing>>()), (expected.clone(), expected));
    let text = |media_type: &str| json!([[200, media_type, {"type": "string"}, []]]);
    assert_eq!((described::<Html>(), described::<PlainText>()), (text("text/html"), text("text/plain")));
    assert_eq!(described::<EventStream>(), text("text/event-stream"));
    let both = json!([[201, "application/json", thing, ["Location"]], [204, null, null, []]]);
    assert_eq!(described::<Either<Created<Thing>, NoContent>>(), both);
    let file = described::<File<Archive>>();
    let statuses: Vec<_> = file.as_array().unwrap().iter().map(|one| &one[0]).collect();
    assert_eq!(statuses, [200, 206, 416]);
    assert_eq!((&file[0][1], &file[0][2]), (&json!("application/zip"), &json!({})));
    assert_eq!(file[0][3], json!(["Accept-Ranges", "Content-Disposition", "Content-Transfer-Encoding", "ETag"]));
    let dated = described::<File<Dated>>();
    assert_eq!(
        dated[0][3],
        json!(["Accept-Ranges", "Content-Disposition", "Content-Transfer-Encoding", "ETag", "Last-Modified"])
    );
    let of_range =
        ["Accept-Ranges", "Content-Disposition", "Content-Range", "Content-Transfer-Encoding", "ETag", "Last-Modified"];
    assert_eq!(dated[1][3], json!(of_range));
    let picture = described::<File<Picture>>();
    assert_eq!((picture[0][1].as_str(), picture[1][1].as_str()), (Some("image/png"), Some("image/svg+xml")));
    assert_eq!(picture.as_array().unwrap().len(), 2);
}

#[test]
fn a_number_of_entries_is_one_of_all_or_of_some() {
    let entries = [1, 2, 3];
    assert_eq!((Total::of(&entries), Total::from(3)), (Total::All(3), Total::All(3)));
    assert_eq!((Total::counted(3, false), Total::counted(3, true)), (Total::All(3), Total::AtLeast(3)));
    assert_eq!(Total::known_at_end(Some(3), true), Total::All(3));
    assert_eq!(Total::known_at_end(None, true), Total::Unknown { has_more: true });
    let mut about = Description::default();
    <WholeList as crate::http::describe::Input>::describe(&mut about);
    assert_eq!(about.query.len(), 2);
}
