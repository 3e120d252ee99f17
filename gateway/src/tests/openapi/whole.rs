//! Checks the document of all operations, and compares it with the one in `docs`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::document;
use crate::operations;

type Place = String;

fn whole() -> Value {
    document(&operations())
}

/// Returns the operations of a document, each with its method and path.
fn all(document: &Value) -> Vec<(Place, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let operations = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    operations.collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Follows the reference, if the value is one.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let Some(reference) = value["$ref"].as_str() else { return value };
    let found = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
    found.unwrap_or_else(|| panic!("{reference} does not resolve"))
}

/// Resolves every reference in `value` and returns their number.
fn resolve_all(document: &Value, value: &Value) -> usize {
    match value {
        Value::Object(entries) => {
            let is_reference = entries.get("$ref").is_some_and(Value::is_string);
            if is_reference {
                resolve(document, value);
            }
            usize::from(is_reference) + entries.values().map(|value| resolve_all(document, value)).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(|value| resolve_all(document, value)).sum(),
        _ => 0,
    }
}

/// Adds the required fields that have neither an example nor fields of their own, including those
/// of nested objects.
fn add_unexplained(document: &Value, schema: &Value, place: &str, found: &mut BTreeSet<Place>) {
    for one in list(&schema["anyOf"]).chain(schema.get("items")) {
        add_unexplained(document, one, place, found);
    }
    let object = resolve(document, schema);
    let required: BTreeSet<_> = list(&object["required"]).filter_map(Value::as_str).collect();
    for (name, field) in object["properties"].as_object().into_iter().flatten() {
        let place = format!("{place} {name}");
        let is_object = field.to_string().contains("\"$ref\"");
        if required.contains(name.as_str()) && field.get("examples").is_none() && !is_object {
            found.insert(place.clone());
        }
        add_unexplained(document, field, &place, found);
    }
}

#[test]
fn the_document_in_docs_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    let made = format!("{:#}\n", whole());
    if std::env::var_os("FERRITE_TEST_WRITE").is_some() {
        std::fs::write(path, &made).expect("the document can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let differs = made.lines().zip(written.lines()).find(|(ours, theirs)| ours != theirs);
    assert!(
        made == written,
        "docs/openapi.json is not what the routes say, first here: {differs:?}; FERRITE_TEST_WRITE=1 writes it anew"
    );
}

#[test]
fn every_operation_has_a_name_of_its_own_and_a_group() {
    let document = whole();
    let operations = all(&document);
    let described = crate::operations().iter().filter(|route| route.describe.is_some()).count();
    assert_eq!(operations.len(), described);
    let names: BTreeSet<_> =
        operations.iter().map(|(_, operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.len(), operations.len());
    for (place, operation) in operations {
        assert!(operation["tags"][0].is_string() && operation["summary"].is_string(), "{place}");
    }
}

#[test]
fn every_reference_leads_to_something() {
    let document = whole();
    assert!(resolve_all(&document, &document) > 1000);
}

#[test]
fn every_schema_is_used() {
    let document = whole();
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let is_used = |name: &&String| text.contains(&format!("\"#/components/schemas/{name}\""));
    assert_eq!(schemas.keys().filter(|name| !is_used(name)).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(schemas.len() > 50, "{}", schemas.len());
    // They are flattened into other schemas.
    assert!(!schemas.contains_key("MirrorSchedule") && !schemas.contains_key("TokenLimits"));
}

#[test]
fn only_a_body_may_be_too_large() {
    let document = whole();
    for (place, operation) in all(&document) {
        let has_body = operation.get("requestBody").is_some();
        assert_eq!(operation["responses"].get("413").is_some(), has_body, "{place}");
    }
}

#[test]
fn every_parameter_of_a_path_is_described() {
    let document = whole();
    for (place, operation) in all(&document) {
        let path = place.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters = list(&operation["parameters"]).filter(|one| one["in"] == "path");
        let parameters: Vec<_> = parameters.map(|one| (one["name"].as_str().unwrap(), &one["description"])).collect();
        assert_eq!(parameters.iter().map(|one| one.0).collect::<Vec<_>>(), path.collect::<Vec<_>>(), "{place}");
        for (name, about) in parameters {
            assert!(about.as_str().is_some_and(|about| about.ends_with('.')), "{place}: {name}");
        }
    }
}

#[test]
fn every_parameter_and_header_that_is_shared_is_there() {
    let document = whole();
    for (place, operation) in all(&document) {
        for one in list(&operation["parameters"]) {
            let one = resolve(&document, one);
            assert!(one["name"].is_string() && one["schema"].is_object(), "{place}");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = resolve(&document, response);
            assert!(response["description"].is_string(), "{place}: {status}");
        }
    }
}

#[test]
fn every_required_field_of_a_body_has_an_example() {
    let document = whole();
    let mut unexplained = BTreeSet::new();
    for (place, operation) in all(&document) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        add_unexplained(&document, schema, &place, &mut unexplained);
    }
    assert_eq!(unexplained, BTreeSet::new());
}

#[test]
fn every_201_says_where_what_was_created_is() {
    let document = whole();
    let operations = all(&document);
    let created: Vec<_> = operations.iter().filter(|(_, one)| one["responses"]["201"].is_object()).collect();
    assert!(created.len() > 20, "{}", created.len());
    for (place, operation) in created {
        assert!(operation["responses"]["201"]["headers"]["Location"].is_object(), "{place}");
    }
}
