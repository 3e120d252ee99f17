//! Renders JSON Schemas as HTML: the type of a value, its rules, and the fields of an object.

use serde_json::Value;

/// Keywords that constrain a value, with the words before and after their value.
const RULES: [(&str, &str, &str); 8] = [
    ("format", "", ""),
    ("minimum", "from ", ""),
    ("maximum", "to ", ""),
    ("x-maximum", "capped at ", ""),
    ("pattern", "matches ", ""),
    ("default", "default ", ""),
    ("example", "for example ", ""),
    ("examples", "for example ", ""),
];

/// Escapes a text for HTML elements and quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(char),
        }
    }
    escaped
}

pub(super) fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

/// Renders a text, with the parts in backticks as code.
pub(super) fn prose(text: &str) -> String {
    let parts: Vec<_> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let part = |(place, part): (usize, &&str)| if place.is_multiple_of(2) { escape(part) } else { code(part) };
    parts.iter().enumerate().map(part).collect()
}

/// Returns a JSON value for display: strings without their quotes.
fn literal(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// Returns the type of a value, with links to named schemas.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = reference(schema) {
        return format!("<a href=\"#schema-{0}\">{0}</a>", escape(name));
    }
    let joined = |values: &Value, word: &str| items(values).map(kind).collect::<Vec<_>>().join(word);
    for (key, word) in [("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")] {
        if schema[key].is_array() {
            return joined(&schema[key], word);
        }
    }
    if schema["enum"].is_array() {
        return items(&schema["enum"]).map(|value| code(&literal(value))).collect::<Vec<_>>().join(", ");
    }
    let list_or = |name: &str| match name {
        "array" => format!("array of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", kind(&schema["additionalProperties"]))
        }
        name => escape(name),
    };
    match &schema["type"] {
        Value::String(name) => list_or(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(list_or).collect::<Vec<_>>().join(" or "),
        _ => "any value".to_owned(),
    }
}

/// Returns the bounds of a length, such as `1 to 50 characters`.
fn size_rule(schema: &Value, keyword: &str, unit: &str) -> Option<String> {
    let bound = |end: &str| schema[format!("{end}{keyword}")].as_u64();
    match (bound("min"), bound("max")) {
        (Some(min), Some(max)) => Some(format!("{min} to {max} {unit}")),
        (Some(min), None) => Some(format!("at least {min} {unit}")),
        (None, Some(max)) => Some(format!("at most {max} {unit}")),
        (None, None) => None,
    }
}

fn rules(schema: &Value) -> String {
    let rule = |(key, before, after): &(&str, &str, &str)| {
        let value = match &schema[*key] {
            Value::Null => return None,
            Value::Array(values) if *key == "examples" => values.first()?,
            value => value,
        };
        let value = literal(value);
        let value = if *key == "format" || !after.is_empty() { escape(&value) } else { code(&value) };
        Some(format!("{before}{value}{after}"))
    };
    let sizes = [("Length", "characters"), ("Items", "entries")];
    let sizes = sizes.into_iter().filter_map(|(keyword, unit)| size_rule(schema, keyword, unit));
    let rules: Vec<_> = RULES.iter().filter_map(rule).collect();
    let (format, others) = rules.split_at(usize::from(schema["format"].is_string()));
    format.iter().cloned().chain(sizes).chain(others.iter().cloned()).collect::<Vec<_>>().join(", ")
}

pub(super) fn row(name: &str, note: &str, schema: &Value, about: &str) -> String {
    let (name, kind, rules, about) = (code(name), kind(schema), rules(schema), prose(about));
    let quiet =
        |text: &str| if text.is_empty() { String::new() } else { format!("<br><span class=\"quiet\">{text}</span>") };
    let (note, rules) = (quiet(note), quiet(&rules));
    format!("<tr><th scope=\"row\">{name}{note}</th><td>{kind}{rules}</td><td>{about}</td></tr>\n")
}

pub(super) fn table(rows: &str) -> String {
    if rows.is_empty() { String::new() } else { format!("<div class=\"scroll\"><table>\n{rows}</table></div>\n") }
}

/// Returns the table of the fields of an object, including those of unnamed objects in it.
pub(super) fn fields(schema: &Value) -> String {
    let mut rows = String::new();
    add_fields(&mut rows, "", schema);
    table(&rows)
}

fn add_fields(rows: &mut String, prefix: &str, schema: &Value) {
    for (name, field) in entries(&schema["properties"]) {
        let is_required = items(&schema["required"]).any(|required| required == name);
        let path = format!("{prefix}{name}");
        rows.push_str(&row(&path, if is_required { "required" } else { "" }, field, text(field, "description")));
        add_fields(rows, &format!("{path}."), field);
        add_fields(rows, &format!("{path}[]."), &field["items"]);
    }
}

/// Formats a size in the largest unit without a fraction.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        1.. if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        1.. if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_escaped_and_code_is_marked() {
        assert_eq!(escape("a<b> & \"c'"), "a&lt;b&gt; &amp; &quot;c&#39;");
        assert_eq!(prose("`<x>` or `y`."), "<code>&lt;x&gt;</code> or <code>y</code>.");
        assert_eq!(prose("one ` alone"), "one ` alone");
    }

    #[test]
    fn types_are_named_and_lead_to_their_schemas() {
        let label = json!({"$ref": "#/components/schemas/Label"});
        let link = "<a href=\"#schema-Label\">Label</a>";
        for (schema, expected) in [
            (json!({"type": ["string", "null"]}), "string or null".to_owned()),
            (json!({"type": "array", "items": label}), format!("array of {link}")),
            (json!({"anyOf": [label, {"type": "null"}]}), format!("{link} or null")),
            (json!({"enum": ["a", 1]}), "<code>a</code>, <code>1</code>".to_owned()),
            (json!({"type": "object", "additionalProperties": {"type": "string"}}), "object of string".to_owned()),
            (json!({}), "any value".to_owned()),
        ] {
            assert_eq!(kind(&schema), expected);
        }
    }

    #[test]
    fn rules_are_told_in_words() {
        let schema = json!({"type": "integer", "minimum": 1, "default": 30, "examples": [7, 8]});
        let expected = "from <code>1</code>, default <code>30</code>, for example <code>7</code>";
        assert_eq!(rules(&schema), expected);
        assert_eq!(rules(&json!({"maxLength": 50})), "at most 50 characters");
        let schema = json!({"format": "email", "minLength": 1, "maxLength": 255, "default": "x"});
        assert_eq!(rules(&schema), "email, 1 to 255 characters, default <code>x</code>");
        assert_eq!([size(4 << 20), size(16 << 10), size(100)], ["4 MiB", "16 KiB", "100 bytes"]);
    }

    #[test]
    fn fields_of_objects_inside_have_their_paths() {
        let inner = json!({"type": "object", "properties": {"code": {"type": "string"}}});
        let object = json!({
            "properties": {"errors": {"type": "array", "items": inner}, "<x>": {"description": "A `y`."}},
            "required": ["errors"],
        });
        let table = fields(&object);
        for part in ["<code>errors[].code</code>", "<code>&lt;x&gt;</code>", "<td>A <code>y</code>.</td>", ">required<"]
        {
            assert!(table.contains(part), "{part}: {table}");
        }
    }
}
