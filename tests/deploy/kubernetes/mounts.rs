//! References to Secrets and ConfigMaps resolve, and files named by settings are mounted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::object::{containers, find, items, of_kind, pod, roles, settings, text, title, workloads};
use super::program;

/// Keys of a secret from cert-manager.
const CERTIFICATE_KEYS: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
/// Suffixes of settings that are paths.
const PATHS: [&str; 4] = ["_FILE", "_FOLDER", "_PUBLIC_KEYS", "_STORE_PATH"];

/// Keys of all Secrets and ConfigMaps, by kind and name.
type Contents = BTreeMap<(&'static str, String), BTreeSet<String>>;
pub(crate) type Origin = (String, String);
type Files = BTreeMap<String, Origin>;

fn contents(objects: &[Value]) -> Contents {
    let made = program::secrets().iter();
    let made = made.map(|(name, keys)| (("secret", name.clone()), keys.keys().cloned().collect()));
    let certificates = of_kind(objects, "Certificate").map(|certificate| {
        let keys = CERTIFICATE_KEYS.map(str::to_owned).into_iter().collect();
        (("secret", text(certificate, "/spec/secretName").to_owned()), keys)
    });
    let maps = of_kind(objects, "ConfigMap").map(|map| {
        let keys = map["data"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        (("configMap", text(map, "/metadata/name").to_owned()), keys)
    });
    made.chain(certificates).chain(maps).collect()
}

/// Checks that every Secret and ConfigMap that a pod references exists and has the keys.
pub(crate) fn references(objects: &[Value]) -> Vec<String> {
    let contents = contents(objects);
    let mut errors = Vec::new();
    for workload in workloads(objects) {
        let volumes = items(pod(workload), "/volumes");
        let results = volumes.iter().map(|volume| files(&contents, volume).map(drop));
        errors.extend(results.filter_map(Result::err).map(|error| format!("{}: {error}", title(workload))));
        for container in containers(workload) {
            let maps = items(container, "/envFrom").iter().map(|source| text(source, "/configMapRef/name"));
            let missing = maps.filter(|map| find(objects, "ConfigMap", map).is_none());
            errors.extend(missing.map(|map| format!("{}: no ConfigMap `{map}`", title(workload))));
            let variables = items(container, "/env").iter();
            let secret = variables.filter(|variable| variable.pointer("/valueFrom/secretKeyRef").is_some());
            errors.extend(secret.map(|variable| {
                format!("{}: the secret in {} is a variable, not a file", title(workload), text(variable, "/name"))
            }));
        }
    }
    for ingress in of_kind(objects, "Ingress").filter(|ingress| ingress.pointer("/spec/tls").is_some()) {
        let named = items(ingress, "/spec/tls").iter().all(|entry| !text(entry, "/secretName").is_empty());
        if !named {
            errors.push(format!("{}: TLS without a certificate", title(ingress)));
        }
    }
    errors
}

/// The files of a volume, or `None` for a writable one.
fn files(contents: &Contents, volume: &Value) -> Result<Option<Files>, String> {
    if let Some(secret) = volume.get("secret") {
        return entries(contents, "secret", text(secret, "/secretName"), secret).map(Some);
    }
    if let Some(map) = volume.get("configMap") {
        return entries(contents, "configMap", text(map, "/name"), map).map(Some);
    }
    let Some(sources) = volume.pointer("/projected/sources").and_then(Value::as_array) else { return Ok(None) };
    let mut files = Files::new();
    for source in sources {
        for kind in ["secret", "configMap"] {
            if let Some(part) = source.get(kind) {
                files.append(&mut entries(contents, kind, text(part, "/name"), part)?);
            }
        }
    }
    Ok(Some(files))
}

fn entries(contents: &Contents, kind: &'static str, name: &str, source: &Value) -> Result<Files, String> {
    let origin = |key: &str| (name.to_owned(), key.to_owned());
    let keys = contents.get(&(kind, name.to_owned())).ok_or_else(|| format!("no {kind} `{name}`"))?;
    if source.get("items").is_none() {
        return Ok(keys.iter().map(|key| (key.clone(), origin(key))).collect());
    }
    let file = |item: &Value| {
        let key = text(item, "/key");
        let missing = || format!("no key `{key}` in {kind} `{name}`");
        keys.contains(key).then(|| (text(item, "/path").to_owned(), origin(key))).ok_or_else(missing)
    };
    items(source, "/items").iter().map(file).collect()
}

/// The mounted files of a workload, and its writable folders, which have no origin.
pub(crate) fn mounted(objects: &[Value], workload: &Value) -> Result<BTreeMap<String, Option<Origin>>, String> {
    let contents = contents(objects);
    let mut mounted = BTreeMap::new();
    for mount in containers(workload).flat_map(|container| items(container, "/volumeMounts")) {
        let folder = text(mount, "/mountPath");
        let volume = items(pod(workload), "/volumes").iter().find(|volume| volume["name"] == mount["name"]);
        let claims = items(workload, "/spec/volumeClaimTemplates");
        let claim = claims.iter().find(|claim| claim.pointer("/metadata/name") == mount.get("name"));
        let volume = volume.or(claim).ok_or_else(|| format!("no volume for {folder}"))?;
        mounted.insert(folder.to_owned(), None);
        let files = files(&contents, volume)?.into_iter().flatten();
        mounted.extend(files.map(|(file, origin)| (format!("{folder}/{file}"), Some(origin))));
    }
    Ok(mounted)
}

/// Checks that files and folders named by settings are mounted.
pub(crate) fn paths(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for (workload, _) in roles(objects) {
        let mounted = match mounted(objects, workload) {
            Ok(mounted) => mounted,
            Err(error) => {
                errors.push(format!("{}: {error}", title(workload)));
                continue;
            }
        };
        for (setting, path) in settings(objects, workload) {
            let is_path = PATHS.iter().any(|end| setting.ends_with(end)) || path.starts_with("sqlite://");
            let path = path.trim_start_matches("sqlite://");
            // Files that the process itself writes can have any name on its volume.
            let is_there = mounted.contains_key(path) || (path.starts_with("/data/") && mounted.contains_key("/data"));
            if is_path && !is_there {
                errors.push(format!("{}: {setting} is {path}, which is not mounted", title(workload)));
            }
        }
    }
    errors
}
