//! How each kind of field reads valid values, missing values and other types.

use std::fmt::{self, Debug, Formatter};

use proptest::prelude::*;
use prost_types::Timestamp;

use super::*;
use crate::http::times::{parse_offset_time, parse_time};

const ABSENT: &str = "";
/// Values of all types, valid and invalid.
const VALUES: [&str; 31] = [
    "null",
    "\"\"",
    "\"x\"",
    "\" \"",
    "\"a\\u0000b\"",
    "\"2026-01-02T03:04:05Z\"",
    "\"2026-13-02T03:04:05Z\"",
    "\"90\"",
    "7",
    "0",
    "-7",
    "1.5",
    "0.0",
    "1e3",
    "9223372036854775807",
    "9223372036854775808",
    "true",
    "false",
    "{}",
    "[]",
    "[1,2]",
    "[\"a\",\"b\"]",
    "[1,\"2\",null]",
    "[\"a\",1,\"b\\u0000\"]",
    "{\"name\":7,\"date\":\"x\",\"url\":\"a\\u0000\"}",
    "{\"name\":\"x\",\"date\":\"2026-01-02T03:04:05-03:30\"}",
    "[{\"name\":7},{},3,{\"date\":\"x\"}]",
    "[{},{\"name\":\"y\"}]",
    "{\"url\":\"u\"}",
    "{\"url\":\"u\",\"other\":null}",
    "{\"url\":\"u\",\"a\\u0000b\":7}",
];
/// The texts without NUL, which look the same in Rust and JSON.
const TEXTS: [&str; 5] = ["\"x\"", "\" \"", "\"2026-01-02T03:04:05Z\"", "\"2026-13-02T03:04:05Z\"", "\"90\""];
const SAMPLE_TIME: Timestamp = Timestamp { seconds: 1_767_323_045, nanos: 0 };

const REQUIRED: &str = "field required: is required";
const NUL: &str = "field invalid: must not contain NUL characters";
const NO_TEXT: &str = "field type: must be a string";
const NO_FLAG: &str = "field type: must be true or false";
const NO_INTEGER: &str = "field type: must be a whole number";
const NO_TIME: &str =
    "field invalid: must be an RFC 3339 date and time between the years 1 and 9999, such as `2026-01-02T03:04:05Z`";
const NO_COMMIT_TIME: &str =
    "field invalid: must be an RFC 3339 date and time between the years 1970 and 9999, such as `2026-01-02T03:04:05Z`";
const NO_DURATION: &str = "field invalid: must be a duration such as `8h0m0s`, or a number of seconds";
const NO_LIST_OF_OBJECTS: &str = "field type: must be a list of objects";

impl Debug for Person {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let offset = self.date.map(|date| date.offset_minutes);
        formatter.debug_tuple("Person").field(&self.name).field(&offset).finish()
    }
}

