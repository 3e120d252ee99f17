//! Rules for the Compose file. `BREAKS` shows that each one fails on a broken copy.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::file::{self, ComposeFile, Mount, Service, object, scalar, texts};

const ROLES: [&str; 5] = ["gateway", "repo-svc", "issue-svc", "hook-svc", "git-svc"];
/// Secrets and the only services that may mount them.
const OWNERS: [(&str, &[&str]); 19] = [
    ("gateway-key", &["gateway"]),
    ("repo-svc-key", &["repo-svc"]),
    ("issue-svc-key", &["issue-svc"]),
    ("hook-svc-key", &["hook-svc"]),
    ("git-svc-key", &["git-svc"]),
    ("grant-key", &["repo-svc"]),
    ("hook-sealing-key", &["hook-svc"]),
    ("git-sealing-key", &["git-svc"]),
    ("gateway-redis-url", &["gateway"]),
    ("repo-redis-url", &["repo-svc"]),
    ("issue-redis-url", &["issue-svc"]),
    ("hook-redis-url", &["hook-svc"]),
    ("git-redis-url", &["git-svc"]),
    ("redis-users.acl", &["redis"]),
    ("repo-database-url", &["repo-svc", "administrator"]),
    ("issue-database-url", &["issue-svc"]),
    ("hook-database-url", &["hook-svc"]),
    ("git-database-url", &["git-svc"]),
    ("postgres-password", &["postgres"]),
];
const NETWORKS: [(&str, &[&str]); 6] = [
    ("front", &["gateway", "grafana"]),
    ("back", &["gateway", "repo-svc", "issue-svc", "hook-svc", "git-svc", "otel-collector", "prometheus"]),
    ("postgres", &["postgres", "administrator", "repo-svc", "issue-svc", "hook-svc", "git-svc"]),
    ("redis", &["redis", "gateway", "repo-svc", "issue-svc", "hook-svc", "git-svc"]),
    ("monitoring", &["otel-collector", "jaeger", "prometheus", "grafana"]),
    ("egress", &["git-svc", "hook-svc"]),
];
/// Networks that reach other machines.
const OUTWARD: [&str; 2] = ["front", "egress"];
/// Extra time for the shutdown after the grace period of requests, in seconds.
const STOP_MARGIN_SECONDS: u64 = 10;

