//! Accessors for Kubernetes objects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Component labels of Ferrite's pods.
pub(crate) const ROLES: [&str; 5] = ["gateway", "repo-svc", "issue-svc", "hook-svc", "git-svc"];
pub(crate) const COMPONENT: &str = "app.kubernetes.io/component";

pub(crate) fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("k8s")
}

/// The string at a JSON pointer, or an empty one.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a JSON pointer, or an empty one.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Kind and name, for messages.
pub(crate) fn title(object: &Value) -> String {
    format!("{} {}", kind(object), name(object))
}

pub(crate) fn of_kind<'a>(objects: &'a [Value], wanted: &'a str) -> impl Iterator<Item = &'a Value> + Clone {
    objects.iter().filter(move |object| kind(object) == wanted)
}

pub(crate) fn find<'a>(objects: &'a [Value], kind: &'a str, wanted: &str) -> Option<&'a Value> {
    of_kind(objects, kind).find(|object| name(object) == wanted)
}

/// Objects that create pods.
pub(crate) fn workloads(objects: &[Value]) -> impl Iterator<Item = &Value> + Clone {
    objects.iter().filter(|object| object.pointer("/spec/template/spec").is_some())
}

/// Ferrite's workloads, each with its role.
pub(crate) fn roles(objects: &[Value]) -> impl Iterator<Item = (&Value, &str)> + Clone {
    let role = |object| labels(object).get(COMPONENT).copied().unwrap_or_default();
    workloads(objects).map(move |object| (object, role(object))).filter(|(_, role)| !role.is_empty())
}

/// The pod template of a workload.
pub(crate) fn pod(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]
}

/// Labels of the pod template.
pub(crate) fn labels(workload: &Value) -> BTreeMap<&str, &str> {
    let labels = workload.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect()
}

pub(crate) fn containers(workload: &Value) -> impl Iterator<Item = &Value> {
    items(pod(workload), "/initContainers").iter().chain(items(pod(workload), "/containers"))
}

/// Named ports of the pod template.
pub(crate) fn ports(workload: &Value) -> BTreeMap<&str, u64> {
    let ports = containers(workload).flat_map(|container| items(container, "/ports"));
    ports.map(|port| (text(port, "/name"), port["containerPort"].as_u64().unwrap_or_default())).collect()
}

/// Whether a selector matches labels. The empty selector matches all.
pub(crate) fn fits(selector: &Value, labels: &BTreeMap<&str, &str>) -> bool {
    let is_equal = |(key, value): (&String, &Value)| labels.get(key.as_str()).copied() == value.as_str();
    let is_in = |expression: &Value| {
        assert_eq!(text(expression, "/operator"), "In", "other operators are not supported");
        let label = labels.get(text(expression, "/key"));
        label.is_some_and(|label| items(expression, "/values").iter().any(|value| value == label))
    };
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    equal.into_iter().flatten().all(is_equal) && items(selector, "/matchExpressions").iter().all(is_in)
}

/// Environment variables of the first container, without those from pod fields.
pub(crate) fn settings<'a>(objects: &'a [Value], workload: &'a Value) -> BTreeMap<&'a str, &'a str> {
    let mut settings = BTreeMap::new();
    for container in containers(workload) {
        for source in items(container, "/envFrom") {
            let data =
                find(objects, "ConfigMap", text(source, "/configMapRef/name")).and_then(|map| map["data"].as_object());
            let pairs = data.into_iter().flatten();
            settings.extend(pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())));
        }
        let own = items(container, "/env").iter();
        settings.extend(own.map(|variable| (text(variable, "/name"), text(variable, "/value"))));
    }
    settings
}
