//! Structs of fields, compared with what the methods of a reader read and note.

use super::*;
use crate::http::fields::FieldReader;
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
    /// One field of each kind, as many ways as handlers use it.
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
        interval: NonEmpty<Seconds> = "8h0m0s",
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

type Texts3 = (Option<Vec<String>>, Vec<String>, Vec<i64>);

/// Reads a body by [`Sample`].
fn read_by_struct(mut object: JsonObject) -> Result<String, ApiError> {
    let mut mistakes = Mistakes::default();
    let read = Sample::read(&mut object, &mut mistakes);
    let sample = mistakes.finish(read)?;
    let Sample { name, content, title, color, body, is_private, on, uid, weight, milestone, bytes, .. } = sample;
    let Sample { from, date, due_on, interval, emails, topics, events, scopes, labels, config, author, people, .. } =
        sample;
    let person = |Person { name, date }: Person| (name, date);
    let texts: Texts3 = (events, scopes, labels);
    let people: Vec<_> = people.into_iter().map(person).collect();
    let values = (name, content, title, color, body, is_private, on, uid);
    let times = (from, date, due_on == Some(None), due_on.flatten(), interval);
    Ok(format!(
        "{values:?} {:?} {times:?} {:?} {texts:?} {:?}",
        (weight, milestone, bytes),
        (emails, topics),
        (config, author.map(person), people)
    ))
}

/// Reads a body by the methods of a [`FieldReader`].
fn read_by_reader(object: JsonObject) -> Result<String, ApiError> {
    let mut reader = FieldReader::new(object, BodyPermit::default());
    let values = (
        reader.required_non_empty("name"),
        reader.required("content"),
        reader.optional_non_empty("title"),
        reader.optional_text("color"),
        reader.text_or_empty("body"),
        reader.optional_flag("private"),
        reader.flag("on"),
        reader.required_number("uid"),
    );
    let numbers = (reader.optional_number("weight"), reader.number("milestone"), reader.nullable_number("bytes"));
    let times = (
        reader.optional_time("from"),
        reader.optional_offset_time("date"),
        reader.is_empty_text("due_on"),
        reader.optional_time("due_on"),
        reader.optional_duration("interval"),
    );
    let required = (reader.required_texts("emails"), reader.required_list("topics"));
    let texts: Texts3 = (reader.optional_texts("events"), reader.texts("scopes"), reader.numbers("labels"));
    let person = |reader: &mut FieldReader| (reader.text_or_empty("name"), reader.optional_offset_time("date"));
    let objects = (
        reader.required_map("config"),
        reader.optional_object("author", person),
        reader.required_objects("people", person),
    );
    reader.finish()?;
    Ok(format!("{values:?} {numbers:?} {times:?} {required:?} {texts:?} {objects:?}"))
}

/// The names of the fields, each with a value that is right.
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

const VALUES: [&str; 25] = [
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
    "{}",
    "[]",
    "[1,2]",
    "[1,\"2\",null]",
    "[\"a\",1,\"b\\u0000\"]",
    "{\"name\":7,\"date\":\"x\",\"url\":\"a\\u0000\"}",
    "[{\"name\":7},{},3,{\"date\":\"x\"}]",
    "{\"url\":\"u\"}",
];

fn assert_same(body: &str) {
    let object = || parse_object(body.as_bytes(), None).unwrap();
    let [by_struct, by_reader] = [read_by_struct(object()), read_by_reader(object())];
    assert_eq!(format!("{by_struct:?}"), format!("{by_reader:?}"), "{body}");
}

fn body(fields: &[(&str, &str)]) -> String {
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{\"unknown\":1,{}}}", fields.join(","))
}

#[test]
fn a_struct_reads_what_a_reader_reads_and_notes_the_same_mistakes() {
    assert!(read_by_struct(parse_object(body(&right()).as_bytes(), None).unwrap()).is_ok());
    assert_same(&body(&right()));
    assert_same("{}");
    for at in 0..right().len() {
        let mut fields = right();
        fields.remove(at);
        assert_same(&body(&fields));
        for value in VALUES {
            let mut fields = right();
            fields[at].1 = value;
            assert_same(&body(&fields));
        }
    }
    for value in VALUES {
        let fields: Vec<_> = right().into_iter().map(|(name, _)| (name, value)).collect();
        assert_same(&body(&fields));
    }
}

/// Reads the field `field` of an object.
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
    // An empty text is a word that does not exist, unless it counts as absent.
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
    assert_eq!(read((1 << 20) + 1), Err(mistake("too_long", "must have at most 1 MiB")));
    let title = read_one::<NonBlank<LongText>>;
    assert_eq!((title("{\"field\":\" \\n\"}"), title("{\"field\":\" a\"}")), (Ok(None), Ok(Some(" a".into()))));
    assert_eq!(title("{\"field\":[]}"), Err(mistake("type", "must be a string")));
    assert_eq!(read_one::<Required<LongText>>("{\"field\":\"\"}"), Err(mistake("required", "is required")));
}

fields! {
    struct Rendered {
        text | "Text": OrDefault<Text> = "*a*",
        mode: OrDefault<Text>,
    }
}

#[test]
fn the_first_of_two_names_counts_and_both_have_mistakes() {
    let read = |body: &str| {
        let (mut object, mut mistakes) = (parse_object(body.as_bytes(), None).unwrap(), Mistakes::default());
        let read = Rendered::read(&mut object, &mut mistakes);
        let names: Vec<_> = mistakes.errors.iter().map(|error| error.field.clone()).collect();
        mistakes.finish(read).map(|Rendered { text, mode }| text + &mode).map_err(|_| names)
    };
    for (body, expected) in [
        ("{}", ""),
        ("{\"text\":\"a\",\"Text\":\"b\",\"mode\":\"c\"}", "ac"),
        ("{\"text\":null,\"Text\":\"b\"}", "b"),
        ("{\"text\":\"\",\"Text\":\"b\"}", ""),
    ] {
        assert_eq!(read(body), Ok(expected.to_owned()), "{body}");
    }
    assert_eq!(read("{\"text\":\"a\",\"Text\":1,\"mode\":2}"), Err(vec!["Text".to_owned(), "mode".to_owned()]));
    assert_eq!(read("{\"text\":1,\"Text\":\"a\"}"), Err(vec!["text".to_owned()]));
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
    // A mistake counts, also where all fields are right.
    assert!(request("{}").read_with(&limits, read).await.is_err());
    assert!(request("{}").read(&limits).await.is_ok() && !request("{}").may_be_long());
    assert_eq!((request("").media_type(), request("").into_body().media_type()), (String::new(), String::new()));
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
}