/// Changes that break a rule: the text to replace, its replacement, and part of the expected
/// message.
pub(super) const BREAKS: &[(&str, &str, &str)] = &[
    (":-redis:7.4.5-bookworm", ":-redis:latest", "redis: the image redis:latest"),
    (
        ":-redis:7.4.5-bookworm",
        ":-redis:7.4.5-bookworm@sha256:1234",
        "redis: the image redis:7.4.5-bookworm@sha256:1234",
    ),
    (":-ferrite:0.1.0}", ":-ferrite}", "gateway: the image ferrite is not pinned"),
    (
        "limits: { cpus: \"2\", memory: 1g, pids: 512 }",
        "limits: { cpus: \"2\", pids: 512 }",
        "gateway: no limit of memory",
    ),
    ("test: [CMD, ferrite, health]", "disable: true", "gateway: no health check"),
    ("restart: unless-stopped", "restart: always", "gateway: wrong restart policy"),
    ("read_only: true\n  cap_drop", "read_only: false\n  cap_drop", "gateway: the root file system can be written"),
    ("cap_drop: [ALL]", "cap_drop: [NET_RAW]", "gateway: keeps capabilities"),
    ("no-new-privileges:true", "no-new-privileges:false", "gateway: may gain privileges"),
    ("user: \"10001:10001\"", "user: root", "gateway: runs as root"),
    (
        "\"/tmp:size=64m\", \"/data:size=1m\"",
        "\"/tmp:size=64m\"",
        "repo-svc: the volume /data of the image has no name",
    ),
    ("max-size: 20m, ", "", "gateway: logs have no bound"),
    ("stop_grace_period: 45s", "stop_grace_period: 10s", "gateway: is killed before its requests have finished"),
    ("FERRITE_REDIS_URL_FILE: /run/secrets/redis-url", "FERRITE_REDIS_URL: redis://x", "FERRITE_REDIS_URL is a secret"),
    ("FERRITE_LOG_FORMAT: json", "FERRITE_LOG_FORMAT: postgres://a:b@c/d", "FERRITE_LOG_FORMAT holds a password"),
    ("FERRITE_LOG_FORMAT: json", "FERRITE_LOG_STYLE: json", "gateway: does not know FERRITE_LOG_STYLE"),
    ("/data/ssh", "/keys/ssh", "FERRITE_GATEWAY_SSH_HOST_KEY_FOLDER: /keys/ssh is not mounted"),
    ("      - grant-key\n", "", "FERRITE_REPO_GRANT_KEY_FILE: /run/secrets/grant-key is not mounted"),
    ("source: gateway-key,", "source: repo-svc-key,", "gateway: mounts repo-svc-key"),
    ("source: gateway-key,", "source: absent-key,", "the secret absent-key is not declared"),
    ("/keys/public\n", "/keys\n", "gateway: mounts all secrets"),
    ("      - grafana-password\n", "", "the secret grafana-password is not used"),
    ("source: hook-redis-url", "source: repo-redis-url", "hook-svc: mounts repo-redis-url"),
    ("source: hook-sealing-key", "source: git-sealing-key", "hook-svc: mounts git-sealing-key"),
    ("internal: true", "internal: false", "the network back is not internal"),
    ("  redis:\n    internal: true", "  redis: {}", "the network redis is not internal"),
    ("networks: [front, back, redis]", "networks: [front, back, redis, postgres]", "gateway: is on postgres"),
    ("networks: [back, postgres, redis]", "networks: [back, postgres, redis, egress]", "repo-svc: is on egress"),
    (
        "networks: [back, postgres, redis, egress]",
        "networks: [back, redis, egress]",
        "hook-svc: shares no network with postgres",
    ),
    ("networks: [monitoring]", "networks: [monitoring, hidden]", "jaeger: is on hidden"),
    ("-127.0.0.1:3000}:3000", "-3000}:3000", "gateway: the port 3000:3000 is open to other machines"),
    (
        "condition: service_completed_successfully",
        "condition: service_started",
        "gateway: waits only for the start of administrator",
    ),
    (
        "git-svc: { condition: service_healthy }",
        "gateway: { condition: service_healthy }",
        "circular or missing dependencies",
    ),
    (
        "FERRITE_LOG: ${FERRITE_LOG:-info}",
        "FERRITE_LOG: ${FERRITE_LEVEL:-info}",
        "FERRITE_LEVEL is not in .env.example",
    ),
    ("FERRITE_LOG: ${FERRITE_LOG:-info}", "FERRITE_LOG: info", "FERRITE_LOG in .env.example is not used"),
];
/// The same for `.env.example`.
pub(super) const EXAMPLE_BREAKS: &[(&str, &str, &str)] = &[
    ("FERRITE_LOG=info", "FERRITE_LOG=debug", "FERRITE_LOG is `info` in the file and `debug` in .env.example"),
    ("FERRITE_LOG=info\n", "", "FERRITE_LOG is not in .env.example"),
    ("FERRITE_LOG=info\n", "FERRITE_LOG=info\nFERRITE_LEVEL=info\n", "FERRITE_LEVEL in .env.example is not used"),
];

pub(super) struct Settings(BTreeMap<String, BTreeSet<String>>);

impl Settings {
    /// Reads them from `--help`.
    pub(super) fn of_the_program() -> Self {
        let commands = ROLES.iter().map(|role| (*role, vec![*role, "--help-all"]));
        let commands = commands.chain([("administrator", vec!["admin", "create-user", "--help"])]);
        Self(commands.map(|(service, words)| (service.to_owned(), Self::of(&words))).collect())
    }

    fn of(words: &[&str]) -> BTreeSet<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_ferrite")).args(words).env_clear().output().unwrap();
        // The help wraps long lines anywhere.
        let help = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let names = help.split("[env: ").skip(1).filter_map(|rest| rest.split(['=', ']']).next());
        names.map(str::to_owned).collect()
    }

    /// Whether a variable holds a secret: it has a `_FILE` form.
    fn is_secret(&self, name: &str) -> bool {
        let twin = format!("{name}_FILE");
        self.0.values().any(|names| names.contains(&twin))
    }
}

