//! Builds overlays with the part of Kustomize that `k8s/` uses. Anything else in a file is an
//! error, so the result is what `kubectl apply -k` would apply.
//!
//! Order as in Kustomize: resources, components, generated ConfigMaps, then patches, namespace,
//! labels, replicas and images; the hashes of generated ConfigMaps come last (`names`).
//!
//! Kustomize itself is not in Debian, and its PyPI packages download the program when they run, so
//! tests would need GitHub.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::names;
use super::object::{items, kind, name, text};

const FILE: &str = "kustomization.yaml";
const KEYS: [&str; 10] = [
    "apiVersion",
    "kind",
    "namespace",
    "resources",
    "components",
    "labels",
    "configMapGenerator",
    "patches",
    "replicas",
    "images",
];
const CLUSTER_KINDS: [&str; 1] = ["Namespace"];

pub(crate) struct Resource {
    pub(crate) object: Value,
    /// A generated object gets a hash in its name.
    pub(crate) is_generated: bool,
}

/// The objects that `kubectl kustomize` prints.
pub(crate) fn build(folder: &Path) -> Result<Vec<Value>, String> {
    let mut resources = Vec::new();
    read(folder, "Kustomization", &mut resources)?;
    names::finish(&mut resources);
    Ok(resources.into_iter().map(|resource| resource.object).collect())
}

/// The YAML documents of a file.
pub(crate) fn documents(file: &Path) -> Result<Vec<Value>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| failed(&error))?;
    serde_saphyr::from_multiple(&text).map_err(|error| failed(&error))
}

/// Reads a folder into `resources`. A component changes existing objects, other kinds add some.
fn read(folder: &Path, expected_kind: &str, resources: &mut Vec<Resource>) -> Result<(), String> {
    let path = folder.join(FILE);
    let content = documents(&path)?;
    let [settings] = content.as_slice() else { return Err(format!("{}: not one document", path.display())) };
    let failed = |message: String| format!("{}: {message}", path.display());
    known(settings, &KEYS).map_err(failed)?;
    if kind(settings) != expected_kind {
        return Err(failed(format!("is a {}, not a {expected_kind}", kind(settings))));
    }
    for entry in items(settings, "/resources") {
        let entry = folder.join(entry.as_str().ok_or("a resource is not a string")?);
        if entry.is_dir() {
            let mut more = Vec::new();
            read(&entry, "Kustomization", &mut more)?;
            resources.append(&mut more);
        } else {
            let objects = documents(&entry)?;
            resources.extend(objects.into_iter().map(|object| Resource { object, is_generated: false }));
        }
    }
    for entry in items(settings, "/components") {
        read(&folder.join(entry.as_str().ok_or("a component is not a string")?), "Component", resources)?;
    }
    transform(folder, settings, resources).map_err(failed)?;
    no_object_twice(resources).map_err(failed)
}

fn transform(folder: &Path, settings: &Value, resources: &mut Vec<Resource>) -> Result<(), String> {
    for generator in items(settings, "/configMapGenerator") {
        generate(folder, generator, resources)?;
    }
    for patch in items(settings, "/patches") {
        apply_patch(folder, patch, resources)?;
    }
    if let Some(namespace) = settings.get("namespace") {
        for resource in resources.iter_mut() {
            if !CLUSTER_KINDS.contains(&kind(&resource.object)) {
                resource.object["metadata"]["namespace"] = namespace.clone();
            }
        }
    }
    for labels in items(settings, "/labels") {
        known(labels, &["pairs"])?;
        let pairs = labels["pairs"].as_object().ok_or("labels without pairs")?;
        for resource in resources.iter_mut() {
            for (key, value) in pairs {
                resource.object["metadata"]["labels"][key] = value.clone();
            }
        }
    }
    for replicas in items(settings, "/replicas") {
        known(replicas, &["name", "count"])?;
        let scaled = |object: &Value| {
            ["Deployment", "StatefulSet"].contains(&kind(object)) && name(object) == text(replicas, "/name")
        };
        let found = resources.iter_mut().filter(|resource| scaled(&resource.object));
        let count = found.map(|resource| resource.object["spec"]["replicas"] = replicas["count"].clone()).count();
        at_least_one(count, replicas)?;
    }
    items(settings, "/images").iter().try_for_each(|image| set_image(image, resources))
}

