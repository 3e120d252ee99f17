//! Rules that compare objects with each other: selectors, ports, addresses and settings.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kubernetes::object::{
    find, fits, items, kind, labels, name, of_kind, ports as ports_of, roles, settings as settings_of, text, title,
    workloads,
};
use crate::kubernetes::program;

/// All objects are in one namespace, which is part of the overlay and enforces `restricted`.
pub(super) fn namespace(objects: &[Value]) -> Vec<String> {
    let mut namespaces = of_kind(objects, "Namespace");
    let (Some(namespace), None) = (namespaces.next(), namespaces.next()) else {
        return vec!["not one Namespace".to_owned()];
    };
    let level = text(namespace, "/metadata/labels/pod-security.kubernetes.io~1enforce");
    let lax = (level != "restricted").then(|| format!("{} allows pods that are not restricted", title(namespace)));
    let others = objects.iter().filter(|object| kind(object) != "Namespace");
    let elsewhere = others.filter(|object| text(object, "/metadata/namespace") != name(namespace));
    lax.into_iter().chain(elsewhere.map(|object| format!("{} is not in {}", title(object), name(namespace)))).collect()
}

/// Every selector matches some pods.
pub(super) fn selectors(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for workload in workloads(objects) {
        if !fits(&workload["spec"]["selector"], &labels(workload)) {
            errors.push(format!("{} does not select its own pods", title(workload)));
        }
    }
    for object in objects {
        let selector = match kind(object) {
            "Service" => json!({"matchLabels": object["spec"]["selector"]}),
            "PodDisruptionBudget" | "PodMonitor" => object["spec"]["selector"].clone(),
            "NetworkPolicy" => object["spec"]["podSelector"].clone(),
            _ => continue,
        };
        let is_empty = selector.as_object().is_none_or(serde_json::Map::is_empty);
        if is_empty && kind(object) != "NetworkPolicy" {
            errors.push(format!("{} selects all pods", title(object)));
        }
        if !workloads(objects).any(|workload| fits(&selector, &labels(workload))) {
            errors.push(format!("{} selects no pod", title(object)));
        }
    }
    errors
}

fn behind<'a>(objects: &'a [Value], service: &Value) -> Option<&'a Value> {
    let selector = json!({"matchLabels": service["spec"]["selector"]});
    workloads(objects).find(|workload| fits(&selector, &labels(workload)))
}

/// Services target ports that pods declare, processes listen on those ports, and callers use the
/// ports of the Services.
pub(super) fn ports(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for service in of_kind(objects, "Service") {
        let known = behind(objects, service).map(ports_of).unwrap_or_default();
        let is_headless = text(service, "/spec/clusterIP") == "None";
        for port in items(service, "/spec/ports") {
            let target = text(port, "/targetPort");
            let number = known.get(target).copied();
            if number.is_none() {
                errors.push(format!("{} targets the port `{target}`, which no pod has", title(service)));
            } else if is_headless && port["port"].as_u64() != number {
                errors.push(format!("{} is headless and says another port than its pods", title(service)));
            }
        }
    }
    for ingress in of_kind(objects, "Ingress") {
        let paths = items(ingress, "/spec/rules").iter().flat_map(|rule| items(rule, "/http/paths"));
        for backend in paths.map(|path| &path["backend"]["service"]) {
            let service = find(objects, "Service", text(backend, "/name"));
            let ports = service.map(|service| items(service, "/spec/ports")).unwrap_or_default();
            if !ports.iter().any(|port| port["name"] == backend["port"]["name"]) {
                errors.push(format!("{} routes to {backend}, which does not exist", title(ingress)));
            }
        }
    }
    for (workload, role) in roles(objects) {
        let known = ports_of(workload);
        let settings = settings_of(objects, workload);
        let serving = if role == "gateway" { "http" } else { "grpc" };
        let mut listeners = vec![("FERRITE_LISTEN", serving), ("FERRITE_ADMIN_LISTEN", "private")];
        if role == "gateway" {
            listeners.push(("FERRITE_GATEWAY_SSH_LISTEN", "ssh"));
        }
        for (setting, port) in listeners {
            let number = settings.get(setting).and_then(|address| address.rsplit_once(':')?.1.parse::<u64>().ok());
            if number.is_none() || number != known.get(port).copied() {
                errors.push(format!("{role} does not listen on its port `{port}`"));
            }
        }
        errors.extend(addresses(objects, &settings).map(|error| format!("{role}: {error}")));
    }
    errors
}

