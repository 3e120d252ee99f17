use proptest::prelude::*;

use super::*;

fn fields(text: &str) -> Fields {
    Fields {
        values: parse(text.as_bytes()).unwrap(),
        inside: String::new(),
        errors: Vec::new(),
        slot: Slot { _permit: None },
    }
}

fn status(bytes: &[u8]) -> u16 {
    parse(bytes).map_or_else(|error| error.status.as_u16(), |_| 200)
}

#[test]
fn nothing_and_null_are_an_empty_object() {
    for text in ["", "  \r\n", "null", "{}"] {
        assert_eq!(parse(text.as_bytes()).unwrap(), BTreeMap::new(), "{text:?}");
    }
}

#[test]
fn broken_json_is_400_and_a_wrong_type_422() {
    for text in ["{", "{\"a\":}", "{} x", "{}{}", "'a'", "{\"a\":\"\\ud800\"}", "\u{feff}{}", "nul"] {
        assert_eq!(status(text.as_bytes()), 400, "{text:?}");
    }
    assert_eq!(status(b"{\"a\":\"\xff\"}"), 400);
    for text in ["[]", "1", "\"a\"", "true"] {
        assert_eq!(status(text.as_bytes()), 422, "{text:?}");
    }
}

#[test]
fn deep_and_wide_documents_are_400() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    assert_eq!(status(deep.as_bytes()), 400);
    assert_eq!(status("[".repeat(1_000_000).as_bytes()), 400);
    let wide = format!("{{\"a\":[{}0]}}", "0,".repeat(MAX_VALUES));
    assert_eq!(status(wide.as_bytes()), 400);
    let ordinary = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(status(ordinary.as_bytes()), 200);
}

