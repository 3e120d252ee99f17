mod values;

use super::*;
use crate::http::json_value::parse_object;
use crate::http::words::words;

words! {
    enum State: i32 { "open" = 1, "closed" = 2 }
}

fields! {
    /// A person
    /// with a time.
    struct Person {
        /// Its name.
        name: OrDefault<Text<50>> = "bob",
        date: NonEmpty<OffsetTime> = "2026-01-02T03:04:05+02:00",
    }
}

fields! {
    /// Fields of each kind, in all the ways that handlers use them.
    #[max_bytes = 1000]
    struct Sample | labels {
        name: Required<Text<50>> = "bug",
        content: Present<Text> = "a text",
        title: NonEmpty<Text<50>> = "a title",
        color: Optional<Text<7>> = "#e11d21",
        body: OrDefault<Text> = "a text",
        is_private as "private": Optional<Flag> = true,
        on: OrDefault<Flag> = true,
        uid: Required<Integer> = 7,
        weight: Optional<Integer> = 7,
        milestone: OrDefault<Integer> = 7,
        bytes: Nullable<Integer> = 7,
        from: NonEmpty<Time> = "2026-01-02T03:04:05Z",
        date: NonEmpty<OffsetTime> = "2026-01-02T03:04:05Z",
        due_on: Clearable<Time> = "2026-01-02T03:04:05Z",
        interval: NonEmpty<Seconds<86_400>> = "8h0m0s",
        emails: Required<Texts<10>> = ["a@b"],
        topics: Present<Texts> = ["rust"],
        events: Optional<Texts>,
        scopes: OrDefault<Texts>,
        labels: OrDefault<Integers<100>> = [1, 2],
        config: Present<TextMap> = json!({"url": "http://h"}),
        author: Optional<Object<Person>>,
        people: Required<Objects<Person>>,
    }
}

/// The names of the fields, each with a valid value.
fn right() -> Vec<(&'static str, &'static str)> {
    vec![
        ("name", "\"n\""),
        ("content", "\"c\""),
        ("title", "\"t\""),
        ("color", "\"#fff\""),
        ("body", "\"b\""),
        ("private", "true"),
        ("on", "true"),
        ("uid", "7"),
        ("weight", "-1"),
        ("milestone", "3"),
        ("bytes", "null"),
        ("from", "\"2026-01-02T03:04:05Z\""),
        ("date", "\"2026-01-02T03:04:05+02:00\""),
        ("due_on", "\"\""),
        ("interval", "\"8h0m0s\""),
        ("emails", "[\"a\",\"b\"]"),
        ("topics", "[]"),
        ("events", "[\"push\"]"),
        ("scopes", "[\"repo\"]"),
        ("labels", "[1,2]"),
        ("config", "{\"url\":\"u\",\"other\":null,\"a\\u0000b\":7}"),
        ("author", "{\"name\":\"x\",\"date\":\"2026-01-02T03:04:05-03:30\"}"),
        ("people", "[{},{\"name\":\"y\"}]"),
    ]
}

/// Reads a body as [`Sample`]. Returns the names and codes of its errors.
fn sample(body: &str) -> Result<Sample, Vec<(String, String)>> {
    let (mut object, mut mistakes) = (parse_object(body.as_bytes(), None).unwrap(), Mistakes::default());
    let read = Sample::read(&mut object, &mut mistakes);
    let told = mistakes.errors.iter().map(|error| (error.field.clone(), error.code.clone().into_owned())).collect();
    mistakes.finish(read).map_err(|_| told)
}

fn body(fields: &[(&str, &str)]) -> String {
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{\"unknown\":1,{}}}", fields.join(","))
}