/// Adds the ConfigMap of a generator. With `behavior: merge`, adds its entries to an existing one.
fn generate(folder: &Path, generator: &Value, resources: &mut Vec<Resource>) -> Result<(), String> {
    known(generator, &["name", "behavior", "envs", "files", "options"])?;
    let mut data = BTreeMap::new();
    for file in items(generator, "/envs") {
        data.append(&mut variables(&folder.join(file.as_str().ok_or("a file is not a string")?))?);
    }
    for file in items(generator, "/files") {
        let file = file.as_str().ok_or("a file is not a string")?;
        let (key, file) = file.split_once('=').unwrap_or((file, file));
        let path = folder.join(file);
        let content = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        data.insert(key.to_owned(), content);
    }
    let (generated, data) = (text(generator, "/name"), json!(data));
    if generator.get("behavior").is_none() {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generated}, "data": data});
        let options = &generator["options"];
        known(options, &["labels", "disableNameSuffixHash"])?;
        if let Some(labels) = options.get("labels") {
            object["metadata"]["labels"] = labels.clone();
        }
        let is_generated = options["disableNameSuffixHash"] != true;
        resources.push(Resource { object, is_generated });
        return Ok(());
    }
    if text(generator, "/behavior") != "merge" {
        return Err(format!("ConfigMap {generated}: only `merge` is supported"));
    }
    let is_it = |resource: &&mut Resource| resource.is_generated && name(&resource.object) == generated;
    let base = resources.iter_mut().find(is_it).ok_or(format!("ConfigMap {generated} does not exist for the merge"))?;
    let entries = base.object["data"].as_object_mut().expect("a generated ConfigMap has data");
    entries.extend(data.as_object().cloned().unwrap_or_default());
    Ok(())
}

fn variables(file: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &str| {
        let (name, value) = line.split_once('=').ok_or(format!("{}: `{line}` has no value", file.display()))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    lines.map(pair).collect()
}

/// Applies a JSON patch (RFC 6902), or `$patch: delete`.
fn apply_patch(folder: &Path, patch: &Value, resources: &mut Vec<Resource>) -> Result<(), String> {
    known(patch, &["path", "patch", "target"])?;
    let target = &patch["target"];
    known(target, &["kind", "name"])?;
    let content: Value = match patch.get("path").and_then(Value::as_str) {
        Some(path) => documents(&folder.join(path))?.into_iter().next().ok_or("an empty patch")?,
        None => serde_saphyr::from_str(text(patch, "/patch")).map_err(|error| error.to_string())?,
    };
    let is_target = |object: &Value| {
        let is_named = target.get("name").is_none_or(|wanted| *wanted == object["metadata"]["name"]);
        is_named && kind(object) == text(target, "/kind")
    };
    let before = resources.len();
    if content.get("$patch").is_some_and(|patch| patch == "delete") {
        resources.retain(|resource| !is_target(&resource.object));
        return at_least_one(before - resources.len(), target);
    }
    let operations: json_patch::Patch = serde_json::from_value(content)
        .map_err(|error| format!("the patch of {target} is neither a JSON patch nor a deletion: {error}"))?;
    let mut count = 0;
    for resource in resources.iter_mut().filter(|resource| is_target(&resource.object)) {
        json_patch::patch(&mut resource.object, &operations).map_err(|error| format!("{target}: {error}"))?;
        count += 1;
    }
    at_least_one(count, target)
}

/// Changes the name or the tag of an image.
fn set_image(image: &Value, resources: &mut [Resource]) -> Result<(), String> {
    known(image, &["name", "newName", "newTag"])?;
    let mut count = 0;
    for resource in resources {
        for list in ["/spec/template/spec/containers", "/spec/template/spec/initContainers"] {
            let containers = resource.object.pointer_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let old = text(container, "/image").to_owned();
                let (repository, tag) = old.split_once(':').unwrap_or((&old, ""));
                if repository != text(image, "/name") {
                    continue;
                }
                let repository = image.get("newName").and_then(Value::as_str).unwrap_or(repository);
                let tag = image.get("newTag").and_then(Value::as_str).unwrap_or(tag);
                container["image"] = format!("{repository}:{tag}").into();
                count += 1;
            }
        }
    }
    at_least_one(count, image)
}

fn at_least_one(count: usize, of: &Value) -> Result<(), String> {
    if count == 0 { Err(format!("{of} matches no object")) } else { Ok(()) }
}

fn known(value: &Value, keys: &[&str]) -> Result<(), String> {
    let empty = Map::new();
    let unknown = value.as_object().unwrap_or(&empty).keys().find(|key| !keys.contains(&key.as_str()));
    unknown.map_or(Ok(()), |key| Err(format!("`{key}` is not supported")))
}

fn no_object_twice(resources: &[Resource]) -> Result<(), String> {
    let id = |resource: &Resource| (kind(&resource.object).to_owned(), name(&resource.object).to_owned());
    let mut ids: Vec<_> = resources.iter().map(id).collect();
    ids.sort();
    ids.windows(2).find(|pair| pair[0] == pair[1]).map_or(Ok(()), |pair| Err(format!("{:?} is a duplicate", pair[0])))
}
