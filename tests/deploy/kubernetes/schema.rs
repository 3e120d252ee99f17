//! Objects against the published schemas of their kinds: the keywords that these schemas use, and an error for any other.
//!
//! The crate `jsonschema` would add 25 crates to the build of the tests in place of this file.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::object::{kind, text, title};

const KUBERNETES: &str = include_str!("schemas/kubernetes.json");
const CUSTOM_RESOURCES: &str = include_str!("schemas/custom-resources.json");

/// A file of schemas: `kinds` has the names of definitions by group, version and kind, `$defs` the definitions.
fn catalogs() -> &'static [Value; 2] {
    static CATALOGS: OnceLock<[Value; 2]> = OnceLock::new();
    let parse = |text| serde_json::from_str(text).expect("the file is JSON");
    CATALOGS.get_or_init(|| [KUBERNETES, CUSTOM_RESOURCES].map(parse))
}

/// Returns what is wrong with an object.
pub(crate) fn errors(object: &Value) -> Vec<String> {
    let key = format!("{}/{}", text(object, "/apiVersion"), kind(object));
    let known = catalogs().iter().find_map(|catalog| Some((catalog, catalog["kinds"].get(&key)?.as_str()?)));
    let Some((catalog, definition)) = known else { return vec![format!("{}: no schema of {key}", title(object))] };
    let mut check = Check { definitions: &catalog["$defs"], errors: Vec::new() };
    check.value(object, &check.definitions[definition], "");
    check.errors.into_iter().map(|error| format!("{}: {error}", title(object))).collect()
}

struct Check<'a> {
    definitions: &'a Value,
    errors: Vec<String>,
}

impl<'a> Check<'a> {
    fn value(&mut self, value: &Value, schema: &'a Value, path: &str) {
        let keywords = schema.as_object().expect("a schema is an object");
        for (keyword, rule) in keywords {
            match keyword.as_str() {
                "$ref" => self.value(value, self.definition(rule), path),
                "type" if !has_type(value, rule) => self.errors.push(format!("{path}: {value} is not of type {rule}")),
                "enum" if !list(rule).contains(value) => self.errors.push(format!("{path}: {value} is none of {rule}")),
                "required" => self.required(value, rule, path),
                "properties" => self.properties(value, keywords, path),
                "items" => {
                    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.value(item, rule, &format!("{path}/{place}"));
                    }
                }
                "oneOf" => self.one_of(value, rule, path),
                // Fitted above, or of no consequence here.
                "type" | "enum" | "format" => {}
                "additionalProperties" if keywords.contains_key("properties") => {}
                "additionalProperties" => self.properties(value, keywords, path),
                other => panic!("the keyword {other} is not read"),
            }
        }
    }

    fn definition(&self, reference: &Value) -> &'a Value {
        let name = reference.as_str().and_then(|text| text.strip_prefix("#/$defs/")).expect("a local reference");
        self.definitions.get(name).expect("the definition is there")
    }

    fn required(&mut self, value: &Value, names: &Value, path: &str) {
        let missing = list(names).iter().filter(|name| value.get(name.as_str().unwrap_or_default()).is_none());
        self.errors.extend(missing.map(|name| format!("{path}: {name} is missing")));
    }

    fn properties(&mut self, value: &Value, keywords: &'a Map<String, Value>, path: &str) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = format!("{path}/{name}");
            let known = keywords.get("properties").and_then(|properties| properties.get(name));
            match known.or_else(|| keywords.get("additionalProperties")) {
                Some(Value::Bool(false)) => self.errors.push(format!("{path} is not known")),
                Some(schema @ Value::Object(_)) => self.value(value, schema, &path),
                _ => {}
            }
        }
    }

    fn one_of(&mut self, value: &Value, schemas: &'a Value, path: &str) {
        let fitting = list(schemas).iter().filter(|schema| {
            let mut check = Check { definitions: self.definitions, errors: Vec::new() };
            check.value(value, schema, path);
            check.errors.is_empty()
        });
        if fitting.count() != 1 {
            self.errors.push(format!("{path}: {value} does not fit one of {schemas}"));
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns whether a value has the type, or one of the types, that a schema names.
fn has_type(value: &Value, types: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        other => panic!("the type {other:?} is not read"),
    };
    if types.is_array() { list(types).iter().any(is) } else { is(types) }
}