/// Checks the addresses of other roles.
fn addresses<'a>(objects: &'a [Value], settings: &BTreeMap<&'a str, &'a str>) -> impl Iterator<Item = String> + 'a {
    let is_callee = |setting: &str| setting.starts_with("FERRITE_") && setting.ends_with("_ADDRESS");
    let callees: Vec<_> = settings.iter().filter(|(setting, _)| is_callee(setting)).map(|(s, a)| (*s, *a)).collect();
    callees.into_iter().filter_map(move |(setting, address)| {
        let (host, port) = address.trim_start_matches("{store}.").rsplit_once(':')?;
        let service = find(objects, "Service", host.split('.').next()?);
        let number = port.parse::<u16>().ok()?;
        let has = |service: &Value| items(service, "/spec/ports").iter().any(|entry| entry["port"] == number);
        let is_headless = |service: &Value| text(service, "/spec/clusterIP") == "None";
        match service {
            None => Some(format!("{setting} is {address}, but there is no such Service")),
            Some(service) if !has(service) => {
                Some(format!("{setting} is {address}, a port that the Service does not have"))
            }
            Some(service) if !is_headless(service) => {
                Some(format!("{setting} is {address}, which shows only one replica"))
            }
            Some(_) => None,
        }
    })
}

/// The program knows every variable of a role.
pub(super) fn settings(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for (workload, role) in roles(objects) {
        let known = &program::settings()[role];
        let settings = settings_of(objects, workload);
        let ours = settings.keys().filter(|setting| setting.starts_with("FERRITE_"));
        let unknown = ours.filter(|setting| !known.contains(**setting));
        errors.extend(unknown.map(|setting| format!("{role} does not know {setting}")));
        let strange =
            settings.keys().filter(|setting| !["FERRITE_", "OTEL_"].iter().any(|start| setting.starts_with(start)));
        errors.extend(strange.map(|setting| format!("{role}: {setting} is nobody's")));
        let secret = settings.iter().filter(|(setting, value)| {
            ["FERRITE_DATABASE_URL", "FERRITE_REDIS_URL"].contains(setting) && !value.starts_with("sqlite://")
        });
        errors.extend(secret.map(|(setting, _)| format!("{role}: {setting} is a secret in a ConfigMap")));
        if text(workload, "/spec/template/spec/containers/0/command/1") != role {
            errors.push(format!("{} does not run {role}", title(workload)));
        }
    }
    errors
}

/// Between pods, TLS is on with certificates for the names that callers use, or explicitly off.
/// Redis has TLS unless it runs in a pod of the overlay.
pub(super) fn transport(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    let mut names = Vec::new();
    for (workload, role) in roles(objects) {
        let settings = settings_of(objects, workload);
        let is_plain = settings.get("FERRITE_GRPC_PLAINTEXT") == Some(&"true");
        if settings.contains_key("FERRITE_GRPC_CA_FILE") == is_plain {
            errors.push(format!("{role} must either have TLS or allow plaintext"));
        }
        let has_redis = workloads(objects).any(|workload| name(workload) == "redis");
        if (settings.get("FERRITE_REDIS_PLAINTEXT") == Some(&"true")) != has_redis {
            errors.push(format!("{role} must allow plaintext Redis exactly if Redis runs in the overlay"));
        }
        if is_plain {
            continue;
        }
        let addresses = settings.iter().filter(|(setting, _)| setting.ends_with("_ADDRESS"));
        names.extend(addresses.filter_map(|(_, address)| Some(address.rsplit_once(':')?.0.replace("{store}", "*"))));
        let secret = format!("grpc-tls-{role}");
        if !of_kind(objects, "Certificate").any(|certificate| text(certificate, "/spec/secretName") == secret) {
            errors.push(format!("{role} has no certificate"));
        }
    }
    names.sort();
    names.dedup();
    for host in names {
        let is_for = |certificate: &Value| items(certificate, "/spec/dnsNames").iter().any(|name| *name == host);
        if !of_kind(objects, "Certificate").any(is_for) {
            errors.push(format!("no certificate for {host}"));
        }
        if host.starts_with("*.") && host.matches('.').count() < 2 {
            errors.push(format!("{host} has too few labels for a certificate"));
        }
    }
    errors
}