#[test]
fn every_wrong_type_names_its_field() {
    let mut body =
        fields(r#"{"name":1,"private":"yes","source_id":"x","events":["push",2],"config":{"url":7,"secret":null}}"#);
    body.required("name");
    body.flag("private");
    body.number("source_id");
    body.texts("events");
    assert!(body.required_map("config").is_empty());
    let names: Vec<_> = body.errors.iter().map(|error| (error.field.as_str(), error.code.as_ref())).collect();
    let expected =
        [("name", "type"), ("private", "type"), ("source_id", "type"), ("events", "type"), ("config.url", "type")];
    assert_eq!(names, expected);
    assert_eq!(body.finish().unwrap_err().status.as_u16(), 422);
}

#[test]
fn a_list_of_numbers_has_nothing_else() {
    let mut body = fields(r#"{"good":[1,2],"text":[1,"2"],"null":[null],"fraction":[1.5],"single":3}"#);
    assert_eq!(body.numbers("good"), [1, 2]);
    for wrong in ["text", "null", "fraction", "single"] {
        assert_eq!(body.numbers(wrong), Vec::<i64>::new());
        let error = body.errors.pop().unwrap();
        assert_eq!((error.field.as_str(), error.code.as_ref()), (wrong, "type"));
    }
}

#[test]
fn null_and_zero_values_are_absent() {
    let mut body = fields(r#"{"name":null,"private":null,"labels":null,"milestone":0,"assignee":"","title":""}"#);
    assert_eq!((body.numbers("labels"), body.number("milestone")), (Vec::new(), 0));
    assert_eq!((body.text_or_empty("assignee"), body.numbers("missing")), (String::new(), Vec::new()));
    assert_eq!(body.optional_text("name"), None);
    assert!(!body.flag("private"));
    body.required("title");
    assert_eq!(body.errors.len(), 1);
    assert_eq!(body.errors[0].code, "required");
}

#[test]
fn a_text_may_be_empty_where_only_presence_is_asked() {
    let mut body = fields(r#"{"content":""}"#);
    assert_eq!(body.present("content"), "");
    assert!(body.errors.is_empty());
    body.present("other");
    assert_eq!(body.errors[0].code, "required");
}

#[test]
fn a_nul_is_refused_with_its_field() {
    let mut body = fields(r#"{"title":"a\u0000b"}"#);
    body.optional_text("title");
    assert_eq!((body.errors[0].field.as_str(), body.errors[0].code.as_ref()), ("title", "invalid"));
}

#[test]
fn json_is_any_type_that_says_so() {
    for (value, expected) in [
        ("application/json", true),
        ("APPLICATION/JSON; charset=utf-8", true),
        ("application/vnd.x+json", true),
        ("text/plain", false),
        ("multipart/form-data", false),
    ] {
        let mut headers = HeaderMap::new();
        assert!(is_json(&headers));
        headers.insert(CONTENT_TYPE, value.parse().unwrap());
        assert_eq!(is_json(&headers), expected, "{value}");
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let name =
            prop_oneof![Just("name".to_owned()), Just("config".to_owned()), Just("events".to_owned()), any::<String>()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::Array),
            prop::collection::vec((name, inner), 0..5)
                .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_refused_with_4xx(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(matches!(status(&bytes), 200 | 400 | 422));
    }

    #[test]
    fn arbitrary_json_is_taken_apart_or_refused_with_422(value in json()) {
        let Ok(values) = parse(value.to_string().as_bytes()) else {
            prop_assert!(!value.is_object() && !value.is_null());
            return Ok(());
        };
        let mut body = Fields { values, inside: String::new(), errors: Vec::new(), slot: Slot { _permit: None } };
        body.required("name");
        body.required_map("config");
        body.texts("events");
        body.number("id");
        body.numbers("labels");
        body.flag("private");
        if let Err(error) = body.finish() {
            prop_assert_eq!(error.status.as_u16(), 422);
        }
    }
}

async fn read(headers: &[(&'static str, &str)], body: Body, limit: usize) -> Result<Fields, u16> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, value.parse().unwrap());
    }
    let gateway = crate::tests::lonely();
    Payload { headers: map, body }.fields(&gateway, limit).await.map_err(|error| error.status.as_u16())
}

fn endless() -> Body {
    Body::from_stream(futures_util::stream::repeat_with(|| Ok::<_, Infallible>(vec![b' '; 64 * 1024])))
}

#[tokio::test]
async fn bodies_above_their_limit_are_413_whether_they_say_so_or_not() {
    let declared = [("content-length", "4194305")];
    assert_eq!(read(&declared, Body::empty(), JSON_BYTES).await.unwrap_err(), 413);
    assert_eq!(read(&[], endless(), JSON_BYTES).await.unwrap_err(), 413);
    assert_eq!(read(&[], endless(), FILE_BYTES).await.unwrap_err(), 413);
    let lies = [("content-length", "2")];
    assert_eq!(read(&lies, endless(), JSON_BYTES).await.unwrap_err(), 413);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_400_and_another_type_415() {
    let broken = futures_util::stream::iter([Ok("{"), Err(std::io::Error::other("gone"))]);
    assert_eq!(read(&[], Body::from_stream(broken), JSON_BYTES).await.unwrap_err(), 400);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(read(&form, Body::from("name=x"), JSON_BYTES).await.unwrap_err(), 415);
}

#[tokio::test]
async fn large_bodies_wait_for_no_slot_and_free_theirs() {
    let gateway = crate::tests::lonely();
    let large = || Payload { headers: HeaderMap::new(), body: Body::from(vec![b' '; JSON_BYTES + 1]) };
    let held = large().fields(&gateway, FILE_BYTES).await.unwrap();
    assert_eq!(large().fields(&gateway, FILE_BYTES).await.unwrap_err().status.as_u16(), 503);
    let slot = held.finish().unwrap();
    assert!(large().fields(&gateway, FILE_BYTES).await.is_err());
    drop(slot);
    assert!(large().fields(&gateway, FILE_BYTES).await.is_ok());
}

#[test]
fn what_may_be_absent_is_told_from_what_is_empty() {
    let mut body = fields(r#"{"a":"","b":null,"c":"x","on":false,"off":null,"n":0,"m":null}"#);
    assert_eq!(body.optional_text("a").as_deref(), Some(""));
    assert_eq!((body.optional_text("b"), body.optional_text("missing")), (None, None));
    assert_eq!(body.optional_word("c").as_deref(), Some("x"));
    assert_eq!((body.optional_flag("on"), body.optional_flag("off")), (Some(false), None));
    assert_eq!((body.optional_number("n"), body.optional_number("m")), (Some(0), None));
    assert_eq!(fields(r#"{"a":""}"#).optional_word("a"), None);
    assert!(body.finish().is_ok());
}

#[test]
fn optional_fields_name_themselves_when_they_are_of_the_wrong_type() {
    let mut body = fields(r#"{"text":1,"flag":"true","number":"7","time":7,"other":"soon"}"#);
    assert_eq!((body.optional_text("text"), body.optional_flag("flag")), (None, None));
    assert_eq!((body.optional_number("number"), body.optional_time("time")), (None, None));
    assert_eq!(body.optional_time("other"), None);
    let names: Vec<_> = body.errors.iter().map(|error| (error.field.as_str(), error.code.as_ref())).collect();
    let expected = [("text", "type"), ("flag", "type"), ("number", "type"), ("time", "type"), ("other", "invalid")];
    assert_eq!(names, expected);
}

#[test]
fn times_are_rfc_3339_with_any_offset() {
    let mut body = fields(r#"{"a":"2026-01-02T03:04:05+02:00","b":"","c":null,"d":"2016-12-31T23:59:60.5Z"}"#);
    assert_eq!(body.optional_time("a"), Some(Timestamp { seconds: 1_767_315_845, nanos: 0 }));
    assert_eq!((body.optional_time("b"), body.optional_time("c")), (None, None));
    assert_eq!(body.optional_time("d"), Some(Timestamp { seconds: 1_483_228_799, nanos: 999_999_999 }));
    for wrong in ["2026-01-02", "2026-01-02T03:04:05", "+12026-01-02T03:04:05Z", "x", "2026-02-30T00:00:00Z"] {
        assert_eq!(timestamp(wrong), None, "{wrong}");
    }
}

#[test]
fn a_bare_list_stands_for_the_one_field() {
    let list = |text: &str| parse_or_list(text.as_bytes(), "emails").map_err(|error| error.status.as_u16());
    let expected = BTreeMap::from([("emails".to_owned(), Value::List(vec![Value::Text("a@b".into())]))]);
    assert_eq!(list(r#"["a@b"]"#), Ok(expected.clone()));
    assert_eq!(list(r#"{"emails":["a@b"]}"#), Ok(expected));
    assert_eq!((list(""), list("null")), (Ok(BTreeMap::new()), Ok(BTreeMap::new())));
    assert_eq!((list("\"a@b\""), list("[")), (Err(422), Err(400)));
}

#[test]
fn a_list_that_must_be_there_has_something_in_it() {
    for text in ["{}", r#"{"emails":null}"#, r#"{"emails":[]}"#] {
        let mut body = fields(text);
        assert!(body.required_texts("emails").is_empty());
        assert_eq!(body.errors[0].code, "required", "{text}");
    }
    let mut body = fields(r#"{"emails":["a"],"other":"a"}"#);
    assert_eq!(body.required_texts("emails"), ["a"]);
    body.required_texts("other");
    assert_eq!(body.errors[0].code, "type");
}

proptest! {
    #[test]
    fn no_text_breaks_the_reading_of_times(text in any::<String>()) {
        let _ = timestamp(&text);
    }
}
