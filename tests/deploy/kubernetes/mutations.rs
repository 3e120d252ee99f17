//! Broken copies of the manifests: at least one for each rule, with the expected message.

use std::collections::BTreeSet;
use std::path::Path;

use super::{copy_folder, kustomize, manifests, rules};

struct Mutation {
    rule: &'static str,
    overlay: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    says: &'static str,
}

macro_rules! mutations {
    ($($rule:literal, $overlay:literal, $file:literal: $from:literal => $to:literal, $says:literal;)*) => {
        [$(Mutation { rule: $rule, overlay: $overlay, file: $file, from: $from, to: $to, says: $says }),*]
    };
}

const MUTATIONS: &[Mutation] = &mutations! {
    "build", "dev", "overlays/dev/kustomization.yaml":
        "namespace:" => "namePrefix: x-\nnamespace:", "`namePrefix` is not supported";
    "build", "dev", "overlays/dev/kustomization.yaml":
        "name: gateway-ssh" => "name: gateway-shh", "matches no object";
    "build", "dev", "overlays/dev/site.env":
        "FERRITE_SSH=" => "FERRITE_SSH:", "has no value";
    "schema", "dev", "base/gateway.yaml":
        "readOnlyRootFilesystem" => "readOnlyRootFileSystem", "readOnlyRootFileSystem is not known";
    "schema", "dev", "base/gateway.yaml":
        "containerPort: 3000" => "containerPort: \"3000\"", "is not of type \"integer\"";
    "schema", "dev", "base/repo-svc.yaml":
        "apiVersion: apps/v1" => "apiVersion: apps/v2", "no schema for apps/v2/Deployment";
    "schema", "production", "components/grpc-tls/certificates.yaml":
        "algorithm: ECDSA" => "algorithm: ECDH", "is not one of";
    "namespace", "dev", "overlays/dev/namespace.yaml":
        "enforce: restricted" => "enforce: baseline", "allows pods that are not restricted";
    "namespace", "dev", "overlays/dev/kustomization.yaml":
        "namespace: ferrite-dev" => "namespace: ferrite", "is not in ferrite-dev";
    "image", "production", "overlays/production/kustomization.yaml":
        "newTag: 0.1.0" => "newTag: latest", "has no fixed tag";
    "image", "dev", "base/gateway.yaml":
        "image: ferrite:0.1.0" => "image: ferrite", "has no fixed tag";
    "image", "production", "overlays/production/kustomization.yaml":
        "newTag: 0.1.0" => "newTag: 0.0.9", "is not of version";
    "resources", "dev", "base/hook-svc.yaml":
        "            limits:\n              cpu: \"2\"\n" => "            limits:\n", "no limits/cpu";
    "resources", "dev", "overlays/dev/redis.yaml":
        "memory: 64Mi" => "ephemeral-storage: 64Mi", "no requests/memory";
    "probes", "dev", "base/issue-svc.yaml":
        "readinessProbe" => "readyProbe", "no readinessProbe";
    "probes", "dev", "base/issue-svc.yaml":
        "path: /readyz" => "path: /livez", "does not request /readyz";
    "probes", "dev", "overlays/dev/redis.yaml":
        "port: redis\n            periodSeconds" => "port: rediss\n            periodSeconds", "uses the unknown port";
    "security", "dev", "base/gateway.yaml":
        "runAsNonRoot: true" => "runAsNonRoot: false", "may run as root";
    "security", "dev", "base/gateway.yaml":
        "runAsUser: 10001" => "runAsUser: 10002", "does not run as the image's user";
    "security", "dev", "base/git-svc.yaml":
        "drop: [ALL]" => "drop: [NET_RAW]", "keeps capabilities";
    "security", "dev", "base/git-svc.yaml":
        "allowPrivilegeEscalation: false" => "allowPrivilegeEscalation: true", "may gain privileges";
    "security", "dev", "base/repo-svc.yaml":
        "type: RuntimeDefault" => "type: Unconfined", "does not use the default seccomp profile";
    "security", "dev", "base/repo-svc.yaml":
        "enableServiceLinks" => "hostNetwork: true\n      enableServiceLinks", "shares a namespace or folder of its node";
    "read-only root", "dev", "base/gateway.yaml":
        "readOnlyRootFilesystem: true" => "readOnlyRootFilesystem: false", "its root can be written to";
    "read-only root", "dev", "base/gateway.yaml":
        "            sizeLimit: 256Mi" => "            medium: Memory", "may fill the disk";
    "token", "dev", "base/gateway.yaml":
        "automountServiceAccountToken: false" => "automountServiceAccountToken: true", "has a token mounted";
    "token", "dev", "base/service-account.yaml":
        "automountServiceAccountToken: false" => "automountServiceAccountToken: true", "mounts its token";
    "token", "dev", "base/gateway.yaml":
        "serviceAccountName: ferrite" => "serviceAccountName: default", "has no service account";
    "grace", "dev", "base/gateway.yaml":
        "terminationGracePeriodSeconds: 75" => "terminationGracePeriodSeconds: 65", "is killed before";
    "grace", "dev", "base/settings/common.env":
        "FERRITE_DRAIN_SECONDS=5" => "FERRITE_DRAIN_SECONDS=0", "is killed before";
    "disruption", "dev", "base/availability.yaml":
        "component: hook-svc" => "component: issue-svc", "Deployment hook-svc has 0 budgets";
    "disruption", "dev", "base/availability.yaml":
        "maxUnavailable: 1" => "maxUnavailable: 0", "does not allow one eviction";
    "spread", "dev", "base/gateway.yaml":
        "topologyKey: topology.kubernetes.io/zone" => "topologyKey: topology.kubernetes.io/region", "is not spread by";
    "replicas", "production", "base/gateway.yaml":
        "strategy:" => "replicas: 3\n  strategy:", "both an autoscaler and a replica count";
    "replicas", "production", "base/availability.yaml":
        "minReplicas: 2" => "minReplicas: 1", "fewer than two pods";
    "replicas", "production", "base/availability.yaml":
        "kind: Deployment\n    name: hook-svc" => "kind: StatefulSet\n    name: git", "is scaled by load";
    "replicas", "dev", "overlays/dev/kustomization.yaml":
        "  - name: hook-svc\n    count: 1\n" => "", "neither autoscaler nor replica count";
    "stores", "dev", "base/git-svc.yaml":
        "[ReadWriteOnce]" => "[ReadWriteMany]", "exactly one volume";
    "stores", "dev", "base/git-svc.yaml":
        "whenScaled: Retain" => "whenScaled: Delete", "are not kept whenScaled";
    "stores", "dev", "base/git-svc.yaml":
        "fieldPath: metadata.name" => "fieldPath: spec.nodeName", "not named after its pod";
    "stores", "dev", "base/settings/gateway.env":
        "{store}.git-svc" => "git-svc", "gateway does not use the names of pods";
    "stores", "production", "base/git-svc.yaml":
        "replicas: 3" => "replicas: 4", "the first stores are not the pods";
    "stores", "dev", "overlays/dev/stores.env":
        "STORE=git-0" => "STORE=default", "the first stores are not the pods";
    "selectors", "dev", "base/hook-svc.yaml":
        "  selector: *labels" => "  selector:\n    app: hook-svc", "Service hook-svc selects no pod";
    "selectors", "dev", "base/network.yaml":
        "app.kubernetes.io/component: gateway" => "app.kubernetes.io/component: gate",
        "NetworkPolicy gateway selects no pod";
    "ports", "dev", "base/repo-svc.yaml":
        "targetPort: grpc" => "targetPort: http", "which no pod has";
    "ports", "dev", "base/repo-svc.yaml":
        "port: 7001\n      targetPort" => "port: 7000\n      targetPort", "another port than its pods";
    "ports", "dev", "base/settings/issue-svc.env":
        "repo-svc:7001" => "repo-svc:7002", "a port that the Service does not have";
    "ports", "dev", "base/settings/issue-svc.env":
        "repo-svc:7001" => "repos:7001", "there is no such Service";
    "ports", "dev", "base/settings/git-svc.env":
        "0.0.0.0:7004" => "0.0.0.0:7005", "does not listen on its port";
    "ports", "dev", "base/issue-svc.yaml":
        "  clusterIP: None\n" => "", "shows only one replica";
    "ports", "production", "base/gateway.yaml":
        "                port:\n                  name: http" => "                port:\n                  name: https",
        "Ingress gateway routes to";
    "settings", "dev", "base/settings/git-svc.env":
        "FERRITE_GIT_STORE_PATH" => "FERRITE_GIT_STORE_FOLDER", "git-svc does not know";
    "settings", "dev", "overlays/dev/site.env":
        "FERRITE_SSH=" => "FERRITE_GATEWAY_SSH_LISTEN=0.0.0.0:2222\nFERRITE_SSH=", "repo-svc does not know";
    "settings", "dev", "base/settings/repo-svc.env":
        "FERRITE_DATABASE_URL_FILE=" => "FERRITE_DATABASE_URL=postgres://x@y/z\nFERRITE_DATABASE_URL_FILE=",
        "is a secret in a ConfigMap";
    "settings", "dev", "base/hook-svc.yaml":
        "command: [ferrite, hook-svc]" => "command: [ferrite, issue-svc]", "does not run hook-svc";
    "transport", "dev", "overlays/dev/plaintext.env":
        "GRPC_PLAINTEXT=true" => "GRPC_PLAINTEXT=false", "must either have TLS or allow plaintext";
    "transport", "dev", "overlays/dev/plaintext.env":
        "FERRITE_REDIS_PLAINTEXT=true\n" => "", "must allow plaintext Redis";
    "transport", "production", "components/grpc-tls/tls.env":
        "FERRITE_GRPC_CA_FILE" => "FERRITE_REDIS_PLAINTEXT=true\nFERRITE_GRPC_CA_FILE", "must allow plaintext Redis";
    "references", "dev", "base/hook-svc.yaml":
        "name: sealing-key-hook-svc" => "name: sealing-key", "no secret `sealing-key`";
    "transport", "production", "components/grpc-tls/certificates.yaml":
        "dnsNames: [repo-svc]" => "dnsNames: [repo]", "no certificate for repo-svc";
    "transport", "production", "components/grpc-tls/addresses.env":
        ".git-svc.ferrite.svc" => ".git-svc", "too few labels";
    "transport", "production", "components/grpc-tls/tls.env":
        "FERRITE_GRPC_CA_FILE" => "FERRITE_GRPC_CA", "must either have TLS or allow plaintext";
    "references", "dev", "base/gateway.yaml":
        "name: service-key-gateway" => "name: service-key", "no secret `service-key`";
    "references", "dev", "base/repo-svc.yaml":
        "key: url" => "key: uri", "no key `uri`";
    "build", "dev", "base/kustomization.yaml":
        "- name: hook-svc-settings" => "- name: hook-settings", "does not exist for the merge";
    "references", "dev", "base/hook-svc.yaml":
        "name: hook-svc-settings" => "name: hook-settings", "no ConfigMap `hook-settings`";
    "references", "production", "overlays/production/ingress.yaml":
        "      secretName: gateway-tls\n" => "", "TLS without a certificate";
    "paths", "dev", "base/settings/common.env":
        "credentials/service.pem" => "credentials/key.pem", "which is not mounted";
    "paths", "dev", "base/git-svc.yaml":
        "mountPath: /data" => "mountPath: /store", "which is not mounted";
    "network", "dev", "base/network.yaml":
        "values: [gateway, issue-svc, hook-svc, git-svc]" => "values: [gateway, issue-svc, hook-svc]",
        "block git-svc to repo-svc:7001";
    "network", "dev", "base/network.yaml":
        "values: [gateway, repo-svc, git-svc]" => "values: [gateway, repo-svc, git-svc, hook-svc]",
        "allow hook-svc to issue-svc:7002";
    "network", "dev", "base/network.yaml":
        "policyTypes: [Ingress, Egress]" => "policyTypes: [Egress]", "nothing is denied by default";
    "network", "dev", "base/network.yaml":
        "              - 169.254.0.0/16\n" => "", "the Internet leaves in 169.254.0.0/16";
    "network", "dev", "base/network.yaml":
        "cidr: 2000::/3" => "cidr: ::/0", "more than the Internet";
    "network", "dev", "base/network.yaml":
        "              - 192.88.99.0/24\n" => "              - 192.88.0.0/16\n",
        "the Internet leaves out 192.88.0.0/16";
};

