//! Rules about pod counts and scheduling.

use serde_json::Value;

use crate::kubernetes::object::{
    fits, items, kind, labels, name, of_kind, pod, roles, settings, text, title, workloads,
};

/// Every role has a disruption budget, so a node drain never removes all of its pods.
pub(super) fn disruption(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for (workload, _) in roles(objects) {
        let labels = labels(workload);
        let is_its = |budget: &&Value| fits(&budget["spec"]["selector"], &labels);
        let budgets: Vec<_> = of_kind(objects, "PodDisruptionBudget").filter(is_its).collect();
        if budgets.len() != 1 {
            errors.push(format!("{} has {} budgets", title(workload), budgets.len()));
        } else if budgets[0]["spec"]["maxUnavailable"] != 1 {
            errors.push(format!("{}: the budget does not allow one eviction", title(workload)));
        }
    }
    errors
}

/// The pods of a role are spread over nodes and zones.
pub(super) fn spread(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for (workload, _) in roles(objects) {
        for key in ["kubernetes.io/hostname", "topology.kubernetes.io/zone"] {
            let mut constraints = items(pod(workload), "/topologySpreadConstraints").iter();
            let labels = labels(workload);
            if !constraints.any(|entry| entry["topologyKey"] == key && fits(&entry["labelSelector"], &labels)) {
                errors.push(format!("{} is not spread by {key}", title(workload)));
            }
        }
    }
    errors
}

/// A Deployment has either an autoscaler of at least two pods or a replica count. Stores have a
/// replica count.
pub(super) fn replicas(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    let scaler_of = |workload: &Value| {
        of_kind(objects, "HorizontalPodAutoscaler").find(|scaler| {
            let target = &scaler["spec"]["scaleTargetRef"];
            text(target, "/kind") == kind(workload) && text(target, "/name") == name(workload)
        })
    };
    for (workload, _) in roles(objects) {
        let has_number = workload["spec"].get("replicas").is_some();
        match scaler_of(workload) {
            Some(_) if kind(workload) != "Deployment" => errors.push(format!("{} is scaled by load", title(workload))),
            Some(_) if has_number => {
                errors.push(format!("{} has both an autoscaler and a replica count", title(workload)));
            }
            None if !has_number => errors.push(format!("{} has neither autoscaler nor replica count", title(workload))),
            _ => {}
        }
    }
    for scaler in of_kind(objects, "HorizontalPodAutoscaler") {
        if scaler["spec"]["minReplicas"].as_u64().is_none_or(|number| number < 2) {
            errors.push(format!("{} allows fewer than two pods", title(scaler)));
        }
        let is_its = |workload: &Value| scaler_of(workload).is_some_and(|found| name(found) == name(scaler));
        if !workloads(objects).any(is_its) {
            errors.push(format!("{} scales nothing", title(scaler)));
        }
    }
    errors
}

/// Each store has its own volume and a stable DNS name, by which callers find it.
pub(super) fn stores(objects: &[Value]) -> Vec<String> {
    let Some((store, _)) = roles(objects).find(|(_, role)| *role == "git-svc") else {
        return vec!["no store".to_owned()];
    };
    let mut errors = Vec::new();
    let modes = items(store, "/spec/volumeClaimTemplates").iter().map(|claim| items(claim, "/spec/accessModes"));
    if modes.collect::<Vec<_>>() != [["ReadWriteOnce"]] {
        errors.push("a store does not have exactly one volume".to_owned());
    }
    for moment in ["whenDeleted", "whenScaled"] {
        if text(store, &format!("/spec/persistentVolumeClaimRetentionPolicy/{moment}")) != "Retain" {
            errors.push(format!("volumes of stores are not kept {moment}"));
        }
    }
    let variables = items(pod(store), "/containers/0/env");
    let own_name = variables.iter().find(|variable| variable["name"] == "FERRITE_GIT_STORE");
    if own_name.is_none_or(|variable| text(variable, "/valueFrom/fieldRef/fieldPath") != "metadata.name") {
        errors.push("a store is not named after its pod".to_owned());
    }
    let service = text(store, "/spec/serviceName");
    let count = store["spec"]["replicas"].as_u64().unwrap_or_default();
    let pods = (0..count).map(|place| format!("{}-{place}", name(store))).collect::<Vec<_>>().join(",");
    for (workload, role) in roles(objects) {
        let settings = settings(objects, workload);
        let pattern = format!("{{store}}.{service}");
        let is_found = |address: &&str| {
            address.starts_with(&pattern) && [':', '.'].iter().any(|end| address[pattern.len()..].starts_with(*end))
        };
        let address = settings.get("FERRITE_GIT_ADDRESS");
        if role != "git-svc" && address.filter(|address| is_found(address)).is_none() {
            errors.push(format!("{role} does not use the names of pods as addresses of stores"));
        }
        if role == "repo-svc" && settings.get("FERRITE_REPO_STORE") != Some(&pods.as_str()) {
            errors.push(format!("the first stores are not the pods {pods}"));
        }
    }
    errors
}