#[test]
fn a_struct_has_the_values_of_its_fields() {
    let read = sample(&body(&right())).ok().unwrap();
    let Sample { name, content, title, color, body, is_private, on, uid, weight, milestone, bytes, .. } = read;
    assert_eq!((name.as_str(), content.as_str(), body.as_str()), ("n", "c", "b"));
    assert_eq!((title.as_deref(), color.as_deref()), (Some("t"), Some("#fff")));
    assert_eq!((is_private, on, uid), (Some(true), true, 7));
    assert_eq!((weight, milestone, bytes), (Some(-1), 3, Some(None)));
    let Sample { from, date, due_on, interval, emails, topics, events, scopes, labels, config, author, people, .. } =
        read;
    let time = |seconds| prost_types::Timestamp { seconds, nanos: 0 };
    assert_eq!((from, due_on, interval), (Some(time(1_767_323_045)), Some(None), Some(28_800)));
    assert_eq!(date, Some(OffsetTime { time: time(1_767_315_845), offset_minutes: 120 }));
    assert_eq!((emails, topics), (vec!["a".to_owned(), "b".to_owned()], Vec::new()));
    assert_eq!((events, scopes, labels), (Some(vec!["push".to_owned()]), vec!["repo".to_owned()], vec![1, 2]));
    assert_eq!(format!("{config:?} {author:?}"), "{\"url\": \"u\"} Some(Person(\"x\", Some(-210)))");
    assert_eq!(format!("{people:?}"), "[Person(\"\", None), Person(\"y\", None)]");
}

#[test]
fn every_mistake_is_told_in_the_order_of_the_fields() {
    let of = |names: &[&str], code: &str| -> Vec<_> {
        names.iter().map(|name| ((*name).to_owned(), code.to_owned())).collect()
    };
    let names: Vec<_> = right().into_iter().map(|(name, _)| name).collect();
    let required = ["name", "content", "uid", "emails", "topics", "config", "people"];
    assert_eq!(sample("{}").err(), Some(of(&required, "required")));
    let wrong: Vec<_> = names.iter().map(|name| (*name, "1.5")).collect();
    assert_eq!(sample(&body(&wrong)).err(), Some(of(&names, "type")));
    for at in 0..right().len() {
        let mut fields = right();
        fields[at].1 = "1.5";
        assert_eq!(sample(&body(&fields)).err(), Some(of(&names[at..=at], "type")));
        fields.remove(at);
        let expected = required.contains(&names[at]).then(|| of(&names[at..=at], "required"));
        assert_eq!(sample(&body(&fields)).err(), expected);
    }
}

fn read_one<F: Field>(body: &str) -> Result<F::Value, Vec<(String, String, String)>> {
    let (mut object, mut mistakes) = (parse_object(body.as_bytes(), None).unwrap(), Mistakes::default());
    let read = mistakes.read::<F>(&mut object, "field");
    let told = mistakes.errors.into_iter().map(|error| (error.field, error.code.into_owned(), error.message)).collect();
    read.ok_or(told)
}

fn mistake(code: &str, message: &str) -> Vec<(String, String, String)> {
    vec![("field".to_owned(), code.to_owned(), message.to_owned())]
}

#[test]
fn words_are_known_or_mistakes() {
    let state = read_one::<NonEmpty<Word<State>>>;
    assert_eq!(
        (state("{\"field\":\"closed\"}"), state("{\"field\":\"\"}"), state("{}")),
        (Ok(Some(2)), Ok(None), Ok(None))
    );
    let unknown = mistake("unknown", "must be `open` or `closed`");
    assert_eq!(state("{\"field\":\"Open\"}"), Err(unknown.clone()));
    assert_eq!(state("{\"field\":1}"), Err(mistake("type", "must be a string")));
    // An empty text is an unknown word, unless it counts as absent.
    assert_eq!(read_one::<Optional<Word<State>>>("{\"field\":\"\"}"), Err(unknown));
    assert_eq!(read_one::<Required<Word<State>>>("{\"field\":\"\"}"), Err(mistake("required", "is required")));
}

