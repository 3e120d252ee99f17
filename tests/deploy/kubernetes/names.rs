//! Names of generated ConfigMaps, which end in a hash of the content, as Kustomize computes it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::kustomize::Resource;
use super::object::name;

const HASH_CHARS: usize = 10;
/// Keys whose value references a ConfigMap.
const REFERENCES: [&str; 3] = ["configMapRef", "configMapKeyRef", "configMap"];

/// Adds the hashes to the generated ConfigMaps and to all references to them.
pub(crate) fn finish(resources: &mut [Resource]) {
    let mut names = BTreeMap::new();
    for resource in resources.iter_mut().filter(|resource| resource.is_generated) {
        let old = name(&resource.object).to_owned();
        let new = format!("{old}-{}", hash(&resource.object["data"]));
        resource.object["metadata"]["name"] = new.clone().into();
        names.insert(old, new);
    }
    resources.iter_mut().for_each(|resource| rename(&mut resource.object, &names));
}

fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, names)),
        Value::Object(entries) => {
            for (key, value) in entries {
                if REFERENCES.contains(&key.as_str())
                    && let Some(new) = value.get("name").and_then(Value::as_str).and_then(|old| names.get(old))
                {
                    value["name"] = new.clone().into();
                }
                rename(value, names);
            }
        }
        _ => {}
    }
}

/// Hash of the ConfigMap's JSON as Go writes it, without its name. Kustomize replaces the
/// hexadecimal digits that look like vowels or other digits.
fn hash(data: &Value) -> String {
    let entries: BTreeMap<_, _> = data.as_object().into_iter().flatten().collect();
    let pair = |(key, value): (&String, &Value)| format!("{}:{}", json_of_go(&key.as_str().into()), json_of_go(value));
    let data: Vec<String> = entries.into_iter().map(pair).collect();
    let text = format!(r#"{{"data":{{{}}},"kind":"ConfigMap","name":""}}"#, data.join(","));
    let digits = hex::encode(Sha256::digest(text));
    let clear = |digit| match digit {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    };
    digits.chars().take(HASH_CHARS).map(clear).collect()
}

/// Go escapes the characters that could end an HTML script.
fn json_of_go(text: &Value) -> String {
    text.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[test]
fn a_hash_is_the_one_that_kustomize_computes() {
    assert_eq!(hash(&json!({"x": "1"})), "hmg6f82fh6");
    assert_eq!(hash(&json!({"x": "<a>&b\"c"})), "5792474gfd");
}
