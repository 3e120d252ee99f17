//! Each method of the reader, with values that are right, absent and of the wrong type.

use proptest::prelude::*;

use super::*;
use crate::http::json_value::parse_object;
use crate::http::times::parse_time;

fn reader(text: &str) -> FieldReader {
    FieldReader::new(parse_object(text.as_bytes(), None).unwrap(), BodyPermit::default())
}

#[test]
fn every_wrong_type_names_its_field() {
    let mut body =
        reader(r#"{"name":1,"private":"yes","source_id":"x","events":["push",2],"config":{"url":7,"secret":null}}"#);
    body.required_non_empty("name");
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
    let mut body = reader(r#"{"good":[1,2],"text":[1,"2"],"null":[null],"fraction":[1.5],"single":3}"#);
    assert_eq!(body.numbers("good"), [1, 2]);
    for wrong in ["text", "null", "fraction", "single"] {
        assert_eq!(body.numbers(wrong), Vec::<i64>::new());
        let error = body.errors.pop().unwrap();
        assert_eq!((error.field.as_str(), error.code.as_ref()), (wrong, "type"));
    }
}

#[test]
fn null_and_zero_values_are_absent() {
    let mut body = reader(r#"{"name":null,"private":null,"labels":null,"milestone":0,"assignee":"","title":""}"#);
    assert_eq!((body.numbers("labels"), body.number("milestone")), (Vec::new(), 0));
    assert_eq!((body.text_or_empty("assignee"), body.numbers("missing")), (String::new(), Vec::new()));
    assert_eq!(body.optional_text("name"), None);
    assert!(!body.flag("private"));
    body.required_non_empty("title");
    assert_eq!(body.errors.len(), 1);
    assert_eq!(body.errors[0].code, "required");
}

#[test]
fn a_text_may_be_empty_where_only_presence_is_asked() {
    let mut body = reader(r#"{"content":""}"#);
    assert_eq!(body.required("content"), "");
    assert!(body.errors.is_empty());
    body.required("other");
    assert_eq!(body.errors[0].code, "required");
}

#[test]
fn a_nul_is_refused_with_its_field() {
    let mut body = reader(r#"{"title":"a\u0000b"}"#);
    body.optional_text("title");
    assert_eq!((body.errors[0].field.as_str(), body.errors[0].code.as_ref()), ("title", "invalid"));
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
    fn arbitrary_json_is_taken_apart_or_refused_with_422(value in json()) {
        let Ok(values) = parse_object(value.to_string().as_bytes(), None) else {
            prop_assert!(!value.is_object() && !value.is_null());
            return Ok(());
        };
        let mut body = FieldReader::new(values, BodyPermit::default());
        body.required_non_empty("name");
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

#[test]
fn absent_and_empty_values_differ() {
    let mut body = reader(r#"{"a":"","b":null,"c":"x","on":false,"off":null,"n":0,"m":null}"#);
    assert_eq!(body.optional_text("a").as_deref(), Some(""));
    assert_eq!((body.optional_text("b"), body.optional_text("missing")), (None, None));
    assert_eq!(body.optional_non_empty("c").as_deref(), Some("x"));
    assert_eq!((body.optional_flag("on"), body.optional_flag("off")), (Some(false), None));
    assert_eq!((body.optional_number("n"), body.optional_number("m")), (Some(0), None));
    assert_eq!(reader(r#"{"a":""}"#).optional_non_empty("a"), None);
    assert!(body.finish().is_ok());
}

#[test]
fn optional_fields_name_themselves_when_they_are_of_the_wrong_type() {
    let mut body = reader(r#"{"text":1,"flag":"true","number":"7","time":7,"other":"soon"}"#);
    assert_eq!((body.optional_text("text"), body.optional_flag("flag")), (None, None));
    assert_eq!((body.optional_number("number"), body.optional_time("time")), (None, None));
    assert_eq!(body.optional_time("other"), None);
    let names: Vec<_> = body.errors.iter().map(|error| (error.field.as_str(), error.code.as_ref())).collect();
    let expected = [("text", "type"), ("flag", "type"), ("number", "type"), ("time", "type"), ("other", "invalid")];
    assert_eq!(names, expected);
}

#[test]
fn times_are_rfc_3339_with_any_offset() {
    let mut body = reader(r#"{"a":"2026-01-02T03:04:05+02:00","b":"","c":null,"d":"2016-12-31T23:59:60.5Z"}"#);
    assert_eq!(body.optional_time("a"), Some(Timestamp { seconds: 1_767_315_845, nanos: 0 }));
    assert_eq!((body.optional_time("b"), body.optional_time("c")), (None, None));
    assert_eq!(body.optional_time("d"), Some(Timestamp { seconds: 1_483_228_799, nanos: 999_999_999 }));
    for (text, offset_minutes) in [
        ("2026-01-02T03:04:05Z", 0),
        ("2026-01-02T03:04:05-00:00", 0),
        ("2026-01-02T08:34:05+05:30", 330),
        ("2026-01-01T23:34:05-03:30", -210),
        ("2026-01-03T03:03:05+23:59", 1439),
        ("2026-01-01T03:05:05-23:59", -1439),
    ] {
        let time = Timestamp { seconds: 1_767_323_045, nanos: 0 };
        assert_eq!(parse_offset_time(text), Some(OffsetTime { time, offset_minutes }), "{text}");
    }
    for wrong in [
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05-24:00",
        "2026-01-02T03:04:05+05:60",
        "2026-01-02T03:04:05+99:00",
    ] {
        assert_eq!(parse_time(wrong), None, "{wrong}");
    }
    for wrong in ["2026-01-02", "2026-01-02T03:04:05", "+12026-01-02T03:04:05Z", "x", "2026-02-30T00:00:00Z"] {
        assert_eq!(parse_time(wrong), None, "{wrong}");
    }
}

#[test]
fn a_list_that_must_be_there_has_something_in_it() {
    for text in ["{}", r#"{"emails":null}"#, r#"{"emails":[]}"#] {
        let mut body = reader(text);
        assert!(body.required_texts("emails").is_empty());
        assert_eq!(body.errors[0].code, "required", "{text}");
    }
    let mut body = reader(r#"{"emails":["a"],"other":"a"}"#);
    assert_eq!(body.required_texts("emails"), ["a"]);
    body.required_texts("other");
    assert_eq!(body.errors[0].code, "type");
}