pub(super) fn faults(compose: &str, example: &str, settings: &Settings) -> Vec<String> {
    let example = file::variable_file(example);
    let mut faults = match file::variables(compose) {
        Ok(variables) => variable_faults(&variables, &example),
        Err(error) => vec![error],
    };
    let file = match ComposeFile::read(compose, &BTreeMap::new()) {
        Ok(file) => file,
        Err(error) => {
            faults.push(error);
            return faults;
        }
    };
    faults.extend(file.start_order().err());
    faults.extend(file_faults(&file));
    for (name, service) in &file.services {
        let value = &file.root["services"][name];
        let found = [
            image_faults(value),
            volume_faults(service),
            hardening_faults(value),
            lifetime_faults(name, value, service, &file),
            environment_faults(name, service, settings),
            secret_faults(name, service),
            network_faults(name, value, service, &file),
        ];
        faults.extend(found.concat().into_iter().map(|fault| format!("{name}: {fault}")));
    }
    faults
}

fn variable_faults(variables: &BTreeMap<String, Vec<String>>, example: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, defaults) in variables {
        let Some(shown) = example.get(name) else {
            faults.push(format!("{name} is not in .env.example"));
            continue;
        };
        for default in defaults.iter().filter(|default| *default != shown) {
            faults.push(format!("{name} is `{default}` in the file and `{shown}` in .env.example"));
        }
    }
    let is_unread = |name: &&String| !variables.contains_key(*name) && !file::OWN_VARIABLES.contains(&name.as_str());
    faults.extend(example.keys().filter(is_unread).map(|name| format!("{name} in .env.example is not used")));
    faults
}

fn file_faults(file: &ComposeFile) -> Vec<String> {
    let mut faults = Vec::new();
    let used: BTreeSet<&String> = file.services.values().flat_map(|service| &service.secrets).collect();
    let unused = object(&file.root["secrets"]).filter(|(name, _)| !used.contains(name));
    faults.extend(unused.map(|(name, _)| format!("the secret {name} is not used")));
    for (network, _) in NETWORKS.iter().filter(|(network, _)| !OUTWARD.contains(network)) {
        if file.root["networks"][network]["internal"] != true {
            faults.push(format!("the network {network} is not internal"));
        }
    }
    faults
}

fn image_faults(value: &Value) -> Vec<String> {
    let image = scalar(&value["image"]);
    let (name, digest) = image.split_once('@').map_or((image.as_str(), None), |(name, digest)| (name, Some(digest)));
    let tag = name.rsplit_once(':').map_or("", |(_, tag)| tag);
    // A full version: `7` and `7.4` are moving tags.
    let version = tag.trim_start_matches('v').split('-').next().unwrap_or_default();
    let parts = version.split('.').filter(|part| part.parse::<u32>().is_ok()).count();
    let is_version = parts >= 2 && parts == version.split('.').count();
    let is_digest = |digest: &str| {
        let hex = digest.strip_prefix("sha256:");
        hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    };
    let is_pinned = is_version && digest.is_none_or(is_digest);
    if is_pinned { Vec::new() } else { vec![format!("the image {image} is not pinned")] }
}

/// An anonymous volume would be created for each container, and would outlive it.
fn volume_faults(service: &Service) -> Vec<String> {
    let is_ours = service.command.first().is_some_and(|program| program == "ferrite");
    let is_fault = is_ours && !service.mounts.contains_key("/data");
    if is_fault { vec!["the volume /data of the image has no name".to_owned()] } else { Vec::new() }
}

fn hardening_faults(value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut demand = |holds: bool, fault: &str| {
        if !holds {
            faults.push(fault.to_owned());
        }
    };
    demand(value["read_only"] == true, "the root file system can be written");
    demand(texts(&value["cap_drop"]) == ["ALL"] && value["cap_add"].is_null(), "keeps capabilities");
    demand(texts(&value["security_opt"]) == ["no-new-privileges:true"], "may gain privileges");
    demand(value["privileged"].is_null() && value["network_mode"].is_null(), "is not isolated");
    let user = scalar(&value["user"]);
    // Images of the profile set their own users.
    let has_user = !user.is_empty() || !value["profiles"].is_null();
    demand(has_user && !["root", "0"].contains(&user.split(':').next().unwrap_or_default()), "runs as root");
    let limits = &value["deploy"]["resources"]["limits"];
    for limit in ["cpus", "memory", "pids"] {
        demand(!limits[limit].is_null(), &format!("no limit of {limit}"));
    }
    let log = &value["logging"]["options"];
    demand(!log["max-size"].is_null() && !log["max-file"].is_null(), "logs have no bound");
    faults
}

