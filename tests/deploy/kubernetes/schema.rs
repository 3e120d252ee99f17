//! Validates objects against the published schemas.

use std::sync::OnceLock;

use serde_json::Value;

use super::object::{kind, text, title};
use crate::json_schema;

const KUBERNETES: &str = include_str!("schemas/kubernetes.json");
const CUSTOM_RESOURCES: &str = include_str!("schemas/custom-resources.json");

/// `kinds` maps group, version and kind to a definition in `$defs`.
fn catalogs() -> &'static [Value; 2] {
    static CATALOGS: OnceLock<[Value; 2]> = OnceLock::new();
    let parse = |text| serde_json::from_str(text).expect("the file is JSON");
    CATALOGS.get_or_init(|| [KUBERNETES, CUSTOM_RESOURCES].map(parse))
}

pub(crate) fn errors(object: &Value) -> Vec<String> {
    let key = format!("{}/{}", text(object, "/apiVersion"), kind(object));
    let known = catalogs().iter().find_map(|catalog| Some((catalog, catalog["kinds"].get(&key)?.as_str()?)));
    let Some((catalog, definition)) = known else { return vec![format!("{}: no schema for {key}", title(object))] };
    let errors = json_schema::errors(catalog, &catalog["$defs"][definition], object, false);
    errors.into_iter().map(|error| format!("{}: {error}", title(object))).collect()
}