fn findings(copy: &Path, overlay: &str) -> Vec<String> {
    match kustomize::build(&copy.join("overlays").join(overlay)) {
        Ok(objects) => rules::violations(&objects),
        Err(error) => vec![format!("build: {error}")],
    }
}

#[test]
fn every_rule_fails_on_a_broken_copy() {
    let mut failures = Vec::new();
    for mutation in MUTATIONS {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(&manifests(), copy.path());
        let file = copy.path().join(mutation.file);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(mutation.from), "{} does not contain `{}`", mutation.file, mutation.from);
        std::fs::write(&file, text.replacen(mutation.from, mutation.to, 1)).unwrap();
        let findings = findings(copy.path(), mutation.overlay);
        let said = |finding: &String| {
            finding
                .split_once(": ")
                .is_some_and(|(rule, message)| rule == mutation.rule && message.contains(mutation.says))
        };
        if !findings.iter().any(said) {
            let Mutation { rule, file, to, says, .. } = mutation;
            failures.push(format!("{rule} does not report `{says}` for `{to}` in {file}, but {findings:#?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let broken: BTreeSet<_> = MUTATIONS.iter().map(|mutation| mutation.rule).collect();
    let rules = rules::RULES.iter().map(|(name, _)| *name);
    assert_eq!(rules.filter(|rule| !broken.contains(rule)).collect::<Vec<_>>(), Vec::<&str>::new(), "never broken");
}