/// Checks health checks, restart policies and stop times.
fn lifetime_faults(name: &str, value: &Value, service: &Service, file: &ComposeFile) -> Vec<String> {
    let mut faults = Vec::new();
    let conditions = file.services.values().filter_map(|other| other.depends_on.get(name));
    let ends = conditions.clone().any(|condition| condition == "service_completed_successfully");
    let restart = if ends { "no" } else { "unless-stopped" };
    if scalar(&value["restart"]) != restart {
        faults.push("wrong restart policy".to_owned());
    }
    // Images of the profile may have nothing to run a health check with.
    let is_waited_for = conditions.clone().any(|condition| condition == "service_healthy");
    if service.health.is_none() && !ends && (service.profiles.is_empty() || is_waited_for) {
        faults.push("no health check".to_owned());
    }
    for (other, condition) in &service.depends_on {
        let needs = file.services.get(other).is_some_and(|other| other.health.is_some() || other.profiles.is_empty());
        if condition == "service_started" && needs {
            faults.push(format!("waits only for the start of {other}"));
        }
    }
    let seconds = |text: &str| text.trim_end_matches('s').parse::<u64>().unwrap_or_default();
    let stop = seconds(&scalar(&value["stop_grace_period"]));
    let of_requests = ["FERRITE_GRACE_SECONDS", "FERRITE_DRAIN_SECONDS"];
    let of_requests: u64 =
        of_requests.iter().filter_map(|name| service.environment.get(*name)).map(|t| seconds(t)).sum();
    if ROLES.contains(&name) && stop < of_requests + STOP_MARGIN_SECONDS {
        faults.push("is killed before its requests have finished".to_owned());
    }
    faults
}

fn environment_faults(name: &str, service: &Service, settings: &Settings) -> Vec<String> {
    let mut faults = Vec::new();
    for (variable, value) in &service.environment {
        let known = settings.0.get(name);
        if variable.starts_with("FERRITE_") && known.is_some_and(|known| !known.contains(variable)) {
            faults.push(format!("does not know {variable}"));
        }
        let is_secret = settings.is_secret(variable) || (variable.contains("PASSWORD") && !variable.ends_with("_FILE"));
        if is_secret {
            faults.push(format!("{variable} is a secret"));
        }
        let authority = value.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
        if authority.contains('@') {
            faults.push(format!("{variable} holds a password"));
        }
        let is_mounted = |target: &String| value == target || value.starts_with(&format!("{target}/"));
        if value.starts_with('/') && !service.mounts.keys().any(is_mounted) {
            faults.push(format!("{variable}: {value} is not mounted"));
        }
    }
    faults
}

fn secret_faults(name: &str, service: &Service) -> Vec<String> {
    let mut faults = Vec::new();
    for (secret, owners) in OWNERS {
        if service.secrets.iter().any(|mounted| mounted == secret) && !owners.contains(&name) {
            faults.push(format!("mounts {secret}"));
        }
    }
    let is_folder = |mount: &Mount| match mount {
        Mount::Host(source) => ["secrets", "keys"].iter().any(|name| source.trim_end_matches('/').ends_with(name)),
        Mount::Volume(_) | Mount::Memory => false,
    };
    if service.mounts.values().any(is_folder) {
        faults.push("mounts all secrets".to_owned());
    }
    faults
}

fn network_faults(name: &str, value: &Value, service: &Service, file: &ComposeFile) -> Vec<String> {
    let mut faults = Vec::new();
    for own in &service.networks {
        if !NETWORKS.iter().any(|(network, members)| own == network && members.contains(&name)) {
            faults.push(format!("is on {own}"));
        }
    }
    let hosts = file.services.iter().filter(|(other, _)| {
        let host = format!("{other}:");
        let is_named = |value: &String| value.split(['/', ',', '@']).any(|part| part.starts_with(&host));
        // A service that runs to completion needs no health check.
        let is_waited_for =
            service.depends_on.get(*other).is_some_and(|until| until != "service_completed_successfully");
        is_waited_for || service.environment.values().any(is_named)
    });
    for (host, other) in hosts {
        if !other.networks.iter().any(|network| service.networks.contains(network)) {
            faults.push(format!("shares no network with {host}"));
        }
    }
    for port in texts(&value["ports"]) {
        if !port.starts_with("127.0.0.1:") {
            faults.push(format!("the port {port} is open to other machines"));
        }
    }
    faults
}
