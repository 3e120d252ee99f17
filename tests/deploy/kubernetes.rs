//! The objects of `k8s/`: builds every overlay and component, validates each object against its
//! schema (`schemas/README.md`), and checks our rules. Mutations show that each rule fails on a
//! broken copy. No cluster is needed.

mod kustomize;
mod mounts;
mod mutations;
mod names;
mod network;
mod object;
mod program;
mod rules;
mod schema;
mod starts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use object::{ROLES, find, items, kind, manifests, name, of_kind};

/// The overlays for operators.
const OVERLAYS: [&str; 2] = ["dev", "production"];
/// Components that no overlay includes by default.
const OPTIONAL: [&str; 1] = ["tracing"];

fn build(overlay: &Path) -> Vec<Value> {
    kustomize::build(overlay).unwrap_or_else(|error| panic!("{}: {error}", overlay.display()))
}

fn built(overlay: &str) -> Vec<Value> {
    build(&manifests().join("overlays").join(overlay))
}

/// Copies the manifests and adds the overlay `all`: `dev` with every component.
fn copy_with_all() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&manifests(), copy.path());
    let mut components = folders(&copy.path().join("components"));
    components.retain(|component| !component.ends_with("grpc-tls"));
    let lines = components.iter().map(|component| format!("  - ../../components/{component}\n")).collect::<String>();
    let all = copy.path().join("overlays/all");
    std::fs::create_dir(&all).unwrap();
    let head = "kind: Kustomization\nnamespace: ferrite-dev\nresources: [../dev]\ncomponents:\n";
    std::fs::write(all.join("kustomization.yaml"), format!("{head}{lines}")).unwrap();
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_folder(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

fn folders(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<_> =
        entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_overlay_keeps_every_rule() {
    assert_eq!(folders(&manifests().join("overlays")), OVERLAYS);
    for overlay in OVERLAYS {
        assert_eq!(rules::violations(&built(overlay)), Vec::<String>::new(), "{overlay}");
    }
}

#[test]
fn every_component_keeps_every_rule() {
    let copy = copy_with_all();
    let objects = build(&copy.path().join("overlays/all"));
    assert_eq!(rules::violations(&objects), Vec::<String>::new());
    let production = std::fs::read_to_string(manifests().join("overlays/production/kustomization.yaml")).unwrap();
    for component in folders(&manifests().join("components")) {
        let is_used = production.contains(&format!("../../components/{component}\n"));
        assert_ne!(is_used, OPTIONAL.contains(&component.as_str()), "{component}");
    }
}

#[test]
fn production_has_two_pods_of_each_role_or_more_and_nothing_to_try_out() {
    let objects = built("production");
    for role in ROLES {
        let pods = match find(&objects, "HorizontalPodAutoscaler", role) {
            Some(scaler) => scaler["spec"]["minReplicas"].as_u64(),
            None => find(&objects, "StatefulSet", "git").and_then(|store| store["spec"]["replicas"].as_u64()),
        };
        assert!(pods >= Some(2), "{role}: {pods:?}");
    }
    assert_eq!(object::workloads(&objects).count(), ROLES.len());
    let ingress = of_kind(&objects, "Ingress").next().unwrap();
    let hosts = [&ingress["spec"]["rules"][0]["host"], &items(ingress, "/spec/tls")[0]["hosts"][0]];
    let gateway = find(&objects, "Deployment", "gateway").unwrap();
    let settings = object::settings(&objects, gateway);
    assert_eq!(hosts.map(|host| format!("https://{}", host.as_str().unwrap())), [settings["FERRITE_PUBLIC_URL"]; 2]);
}

#[test]
fn dev_has_one_pod_of_each_role_and_its_own_databases() {
    let objects = built("dev");
    assert_eq!(of_kind(&objects, "HorizontalPodAutoscaler").count(), 0);
    let numbers: BTreeMap<_, _> =
        object::workloads(&objects).map(|workload| (name(workload), workload["spec"]["replicas"].as_u64())).collect();
    let expected = ["git", "gateway", "hook-svc", "issue-svc", "postgres", "redis", "repo-svc"];
    assert_eq!(numbers, expected.map(|name| (name, Some(1))).into());
}

#[test]
fn with_the_world_outside_pods_have_the_connections_that_the_architecture_names() {
    let everyone = |line: &str| ROLES.map(|role| format!("{role} {line}")).to_vec();
    let some = |roles: &[&str], line: &str| roles.iter().map(|role| format!("{role} {line}")).collect::<Vec<_>>();
    let (stateful, outbound) = (["repo-svc", "issue-svc", "hook-svc"], ["hook-svc", "git-svc"]);
    let common = [
        everyone("UDP:53 TCP:53 to kube-system kube-dns"),
        some(&outbound, "TCP:* to 0.0.0.0/0 with exceptions"),
        some(&outbound, "TCP:* to 2000::/3 with exceptions"),
        some(&["gateway"], "TCP:2222 from everywhere"),
    ];
    let production = [
        everyone("TCP:9000 from monitoring prometheus"),
        everyone("TCP:6379 to 10.100.0.11/32"),
        some(&stateful, "TCP:5432 to 10.100.0.10/32"),
        some(&["gateway"], "TCP:3000 from ingress-nginx"),
    ];
    let dev = [some(&["gateway"], "TCP:3000 from every namespace")];
    for (overlay, own) in [("production", production.as_slice()), ("dev", dev.as_slice())] {
        let expected = common.iter().chain(own).flatten().cloned().collect();
        assert_eq!(network::outside(&built(overlay)), expected, "{overlay}");
    }
}

#[test]
fn secrets_are_made_once_and_none_is_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let first = program::make_secrets(folder.path(), &[]);
    let files = |folder: &Path| {
        let mut command = Command::new("sh");
        let output = command.args(["-c", "find . -type f | sort | xargs cksum"]).current_dir(folder).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let made = files(&folder.path().join("secrets"));
    let both = program::make_secrets(folder.path(), &[]);
    assert_eq!(files(&folder.path().join("secrets")), made, "a file was generated again");
    assert_eq!(both, format!("{first}{first}"));
    let named: String = OVERLAYS.iter().flat_map(|overlay| built(overlay)).map(|object| object.to_string()).collect();
    for (secret, keys) in program::secrets() {
        assert!(named.contains(&format!("\"{secret}\"")), "no pod uses the secret {secret} ({keys:?})");
    }
}

#[test]
fn the_rules_of_the_prometheus_operator_are_those_of_prometheus() {
    let folder = manifests().join("components/monitoring");
    let made = kustomize::documents(&folder.join("rules.yaml")).unwrap();
    let source = kustomize::documents(&manifests().join("observability/alerts.yaml")).unwrap();
    assert_eq!(made[0]["spec"], source[0], "run {}/make-rules.sh", folder.display());
}

/// The program that builds overlays, if installed.
fn kustomize_command(overlay: &Path) -> Option<Command> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_installed = |name: &str| std::env::split_paths(&folders).any(|folder| folder.join(name).is_file());
    let programs = [("kustomize", "build"), ("kubectl", "kustomize")];
    let (program, verb) = programs.into_iter().find(|(program, _)| is_installed(program))?;
    let mut command = Command::new(program);
    command.arg(verb).arg(overlay);
    Some(command)
}

#[test]
fn kustomize_builds_the_same_where_it_is_installed() {
    let copy = copy_with_all();
    let overlays: Vec<PathBuf> =
        OVERLAYS.iter().chain(&["all"]).map(|name| copy.path().join("overlays").join(name)).collect();
    for overlay in overlays {
        let Some(mut command) = kustomize_command(&overlay) else {
            eprintln!("skipped: neither kustomize nor kubectl is installed");
            return;
        };
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let theirs = String::from_utf8(output.stdout).unwrap();
        let theirs: Vec<Value> = serde_saphyr::from_multiple(&theirs).unwrap();
        let by_name = |objects: Vec<Value>| {
            let key = |object: &Value| (kind(object).to_owned(), name(object).to_owned());
            objects.into_iter().map(|object| (key(&object), object)).collect::<BTreeMap<_, _>>()
        };
        let (ours, theirs) = (by_name(build(&overlay)), by_name(theirs));
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{}", overlay.display());
        for (key, object) in &ours {
            assert_eq!(object, &theirs[key], "{key:?} of {}", overlay.display());
        }
    }
}