#[test]
fn base64_has_padding_and_may_have_line_breaks_or_blanks_around_it() {
    let content = |text: &str| read_one::<Present<Base64>>(&format!("{{\"field\":\"{text}\"}}"));
    let picture = |text: &str| read_one::<Required<Base64<true>>>(&format!("{{\"field\":\"{text}\"}}"));
    let hello = || Ok(b"hello\n".to_vec());
    assert_eq!((content("aGVs\\r\\nbG8K\\n"), content("")), (hello(), Ok(Vec::new())));
    assert_eq!((picture(" aGVsbG8K\\n"), picture("  ")), (hello(), Ok(Vec::new())));
    let wrong = || Err(mistake("invalid", "must be base64 in the standard alphabet, with padding"));
    for text in ["aGVsbG8", "a b=", "!!!!", "-_-_"] {
        assert_eq!((content(text), picture(text)), (wrong(), wrong()), "{text}");
    }
    assert_eq!((content(" aGVsbG8K"), picture("aGVs\\nbG8K")), (wrong(), wrong()));
    assert_eq!(picture(""), Err(mistake("required", "is required")));
}

#[test]
fn a_long_text_has_at_most_one_mebibyte() {
    let read = |bytes: usize| read_one::<Optional<LongText>>(&format!("{{\"field\":\"{}\"}}", "a".repeat(bytes)));
    assert_eq!(read(1 << 20).map(|text| text.map(|text| text.len())), Ok(Some(1 << 20)));
    assert_eq!(read((1 << 20) + 1), Err(mistake("too_long", "must be at most 1 MiB")));
    let title = read_one::<NonBlank<LongText>>;
    assert_eq!((title("{\"field\":\" \\n\"}"), title("{\"field\":\" a\"}")), (Ok(None), Ok(Some(" a".into()))));
    assert_eq!(title("{\"field\":[]}"), Err(mistake("type", "must be a string")));
    assert_eq!(read_one::<Required<LongText>>("{\"field\":\"\"}"), Err(mistake("required", "is required")));
}

fields! {
    struct CheckedByService {
        name: Checked<Text<50>> = "bug",
        color: Checked<Text<7>> = "#e11d21",
        private: OrDefault<Flag>,
    }
}

