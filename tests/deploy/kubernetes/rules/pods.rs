//! Rules about one pod: image, resources, probes, privileges and shutdown.

use serde_json::Value;

use crate::kubernetes::object::{
    COMPONENT, containers, find, items, labels, manifests, of_kind, pod, ports, roles, settings, text, title, workloads,
};

/// Ferrite's image, without its registry.
const FERRITE: &str = "ferrite";

fn of_containers(objects: &[Value], is_wrong: impl Fn(&Value, &Value) -> Vec<String>) -> Vec<String> {
    let mut errors = Vec::new();
    for workload in workloads(objects) {
        for container in containers(workload) {
            let place = format!("{}, container {}", title(workload), text(container, "/name"));
            errors.extend(is_wrong(workload, container).into_iter().map(|error| format!("{place}: {error}")));
        }
    }
    errors
}

/// Name and tag of an image, without registry and digest.
fn parts(image: &str) -> (&str, &str) {
    let image = image.split('@').next().unwrap_or(image);
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split_once(':').unwrap_or((last, ""))
}

/// Tags are fixed versions; Ferrite's is the version of the program.
pub(super) fn image(objects: &[Value]) -> Vec<String> {
    of_containers(objects, |_, container| {
        let image = text(container, "/image");
        let (name, tag) = parts(image);
        let version = env!("CARGO_PKG_VERSION");
        if tag.is_empty() || tag == "latest" {
            vec![format!("the image `{image}` has no fixed tag")]
        } else if name == FERRITE && tag != version {
            vec![format!("the image `{image}` is not of version {version}")]
        } else {
            Vec::new()
        }
    })
}

pub(super) fn resources(objects: &[Value]) -> Vec<String> {
    of_containers(objects, |_, container| {
        let names = ["requests/cpu", "requests/memory", "limits/cpu", "limits/memory"];
        let missing = names.into_iter().filter(|name| text(container, &format!("/resources/{name}")).is_empty());
        missing.map(|name| format!("no {name}")).collect()
    })
}

/// Every container has probes; Ferrite's use its own paths and port.
pub(super) fn probes(objects: &[Value]) -> Vec<String> {
    of_containers(objects, |workload, container| {
        let mut errors = Vec::new();
        for (probe, path) in [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            let Some(settings) = container.get(probe) else {
                errors.push(format!("no {probe}"));
                continue;
            };
            let is_ours = labels(workload).contains_key(COMPONENT);
            if is_ours && (text(settings, "/httpGet/path") != path || text(settings, "/httpGet/port") != "private") {
                errors.push(format!("the {probe} does not request {path} on the private port"));
            }
            for handler in ["/httpGet/port", "/tcpSocket/port"] {
                let port = text(settings, handler);
                if !port.is_empty() && !ports(workload).contains_key(port) {
                    errors.push(format!("the {probe} uses the unknown port `{port}`"));
                }
            }
        }
        errors
    })
}

/// Pods satisfy the `restricted` profile and run as the user of the image.
pub(super) fn security(objects: &[Value]) -> Vec<String> {
    let mut errors = of_containers(objects, |workload, container| {
        let mut errors = Vec::new();
        let context = &container["securityContext"];
        if context["allowPrivilegeEscalation"] != false {
            errors.push("may gain privileges".to_owned());
        }
        if items(context, "/capabilities/drop") != ["ALL"] || context.pointer("/capabilities/add").is_some() {
            errors.push("keeps capabilities".to_owned());
        }
        if context.get("runAsUser").is_some() || context.get("privileged").is_some() {
            errors.push("overrides the pod's user".to_owned());
        }
        let is_ours = labels(workload).contains_key(COMPONENT);
        if is_ours && pod(workload)["securityContext"]["runAsUser"].as_u64() != image_user() {
            errors.push("does not run as the image's user".to_owned());
        }
        errors
    });
    for workload in workloads(objects) {
        let (spec, context) = (pod(workload), &pod(workload)["securityContext"]);
        let is_user = context["runAsUser"].as_u64().is_some_and(|user| user > 0);
        if context["runAsNonRoot"] != true || !is_user || context["fsGroup"] != context["runAsGroup"] {
            errors.push(format!("{} may run as root", title(workload)));
        }
        if text(context, "/seccompProfile/type") != "RuntimeDefault" {
            errors.push(format!("{} does not use the default seccomp profile", title(workload)));
        }
        let host = ["hostNetwork", "hostPID", "hostIPC"].into_iter().any(|key| spec.get(key).is_some());
        if host || items(spec, "/volumes").iter().any(|volume| volume.get("hostPath").is_some()) {
            errors.push(format!("{} shares a namespace or folder of its node", title(workload)));
        }
    }
    errors
}

fn image_user() -> Option<u64> {
    let dockerfile = std::fs::read_to_string(manifests().join("../Dockerfile")).ok()?;
    let user = dockerfile.lines().filter_map(|line| line.strip_prefix("USER ")).next_back()?;
    user.trim().split(':').next()?.parse().ok()
}

/// Root file systems are read-only, and writable volumes have a size limit.
pub(super) fn read_only_root(objects: &[Value]) -> Vec<String> {
    let mut errors = of_containers(objects, |_, container| {
        let is_read_only = container["securityContext"]["readOnlyRootFilesystem"] == true;
        let has_tmp = items(container, "/volumeMounts").iter().any(|mount| mount["mountPath"] == "/tmp");
        let wrong = [(is_read_only, "its root can be written to"), (has_tmp, "nothing is mounted at /tmp")];
        wrong.into_iter().filter(|(is_right, _)| !is_right).map(|(_, message)| message.to_owned()).collect()
    });
    for workload in workloads(objects) {
        let empty = items(pod(workload), "/volumes").iter().filter_map(|volume| volume.get("emptyDir"));
        if empty.filter(|volume| volume.get("sizeLimit").is_none()).count() > 0 {
            errors.push(format!("{} may fill the disk of its node", title(workload)));
        }
    }
    errors
}

/// No pod gets a Kubernetes token, or variables for the Services around it.
pub(super) fn token(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for workload in workloads(objects) {
        let spec = pod(workload);
        if spec["automountServiceAccountToken"] != false {
            errors.push(format!("{} has a token mounted", title(workload)));
        }
        if find(objects, "ServiceAccount", text(spec, "/serviceAccountName")).is_none() {
            errors.push(format!("{} has no service account", title(workload)));
        }
        if spec["enableServiceLinks"] != false {
            errors.push(format!("{} gets variables of Services", title(workload)));
        }
    }
    let accounts =
        of_kind(objects, "ServiceAccount").filter(|account| account["automountServiceAccountToken"] != false);
    errors.extend(accounts.map(|account| format!("{} mounts its token", title(account))));
    errors
}

/// The termination grace period exceeds drain plus grace of the process.
pub(super) fn grace(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for (workload, _) in roles(objects) {
        let settings = settings(objects, workload);
        let seconds = |name: &str| settings.get(name).and_then(|text| text.parse::<u64>().ok());
        let (drain, grace) = (seconds("FERRITE_DRAIN_SECONDS"), seconds("FERRITE_GRACE_SECONDS"));
        let needed = drain.zip(grace).map(|(drain, grace)| drain + grace);
        let given = pod(workload)["terminationGracePeriodSeconds"].as_u64();
        if drain.is_none_or(|drain| drain == 0) || needed.is_none() || given <= needed {
            errors.push(format!("{} is killed before its drain and grace are over", title(workload)));
        }
    }
    errors
}