/// Returns the parsed value in Rust's debug format, or the errors.
fn outcome<F: Field<Value: Debug>>(value: &str) -> String {
    let body = if value == ABSENT { "{}".to_owned() } else { format!("{{\"field\":{value}}}") };
    match read_one::<F>(&body) {
        Ok(value) => format!("{value:?}"),
        Err(mistakes) => {
            let mistakes = mistakes.iter().map(|(field, code, message)| format!("{field} {code}: {message}"));
            mistakes.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Checks the outcome of an absent field and of each of [`VALUES`]: `rows`, and `other` for the
/// rest.
#[track_caller]
fn assert_reads<F: Field<Value: Debug>>(other: &str, rows: &[(&str, String)]) {
    for value in [ABSENT].into_iter().chain(VALUES) {
        let expected = rows.iter().find(|row| row.0 == value).map_or(other, |row| row.1.as_str());
        assert_eq!(outcome::<F>(value), expected, "{value}");
    }
    for (value, _) in rows {
        assert!(*value == ABSENT || VALUES.contains(value), "{value}");
    }
}

fn rows(rows: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    rows.iter().map(|(value, outcome)| (*value, (*outcome).to_owned())).collect()
}

/// Returns the rows of absence and of null.
fn of_absence(outcome: &str) -> Vec<(&'static str, String)> {
    rows(&[(ABSENT, outcome), ("null", outcome)])
}

fn plain(text: &str) -> String {
    text.to_owned()
}

fn some(text: &str) -> String {
    format!("Some({text})")
}

#[test]
fn texts_are_read_whatever_they_say() {
    let rows = |shown: fn(&str) -> String, empty: &str, absent: &str| {
        let texts = TEXTS.map(|text| (text, shown(text))).to_vec();
        [texts, rows(&[("\"\"", empty), ("\"a\\u0000b\"", NUL)]), of_absence(absent)].concat()
    };
    assert_reads::<Required<Text<50>>>(NO_TEXT, &rows(plain, REQUIRED, REQUIRED));
    assert_reads::<Present<Text>>(NO_TEXT, &rows(plain, "\"\"", REQUIRED));
    assert_reads::<NonEmpty<Text<50>>>(NO_TEXT, &rows(some, "None", "None"));
    assert_reads::<Optional<Text<7>>>(NO_TEXT, &rows(some, "Some(\"\")", "None"));
    assert_reads::<OrDefault<Text>>(NO_TEXT, &rows(plain, "\"\"", "\"\""));
}

#[test]
fn flags_are_true_or_false() {
    let optional = rows(&[("true", "Some(true)"), ("false", "Some(false)")]);
    assert_reads::<Optional<Flag>>(NO_FLAG, &[optional, of_absence("None")].concat());
    let with_default = rows(&[("true", "true"), ("false", "false")]);
    assert_reads::<OrDefault<Flag>>(NO_FLAG, &[with_default, of_absence("false")].concat());
}

#[test]
fn integers_have_64_bits_and_no_fraction() {
    let rows = |shown: fn(&str) -> String, zero: &str| {
        let others = ["7", "-7", "9223372036854775807"].map(|number| (number, shown(number))).to_vec();
        [others, rows(&[("0", zero), ("9223372036854775808", "field out_of_range: is out of range")])].concat()
    };
    let twice = |text: &str| some(&some(text));
    assert_reads::<Required<Integer>>(NO_INTEGER, &[rows(plain, REQUIRED), of_absence(REQUIRED)].concat());
    assert_reads::<Optional<Integer>>(NO_INTEGER, &[rows(some, "Some(0)"), of_absence("None")].concat());
    assert_reads::<OrDefault<Integer>>(NO_INTEGER, &[rows(plain, "0"), of_absence("0")].concat());
    let of_null = vec![(ABSENT, plain("None")), ("null", plain("Some(None)"))];
    assert_reads::<Nullable<Integer>>(NO_INTEGER, &[rows(twice, "Some(Some(0))"), of_null].concat());
}

#[test]
fn times_are_texts_of_their_form() {
    let rows = |time: String, empty: &str, no_time: &str| {
        let wrong = TEXTS.map(|text| (text, plain(no_time))).to_vec();
        let right = vec![("\"2026-01-02T03:04:05Z\"", time), ("\"\"", plain(empty)), ("\"a\\u0000b\"", plain(NUL))];
        [right, wrong, of_absence("None")].concat()
    };
    assert_reads::<NonEmpty<Time>>(NO_TEXT, &rows(format!("{:?}", Some(SAMPLE_TIME)), "None", NO_TIME));
    let time = OffsetTime { time: SAMPLE_TIME, offset_minutes: 0 };
    assert_reads::<NonEmpty<OffsetTime>>(NO_TEXT, &rows(format!("{:?}", Some(time)), "None", NO_COMMIT_TIME));
    let cleared = rows(format!("{:?}", Some(Some(SAMPLE_TIME))), "Some(None)", NO_TIME);
    assert_reads::<Clearable<Time>>(NO_TEXT, &cleared);
    // Commits have times from 1970 on, and Go's clients send an unset one as the first second of year 1.
    for (text, expected) in [
        ("1969-12-31T23:59:59Z", NO_COMMIT_TIME),
        ("1970-01-01T00:00:00+00:01", NO_COMMIT_TIME),
        ("0001-01-01T00:00:01Z", NO_COMMIT_TIME),
        ("0001-01-01T00:00:00Z", "None"),
    ] {
        assert_eq!(outcome::<NonEmpty<OffsetTime>>(&format!("\"{text}\"")), expected, "{text}");
    }
}

#[test]
fn durations_are_texts_or_seconds() {
    let numbers = ["7", "0", "-7", "9223372036854775807"].map(|number| (number, some(number))).to_vec();
    let texts = [("\"90\"", "Some(90)"), ("\"\"", "None"), ("\"x\"", NO_DURATION), ("\" \"", NO_DURATION)];
    let wrong = ["\"a\\u0000b\"", "\"2026-01-02T03:04:05Z\"", "\"2026-13-02T03:04:05Z\""];
    let wrong = wrong.map(|text| (text, plain(NO_DURATION))).to_vec();
    let other = "field type: must be a duration or a whole number of seconds";
    assert_reads::<NonEmpty<Seconds<86_400>>>(other, &[numbers, rows(&texts), wrong, of_absence("None")].concat());
}

#[test]
fn lists_of_texts_name_themselves_for_each_mistake() {
    let rows = |shown: fn(&str) -> String, empty: &str, absent: &str| {
        let right = vec![("[\"a\",\"b\"]", shown("[\"a\", \"b\"]")), ("[]", plain(empty))];
        let wrong = [
            ("[1,2]", [NO_TEXT; 2].join("; ")),
            ("[1,\"2\",null]", [NO_TEXT; 2].join("; ")),
            ("[\"a\",1,\"b\\u0000\"]", [NO_TEXT, NUL].join("; ")),
            ("[{\"name\":7},{},3,{\"date\":\"x\"}]", [NO_TEXT; 4].join("; ")),
            ("[{},{\"name\":\"y\"}]", [NO_TEXT; 2].join("; ")),
        ];
        [right, wrong.to_vec(), of_absence(absent)].concat()
    };
    let other = "field type: must be a list of strings";
    assert_reads::<Required<Texts<10>>>(other, &rows(plain, REQUIRED, REQUIRED));
    assert_reads::<Present<Texts>>(other, &rows(plain, "[]", REQUIRED));
    assert_reads::<Optional<Texts>>(other, &rows(some, "Some([])", "None"));
    assert_reads::<OrDefault<Texts>>(other, &rows(plain, "[]", "[]"));
}

#[test]
fn a_list_of_numbers_has_nothing_else() {
    let right = rows(&[("[]", "[]"), ("[1,2]", "[1, 2]")]);
    let other = "field type: must be a list of whole numbers";
    assert_reads::<OrDefault<Integers<100>>>(other, &[right, of_absence("[]")].concat());
    for wrong in ["[1,\"2\"]", "[null]", "[1.5]", "3"] {
        assert_eq!(outcome::<OrDefault<Integers>>(wrong), other, "{wrong}");
    }
}

#[test]
fn maps_of_texts_leave_out_null_and_keys_with_nul() {
    let right = rows(&[
        ("{}", "{}"),
        ("{\"url\":\"u\"}", "{\"url\": \"u\"}"),
        ("{\"url\":\"u\",\"other\":null}", "{\"url\": \"u\"}"),
        ("{\"url\":\"u\",\"a\\u0000b\":7}", "{\"url\": \"u\"}"),
        (
            "{\"name\":\"x\",\"date\":\"2026-01-02T03:04:05-03:30\"}",
            "{\"date\": \"2026-01-02T03:04:05-03:30\", \"name\": \"x\"}",
        ),
        (
            "{\"name\":7,\"date\":\"x\",\"url\":\"a\\u0000\"}",
            "field.name type: must be a string; field.url invalid: must not contain NUL characters",
        ),
    ]);
    let other = "field type: must be an object of strings";
    assert_reads::<Present<TextMap>>(other, &[right, of_absence(REQUIRED)].concat());
}

#[test]
fn objects_name_the_fields_inside_of_them() {
    let [name, date] = ["name type: must be a string", NO_COMMIT_TIME.strip_prefix("field ").unwrap()];
    let right = rows(&[
        ("{}", "Some(Person(\"\", None))"),
        ("{\"url\":\"u\"}", "Some(Person(\"\", None))"),
        ("{\"url\":\"u\",\"other\":null}", "Some(Person(\"\", None))"),
        ("{\"url\":\"u\",\"a\\u0000b\":7}", "Some(Person(\"\", None))"),
        ("{\"name\":\"x\",\"date\":\"2026-01-02T03:04:05-03:30\"}", "Some(Person(\"x\", Some(-210)))"),
    ]);
    let wrong = ("{\"name\":7,\"date\":\"x\",\"url\":\"a\\u0000\"}", format!("field.{name}; field.date {date}"));
    let other = "field type: must be an object";
    assert_reads::<Optional<Object<Person>>>(other, &[right, vec![wrong], of_absence("None")].concat());
    let at = |place: usize| format!("field[{place}] type: must be an object");
    let lists = vec![
        ("[]", plain(REQUIRED)),
        ("[{},{\"name\":\"y\"}]", plain("[Person(\"\", None), Person(\"y\", None)]")),
        ("[1,2]", [at(0), at(1)].join("; ")),
        ("[\"a\",\"b\"]", [at(0), at(1)].join("; ")),
        ("[1,\"2\",null]", [at(0), at(1), at(2)].join("; ")),
        ("[\"a\",1,\"b\\u0000\"]", [at(0), at(1), at(2)].join("; ")),
        (
            "[{\"name\":7},{},3,{\"date\":\"x\"}]",
            [format!("field[0].{name}"), at(2), format!("field[3].date {date}")].join("; "),
        ),
    ];
    assert_reads::<Required<Objects<Person>>>(NO_LIST_OF_OBJECTS, &[lists, of_absence(REQUIRED)].concat());
}

fields! {
    /// Fields of new webhooks and repositories.
    struct Mixed {
        name: Required<Text>,
        is_private as "private": OrDefault<Flag>,
        source_id: OrDefault<Integer>,
        events: OrDefault<Texts>,
        config: Present<TextMap>,
        labels: OrDefault<Integers>,
    }
}

/// Reads a body as [`Mixed`]. Returns the fields and codes of its errors.
fn mistakes_in(body: &str) -> Vec<(String, String)> {
    let (mut object, mut mistakes) = (parse_object(body.as_bytes(), None).unwrap(), Mistakes::default());
    let read = Mixed::read(&mut object, &mut mistakes);
    let told = mistakes.errors.iter().map(|error| (error.field.clone(), error.code.clone().into_owned())).collect();
    match mistakes.finish(read) {
        Ok(Mixed { name, is_private, source_id, events, config, labels }) => {
            let others = (is_private, source_id, events, config, labels);
            assert!(!name.is_empty(), "{others:?}");
        }
        Err(error) => assert_eq!(error.status.as_u16(), 422),
    }
    told
}

#[test]
fn every_wrong_type_names_its_field() {
    let told = mistakes_in(
        r#"{"name":1,"private":"yes","source_id":"x","events":["push",2],"config":{"url":7,"secret":null}}"#,
    );
    let expected = ["name", "private", "source_id", "events", "config.url"].map(|name| (plain(name), plain("type")));
    assert_eq!(told, expected);
}

#[test]
fn null_and_zero_values_are_absent() {
    let told = mistakes_in(r#"{"name":"","private":null,"source_id":0,"events":null,"config":{},"labels":null}"#);
    assert_eq!(told, [(plain("name"), plain("required"))]);
    assert_eq!((outcome::<OrDefault<Text>>("\"\""), outcome::<OrDefault<Integer>>("0")), (plain("\"\""), plain("0")));
    assert_eq!(outcome::<Required<Text>>("\"\""), REQUIRED);
}

#[test]
fn a_text_may_be_empty_where_only_presence_is_asked() {
    assert_eq!((outcome::<Present<Text>>("\"\""), outcome::<Present<Text>>(ABSENT)), (plain("\"\""), plain(REQUIRED)));
}

#[test]
fn a_nul_is_refused_with_its_field() {
    assert_eq!(outcome::<Optional<Text>>("\"a\\u0000b\""), NUL);
}

#[test]
fn absent_and_empty_values_differ() {
    assert_eq!((outcome::<Optional<Text>>("\"\""), outcome::<Optional<Text>>("null")), (some("\"\""), plain("None")));
    assert_eq!((outcome::<NonEmpty<Text>>("\"x\""), outcome::<NonEmpty<Text>>("\"\"")), (some("\"x\""), plain("None")));
    assert_eq!((outcome::<Optional<Flag>>("false"), outcome::<Optional<Flag>>("null")), (some("false"), plain("None")));
    let number = outcome::<Optional<Integer>>;
    assert_eq!((number("0"), number("null")), (some("0"), plain("None")));
}

#[test]
fn optional_fields_name_themselves_when_they_are_of_the_wrong_type() {
    assert_eq!(
        (outcome::<Optional<Text>>("1"), outcome::<Optional<Flag>>("\"true\"")),
        (plain(NO_TEXT), plain(NO_FLAG))
    );
    assert_eq!(outcome::<Optional<Integer>>("\"7\""), NO_INTEGER);
    assert_eq!(
        (outcome::<NonEmpty<Time>>("7"), outcome::<NonEmpty<Time>>("\"soon\"")),
        (plain(NO_TEXT), plain(NO_TIME))
    );
}

#[test]
fn a_list_that_must_be_there_has_something_in_it() {
    let list = outcome::<Required<Texts>>;
    assert_eq!((list(ABSENT), list("null"), list("[]")), (plain(REQUIRED), plain(REQUIRED), plain(REQUIRED)));
    assert_eq!((list("[\"a\"]"), list("\"a\"")), (plain("[\"a\"]"), plain("field type: must be a list of strings")));
}

#[test]
fn times_are_rfc_3339_with_any_offset() {
    let time = |text: &str| read_one::<NonEmpty<Time>>(&format!("{{\"field\":\"{text}\"}}")).unwrap();
    assert_eq!(time("2026-01-02T03:04:05+02:00"), Some(Timestamp { seconds: 1_767_315_845, nanos: 0 }));
    assert_eq!((time(""), outcome::<NonEmpty<Time>>("null")), (None, plain("None")));
    assert_eq!(time("2016-12-31T23:59:60.5Z"), Some(Timestamp { seconds: 1_483_228_799, nanos: 999_999_999 }));
    for (text, offset_minutes) in [
        ("2026-01-02T03:04:05Z", 0),
        ("2026-01-02T03:04:05-00:00", 0),
        ("2026-01-02T08:34:05+05:30", 330),
        ("2026-01-01T23:34:05-03:30", -210),
        ("2026-01-03T03:03:05+23:59", 1439),
        ("2026-01-01T03:05:05-23:59", -1439),
    ] {
        assert_eq!(parse_offset_time(text), Some(OffsetTime { time: SAMPLE_TIME, offset_minutes }), "{text}");
    }
    for wrong in [
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05-24:00",
        "2026-01-02T03:04:05+05:60",
        "2026-01-02T03:04:05+99:00",
    ] {
        assert_eq!(parse_time(wrong), None, "{wrong}");
    }
    for (text, wrong) in [
        ("0001-01-01T23:59:00+23:59", "0001-01-01T23:58:59+23:59"),
        ("9999-12-31T00:00:59-23:59", "9999-12-31T00:01:00-23:59"),
        ("0001-01-01T00:00:00Z", "0000-12-31T23:59:59Z"),
    ] {
        assert!(parse_time(text).is_some() && parse_offset_time(text).is_some(), "{text}");
        assert_eq!((parse_time(wrong), parse_offset_time(wrong)), (None, None), "{wrong}");
    }
    for wrong in ["2026-01-02", "2026-01-02T03:04:05", "+12026-01-02T03:04:05Z", "x", "2026-02-30T00:00:00Z"] {
        assert_eq!(parse_time(wrong), None, "{wrong}");
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let name =
            prop_oneof![Just("name".to_owned()), Just("config".to_owned()), Just("events".to_owned()), any::<String>()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((name, inner), 0..5).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_json_is_taken_apart_or_refused_with_422(value in json_value()) {
        let body = value.to_string();
        if parse_object(body.as_bytes(), None).is_ok() {
            mistakes_in(&body);
        } else {
            prop_assert!(!value.is_object() && !value.is_null());
        }
    }
}