#[test]
fn the_service_tells_what_is_absent_unless_something_else_is_wrong() {
    let read = |body: &str| {
        let (mut object, mut mistakes) = (parse_object(body.as_bytes(), None).unwrap(), Mistakes::default());
        let read = CheckedByService::read(&mut object, &mut mistakes);
        let names: Vec<_> = mistakes.errors.iter().map(|error| error.field.clone()).collect();
        let read = mistakes.finish(read).map(|CheckedByService { name, color, private }| (name, color, private));
        read.map_err(|_| names)
    };
    let all = |name: &str, color: &str| Ok((name.to_owned(), color.to_owned(), false));
    assert_eq!((read("{}"), read(r#"{"name":"a","color":"","private":null}"#)), (all("", ""), all("a", "")));
    let names = |names: &[&str]| Err(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(read(r#"{"private":7}"#), names(&["name", "color", "private"]));
    assert_eq!(read(r#"{"name":7}"#), names(&["name", "color"]));
    let schema = <Checked<Text<50>> as Field>::schema(&mut Schemas::default());
    assert_eq!(schema, json!({"type": "string", "minLength": 1, "maxLength": 50}));
}

fields! {
    struct Rendered {
        text | "Text": OrDefault<Text> = "*a*",
        mode: OrDefault<Text>,
    }
}

#[test]
fn two_names_have_one_value_and_both_have_mistakes() {
    let read = |body: &str| {
        let (mut object, mut mistakes) = (parse_object(body.as_bytes(), None).unwrap(), Mistakes::default());
        let read = Rendered::read(&mut object, &mut mistakes);
        let names: Vec<_> = mistakes.errors.iter().map(|error| error.field.clone()).collect();
        mistakes.finish(read).map(|Rendered { text, mode }| text + &mode).map_err(|_| names)
    };
    for (body, expected) in [
        ("{}", ""),
        ("{\"text\":\"a\",\"Text\":\"a\",\"mode\":\"c\"}", "ac"),
        ("{\"text\":null,\"Text\":\"b\"}", "b"),
        ("{\"text\":\"b\",\"Text\":null}", "b"),
        ("{\"text\":\"\",\"Text\":\"\"}", ""),
    ] {
        assert_eq!(read(body), Ok(expected.to_owned()), "{body}");
    }
    assert_eq!(read("{\"text\":\"a\",\"Text\":1,\"mode\":2}"), Err(vec!["Text".to_owned(), "mode".to_owned()]));
    assert_eq!(read("{\"text\":1,\"Text\":\"a\"}"), Err(vec!["text".to_owned()]));
    for body in ["{\"text\":\"a\",\"Text\":\"b\"}", "{\"text\":\"\",\"Text\":\"b\"}"] {
        assert_eq!(read(body), Err(vec!["Text".to_owned()]), "{body}");
    }
}

fn request(body: &str) -> RequestBody<Rendered> {
    let request = Request::new(axum::body::Body::from(body.to_owned()));
    RequestBody { body: JsonBody::of(request), fields: PhantomData }
}

#[tokio::test]
async fn a_handler_notes_mistakes_before_and_after_the_fields() {
    let limits = BodyLimits::new(1, 1, std::time::Duration::from_secs(5));
    let read = |object: &mut JsonObject, mistakes: &mut Mistakes| {
        mistakes.note("first", "invalid", "must be first");
        let read = Rendered::read(object, mistakes);
        mistakes.note("last", "invalid", "must be last");
        read
    };
    let error = request("{\"mode\":1}").read_with(&limits, read).await.err().unwrap();
    let expected = ApiError::invalid(vec![
        FieldError::new("first", "invalid", "must be first"),
        FieldError::wrong_type("mode", "a string"),
        FieldError::new("last", "invalid", "must be last"),
    ]);
    assert_eq!(format!("{error:?}"), format!("{expected:?}"));
    // A noted error counts even if all fields are valid.
    assert!(request("{}").read_with(&limits, read).await.is_err());
    assert!(request("{}").read(&limits).await.is_ok() && !request("{}").may_be_long());
    assert_eq!((request("").media_type(), request("").into_body().media_type()), (String::new(), String::new()));
}

fields! {
    /// A person at a place.
    struct Resident {
        ..person: Named,
        name_of_place as "place": Required<Text> = "Rome",
    }
}

fields! {
    /// A name.
    struct Named {
        name: Required<Text<50>> = "bob",
        title: Optional<Text> = "Dr.",
    }
}

#[test]
fn the_fields_of_a_part_are_read_before_the_others() {
    let read = |body: &str| {
        let (mut object, mut mistakes) = (parse_object(body.as_bytes(), None).unwrap(), Mistakes::default());
        let read = Resident::read(&mut object, &mut mistakes);
        (read, mistakes.errors.into_iter().map(|error| error.field).collect::<Vec<_>>())
    };
    let (resident, _) = read("{\"name\":\"a\",\"place\":\"b\"}");
    let Resident { person: Named { name, title }, name_of_place } = resident.unwrap();
    assert_eq!((name.as_str(), title, name_of_place.as_str()), ("a", None, "b"));
    for (body, expected) in [
        ("{}", &["name", "place"][..]),
        ("{\"place\":7,\"title\":7,\"name\":7}", &["name", "title", "place"][..]),
        ("{\"name\":\"a\"}", &["place"][..]),
        ("{\"place\":\"a\"}", &["name"][..]),
    ] {
        let (resident, mistakes) = read(body);
        assert!(resident.is_none() && mistakes == expected, "{body}: {mistakes:?}");
    }
    let mut schemas = Schemas::default();
    Resident::schema(&mut schemas);
    let expected = json!({
        "type": "object",
        "description": "A person at a place.",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 50, "examples": ["bob"]},
            "title": {"type": ["string", "null"], "examples": ["Dr."]},
            "place": {"type": "string", "minLength": 1, "examples": ["Rome"]},
        },
        "required": ["name", "place"],
    });
    assert_eq!(schemas.into_map()["Resident"], expected);
}

#[test]
fn mistakes_may_be_told_last() {
    let mut mistakes = Mistakes::default();
    for (name, code) in [("a", "invalid"), ("b", "type"), ("a", "type"), ("c", "invalid")] {
        mistakes.note(name, code, "");
    }
    mistakes.move_last("a", "invalid");
    let order: Vec<_> = mistakes.errors.iter().map(|error| (error.field.as_str(), &*error.code)).collect();
    assert_eq!(order, [("b", "type"), ("a", "type"), ("c", "invalid"), ("a", "invalid")]);
}

#[test]
fn a_body_is_described_as_it_is_read() {
    let mut about = Description::default();
    RequestBody::<Sample>::describe(&mut about);
    assert_eq!((about.bodies[0].media_type, about.bodies[0].max_bytes), ("application/json", Some(1000)));
    let mut schemas = Schemas::default();
    let labels = json!({
        "type": ["array", "null"], "items": {"type": "integer", "format": "int64"}, "maxItems": 100,
        "examples": [[1, 2]],
    });
    let expected = json!({"anyOf": [{"$ref": "#/components/schemas/Sample"}, labels]});
    assert_eq!((about.bodies[0].schema)(&mut schemas), expected);
    let schemas = schemas.into_map();
    let time = |kind: Value| json!({"type": kind, "format": "date-time"});
    assert_eq!(
        schemas["Person"],
        json!({
            "type": "object",
            "description": "A person with a time.",
            "properties": {
                "name": {
                    "type": ["string", "null"], "maxLength": 50, "examples": ["bob"], "description": "Its name.",
                },
                "date": with_example(time(json!(["string", "null"])), "2026-01-02T03:04:05+02:00".into()),
            },
        })
    );
    let sample = &schemas["Sample"];
    let names = "name content uid emails topics config people";
    assert_eq!(sample["required"], json!(names.split(' ').collect::<Vec<_>>()));
    let person = json!({"$ref": "#/components/schemas/Person"});
    for (name, expected) in [
        ("name", json!({"type": "string", "minLength": 1, "maxLength": 50, "examples": ["bug"]})),
        ("content", json!({"type": "string", "examples": ["a text"]})),
        ("title", json!({"type": ["string", "null"], "maxLength": 50, "examples": ["a title"]})),
        ("private", json!({"type": ["boolean", "null"], "examples": [true]})),
        ("bytes", json!({"type": ["integer", "null"], "format": "int64", "examples": [7]})),
        (
            "interval",
            json!({
                "anyOf": [
                    {"anyOf": [{"type": "string"}, {"type": "integer", "format": "int64", "maximum": 86_400}]},
                    {"type": "null"},
                ],
                "examples": ["8h0m0s"],
            }),
        ),
        (
            "emails",
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 10, "examples": [["a@b"]]}),
        ),
        ("events", json!({"type": ["array", "null"], "items": {"type": "string"}})),
        (
            "config",
            json!({
                "type": "object", "additionalProperties": {"type": "string"}, "examples": [{"url": "http://h"}],
            }),
        ),
        ("author", json!({"anyOf": [person, {"type": "null"}]})),
        ("people", json!({"type": "array", "items": person, "minItems": 1})),
        (
            "due_on",
            json!({
                "anyOf": [time("string".into()), {"const": ""}, {"type": "null"}], "examples": ["2026-01-02T03:04:05Z"],
            }),
        ),
    ] {
        assert_eq!(sample["properties"][name], expected, "{name}");
    }
    let schemas = &mut Schemas::default();
    assert_eq!(<Word<State> as Kind>::schema(schemas), json!({"type": "string", "enum": ["open", "closed"]}));
    assert_eq!(<Base64 as Kind>::schema(schemas)["contentEncoding"], "base64");
    assert_eq!(<LongText as Kind>::schema(schemas)["x-max-bytes"], 1 << 20);
    let password = json!({"type": "string", "minLength": 8, "maxLength": 255});
    assert_eq!(<Required<Text<255, 8>> as Field>::schema(schemas), password);
    assert_eq!(<Required<Email> as Field>::schema(schemas)["minLength"], 1);
    assert_eq!(<AccountName as Kind>::schema(schemas)["maxLength"], 35);
}
