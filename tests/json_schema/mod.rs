//! Validates values against JSON Schema 2020-12. Supports the keywords that our documents use and
//! panics on others, so no rule is silently skipped.
//!
//! The crate `jsonschema` would add 25 crates to the build of the tests.

use serde_json::{Map, Value};

/// Longest value shown in a message, in characters.
const SHOWN_CHARS: usize = 200;

/// Errors of a value, each with a JSON pointer. References resolve in `document`. If `is_closed`,
/// objects may have only the properties in their schema.
pub(crate) fn errors(document: &Value, schema: &Value, value: &Value, is_closed: bool) -> Vec<String> {
    let mut check = Check { document, is_closed, errors: Vec::new() };
    check.value(value, schema, "");
    check.errors
}

struct Check<'a> {
    document: &'a Value,
    is_closed: bool,
    errors: Vec<String>,
}

impl<'a> Check<'a> {
    fn value(&mut self, value: &Value, schema: &'a Value, path: &str) {
        let keywords = schema.as_object().expect("a schema is an object");
        for (keyword, rule) in keywords {
            match keyword.as_str() {
                "$ref" => self.value(value, self.definition(rule), path),
                "type" if !has_type(value, rule) => self.add(path, value, &format!("is not of type {rule}")),
                "enum" if !list(rule).contains(value) => self.add(path, value, &format!("is not one of {rule}")),
                "const" if rule != value => self.add(path, value, &format!("is not {rule}")),
                "format" if !has_format(value, rule) => self.add(path, value, &format!("is not a valid {rule}")),
                "minLength" | "minItems" | "minimum" if is_number_below(value, keyword, rule) => {
                    self.add(path, value, &format!("is below the {keyword} {rule}"));
                }
                "maxLength" | "maxItems" | "maximum" if is_number_above(value, keyword, rule) => {
                    self.add(path, value, &format!("is above the {keyword} {rule}"));
                }
                "required" => self.required(value, rule, path),
                "properties" => self.properties(value, keywords, path),
                "items" => {
                    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.value(item, rule, &format!("{path}/{place}"));
                    }
                }
                "oneOf" => self.one_of(value, rule, path),
                "anyOf" => self.any_of(value, rule, path),
                // Checked elsewhere, or without effect on validity.
                "type" | "enum" | "const" | "format" | "minLength" | "minItems" | "minimum" | "maxLength"
                | "maxItems" | "maximum" | "description" | "examples" | "contentEncoding" | "contentMediaType" => {}
                "additionalProperties" if keywords.contains_key("properties") => {}
                "additionalProperties" => self.properties(value, keywords, path),
                other if other.starts_with("x-") => {}
                other => panic!("unsupported keyword {other}"),
            }
        }
    }

    fn add(&mut self, path: &str, value: &Value, fault: &str) {
        self.errors.push(format!("{path}: {} {fault}", shown(value)));
    }

    fn definition(&self, reference: &Value) -> &'a Value {
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
        self.document.pointer(pointer).expect("the definition exists")
    }

    fn required(&mut self, value: &Value, names: &Value, path: &str) {
        let Some(object) = value.as_object() else { return };
        let missing = list(names).iter().filter(|name| !object.contains_key(name.as_str().unwrap_or_default()));
        self.errors.extend(missing.map(|name| format!("{path}: {name} is missing")));
    }

    fn properties(&mut self, value: &Value, keywords: &'a Map<String, Value>, path: &str) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = format!("{path}/{name}");
            let known = keywords.get("properties").and_then(|properties| properties.get(name));
            match known.or_else(|| keywords.get("additionalProperties")) {
                Some(Value::Bool(false)) => self.errors.push(format!("{path} is not known")),
                Some(schema @ Value::Object(_)) => self.value(value, schema, &path),
                None if self.is_closed => self.errors.push(format!("{path} is not known")),
                _ => {}
            }
        }
    }

    /// Errors of a value for each of several schemas.
    fn by_each(&self, value: &Value, schemas: &'a Value, path: &str) -> Vec<Vec<String>> {
        let errors = list(schemas).iter().map(|schema| {
            let mut check = Check { document: self.document, is_closed: self.is_closed, errors: Vec::new() };
            check.value(value, schema, path);
            check.errors
        });
        errors.collect()
    }

    fn one_of(&mut self, value: &Value, schemas: &'a Value, path: &str) {
        if self.by_each(value, schemas, path).iter().filter(|errors| errors.is_empty()).count() != 1 {
            self.add(path, value, &format!("does not match exactly one of {schemas}"));
        }
    }

    /// Adds the errors of the closest schema: most likely the intended one.
    fn any_of(&mut self, value: &Value, schemas: &'a Value, path: &str) {
        let of_whole = format!("{path}: ");
        let is_of_whole = |errors: &Vec<String>| errors.iter().any(|error| error.starts_with(&of_whole));
        let all = self.by_each(value, schemas, path);
        let best = all.into_iter().min_by_key(|errors| (is_of_whole(errors), errors.len()));
        self.errors.extend(best.expect("there is a schema"));
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The number that a limit applies to; `None` for other types, which a limit allows.
fn number(value: &Value, keyword: &str) -> Option<f64> {
    let count = |count: usize| u32::try_from(count).ok().map(f64::from);
    match value {
        Value::String(text) if keyword.ends_with("Length") => count(text.chars().count()),
        Value::Array(items) if keyword.ends_with("Items") => count(items.len()),
        Value::Number(number) if keyword.ends_with("imum") => number.as_f64(),
        _ => None,
    }
}

fn is_number_below(value: &Value, keyword: &str, limit: &Value) -> bool {
    number(value, keyword).zip(limit.as_f64()).is_some_and(|(number, limit)| number < limit)
}

fn is_number_above(value: &Value, keyword: &str, limit: &Value) -> bool {
    number(value, keyword).zip(limit.as_f64()).is_some_and(|(number, limit)| number > limit)
}

/// Whether a value has the schema's type or one of its types.
fn has_type(value: &Value, types: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        other => panic!("unsupported type {other:?}"),
    };
    if types.is_array() { list(types).iter().any(is) } else { is(types) }
}

/// Whether a value has a format. A format allows values of other types.
fn has_format(value: &Value, format: &Value) -> bool {
    match (format.as_str(), value) {
        (Some("int32"), Value::Number(number)) => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        (Some("int64"), Value::Number(number)) => number.is_i64(),
        (Some("date-time"), Value::String(text)) => chrono::DateTime::parse_from_rfc3339(text).is_ok(),
        (Some("uri"), Value::String(text)) => text.starts_with("http://") || text.starts_with("https://"),
        (Some("int32" | "int64" | "date-time" | "uri" | "byte"), _) => true,
        (other, _) => panic!("unsupported format {other:?}"),
    }
}
