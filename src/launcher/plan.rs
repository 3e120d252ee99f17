//! The processes of an installation and their command lines. Paths are relative to the data folder.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::ArgMatches;
use ferrite_core::net::Address;

use super::args::UpArgs;
use super::keys;
use crate::output::Failure;
use crate::{role, usage};

pub(crate) const KEY_FOLDER: &str = "keys";
pub(crate) const REPO_DATABASE_FILE: &str = "repo.db";
pub(super) const REPO_DATABASE_URL: &str = "sqlite://repo.db";
pub(super) const GRPC_ADDRESSES: &[(&str, &str)] = &[
    ("repo-svc", "127.0.0.1:7001"),
    ("issue-svc", "127.0.0.1:7002"),
    ("hook-svc", "127.0.0.1:7003"),
    ("git-svc", "127.0.0.1:7004"),
];
/// Variables that all children inherit. Other settings are on their command lines.
const INHERITED_VARIABLES: &[&str] = &[
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "RUST_BACKTRACE",
    "FERRITE_EVENT_RETENTION_SECONDS",
    "FERRITE_RATE_LIMIT_COUNTERS",
    "FERRITE_SQLITE_VACUUM_BYTES",
    "FERRITE_WRITES_PER_HOUR",
    "FERRITE_WRITE_BYTES_PER_HOUR",
];

/// Settings that the launcher sets with flags, so their variables have no effect.
const DECIDED_VARIABLES: &[&str] = &[
    "FERRITE_GATEWAY_SSH_HOST_KEY_FOLDER",
    "FERRITE_GATEWAY_SSH_LISTEN",
    "FERRITE_GIT_STORE",
    "FERRITE_GIT_STORE_PATH",
    "FERRITE_REPO_GRANT_KEY_FILE",
    "FERRITE_REPO_STORE",
];

/// Prefix of the variables for the export of traces, which children inherit as well.
const TRACE_PREFIX: &str = "OTEL_";

#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) role: &'static str,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Private listener, which serves `/readyz`.
    pub(super) admin: Address,
}

impl Spec {
    /// Parses the settings in the same way as the process.
    fn parse(&self) -> Result<ArgMatches, Failure> {
        let command = role::command_line(self.role).unwrap_or_default();
        let is_withheld = |variable: &OsStr| variable.to_str().is_none_or(|name| !is_inherited(self.role, name));
        let parser = command.clone().mut_args(|argument| match argument.get_env().is_some_and(is_withheld) {
            true => argument.env(None::<&'static str>),
            false => argument,
        });
        let words = std::iter::once(self.role).chain(self.arguments.iter().map(String::as_str));
        let parsed = parser.try_get_matches_from(words);
        parsed.map_err(|error| Failure::of_settings(usage::message(&error, command)))
    }

    /// Checks settings and files in the same way as the process.
    fn check_files(&self) -> Result<(), Failure> {
        role::check_settings(self.role, &self.parse()?)
            .map_err(|error| Failure::of_settings(format!("{}: {error}", self.role)))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Groups in the order in which they stop. Processes of a group stop together.
    pub(super) groups: Vec<Vec<Spec>>,
    http_url: String,
}

impl Plan {
    pub(super) fn new(args: &UpArgs, http: SocketAddr, ssh: SocketAddr) -> Self {
        let http_url = format!("{}://{}", http_scheme(), connectable(http));
        let public_url = args.public_url.clone().unwrap_or_else(|| http_url.clone());
        let public_ssh = args.public_ssh.clone().unwrap_or_else(|| connectable(ssh).to_string());
        let builder = SpecBuilder { args, public_url, public_ssh };
        let address_flags = |names: &[&str]| -> Vec<String> {
            names.iter().flat_map(|name| [format!("--{name}-address"), socket(name)]).collect()
        };
        let git_over_ssh = strings(&["--ssh-listen", &ssh.to_string(), "--ssh-host-key-folder", KEY_FOLDER]);
        let all = address_flags(&["repo", "issue", "hook", "git"]);
        let gateway = builder.spec("gateway", &http.to_string(), [all, builder.urls(), git_over_ssh]);
        let issue = builder.service("issue-svc", "issue", [address_flags(&["repo", "hook", "git"]), database("issue")]);
        let sealing = |file: &str| vec!["--secret-key-file".to_owned(), format!("{KEY_FOLDER}/{file}")];
        let outbound = vec![format!("--outbound-allow={}", args.outbound_allow)];
        let peers = address_flags(&["repo", "git"]);
        let secrets = sealing(keys::HOOK_SEALING_KEY_FILE);
        let own = [peers, database("hook"), builder.urls(), secrets, outbound.clone()];
        let hook = builder.service("hook-svc", "hook", own);
        let store = strings(&["--store-path", "git", "--store", "default"]);
        let secrets = sealing(keys::GIT_SEALING_KEY_FILE);
        let program = args.git_program.iter().map(|program| format!("--git-program={}", program.display())).collect();
        let own =
            [address_flags(&["repo", "issue", "hook"]), database("git"), store, secrets, outbound.clone(), program];
        let git = builder.service("git-svc", "git", own);
        let signing = vec!["--grant-key-file".to_owned(), format!("{KEY_FOLDER}/{}", keys::GRANT_KEY_FILE)];
        let store = strings(&["--store", "default", "--database-url", REPO_DATABASE_URL]);
        let peers = address_flags(&["issue", "hook", "git"]);
        let repo = builder.service("repo-svc", "repo", [peers, store, signing, builder.urls(), outbound]);
        Self { groups: vec![vec![gateway], vec![issue, hook], vec![git], vec![repo]], http_url }
    }

    pub(super) fn check(&self) -> Result<(), Failure> {
        self.groups.iter().flatten().try_for_each(|spec| spec.parse().map(drop))
    }

    /// Checks settings and files of all processes. Needs the keys, and the data folder as the
    /// working directory.
    pub(super) fn check_files(&self) -> Result<(), Failure> {
        self.groups.iter().flatten().try_for_each(Spec::check_files)
    }

    pub(super) fn roles(&self) -> Vec<&'static str> {
        self.groups.iter().flatten().map(|spec| spec.role).collect()
    }

    /// The root URL for clients on this machine.
    pub(super) fn http_url(&self) -> &str {
        &self.http_url
    }
}

/// Half of the cores, because the processes share the machine. Most requests keep one process busy
/// at a time, and waking an idle thread costs more than a small request.
fn worker_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).div_ceil(2)
}

/// Replaces an unspecified address (`0.0.0.0`, `::`), which not every system can connect to, by the
/// loopback address.
pub(crate) fn connectable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn socket(name: &str) -> String {
    format!("unix:run/{name}.sock")
}

fn admin_socket(role: &str) -> String {
    format!("run/{}.admin.sock", role.trim_end_matches("-svc"))
}

/// Returns each role with the address of its private listener, relative to the data folder.
pub(crate) fn admin_sockets() -> impl Iterator<Item = (&'static str, Address)> {
    let services = GRPC_ADDRESSES.iter().map(|(role, _)| *role);
    services.chain(["gateway"]).map(|role| (role, Address::Unix(admin_socket(role).into())))
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn database(name: &str) -> Vec<String> {
    vec!["--database-url".to_owned(), format!("sqlite://{name}.db")]
}

struct SpecBuilder<'a> {
    args: &'a UpArgs,
    public_url: String,
    public_ssh: String,
}

impl SpecBuilder<'_> {
    fn service<const N: usize>(&self, role: &'static str, name: &str, role_arguments: [Vec<String>; N]) -> Spec {
        let tcp = GRPC_ADDRESSES.iter().find(|(other, _)| *other == role).map(|(_, address)| *address);
        let listen = match tcp {
            Some(address) if self.args.grpc_tcp => format!("{},{address}", socket(name)),
            _ => socket(name),
        };
        self.spec(role, &listen, role_arguments)
    }

    fn spec<const N: usize>(&self, role: &'static str, listen: &str, role_arguments: [Vec<String>; N]) -> Spec {
        let admin = admin_socket(role);
        // Half of the launcher's grace period, because the groups stop one after the other.
        let grace = (self.args.grace.as_secs() / 2).max(1).to_string();
        let mut arguments = strings(&["--listen", listen, "--admin-listen", &format!("unix:{admin}")]);
        arguments.extend(strings(&[
            "--stop-with-stdin",
            "--grace",
            &grace,
            "--workers",
            &worker_threads().to_string(),
        ]));
        arguments.extend(strings(&["--service-key-file", &format!("{KEY_FOLDER}/{role}.pem")]));
        let public_keys = format!("{KEY_FOLDER}/{}", keys::SERVICE_PUBLIC_FOLDER);
        arguments.extend(strings(&["--service-public-keys", &public_keys]));
        arguments
            .extend(strings(&["--grant-public-key-file", &format!("{KEY_FOLDER}/{}", keys::GRANT_PUBLIC_KEY_FILE)]));
        arguments.extend(self.telemetry());
        arguments.extend(role_arguments.into_iter().flatten());
        Spec { role, arguments, environment: environment(role), admin: Address::Unix(admin.into()) }
    }

    fn telemetry(&self) -> Vec<String> {
        let telemetry = &self.args.telemetry;
        let mut arguments = vec!["--log".to_owned(), telemetry.log.clone()];
        if let Some(format) = telemetry.log_format {
            let format = match format {
                ferrite_core::config::LogFormat::Text => "text",
                ferrite_core::config::LogFormat::Json => "json",
            };
            arguments.extend(strings(&["--log-format", format]));
        }
        arguments
    }

    fn urls(&self) -> Vec<String> {
        strings(&["--public-url", &self.public_url, "--ssh", &self.public_ssh])
    }
}

/// Returns the scheme that the gateway will serve, based on the variables it inherits.
fn http_scheme() -> &'static str {
    let has_tls =
        |(name, value): &(OsString, OsString)| name == "FERRITE_GATEWAY_TLS_CERTIFICATE_FILE" && !value.is_empty();
    if environment("gateway").iter().any(has_tls) { "https" } else { "http" }
}

fn environment(role: &str) -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| is_inherited(role, name))).collect()
}

/// Returns whether a child inherits a variable: general ones, those of traces, and the settings of
/// its role (such as `FERRITE_GIT_…`).
fn is_inherited(role: &str, name: &str) -> bool {
    let prefix = format!("FERRITE_{}_", role.trim_end_matches("-svc").to_uppercase());
    INHERITED_VARIABLES.contains(&name) || name.starts_with(TRACE_PREFIX) || name.starts_with(&prefix)
}

/// Returns whether a variable takes effect in the child with this role.
pub(crate) fn is_passed_on(role: &str, variable: &str) -> bool {
    is_inherited(role, variable) && !DECIDED_VARIABLES.contains(&variable)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Outer {
        #[command(flatten)]
        up: UpArgs,
    }

    fn plan(flags: &[&str]) -> Plan {
        let outer = Outer::try_parse_from([&["up"], flags].concat()).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        Plan::new(&outer.up, address, address)
    }

    #[test]
    fn what_the_launcher_decides_is_not_passed_on() {
        let plan = plan(&["--git-program=/opt/git/bin/git"]);
        let mut decided = Vec::new();
        for spec in plan.groups.iter().flatten() {
            let command = role::command_line(spec.role).unwrap();
            let is_set = |flag: &str| {
                let prefix = format!("--{flag}=");
                spec.arguments.iter().any(|word| word.strip_prefix("--") == Some(flag) || word.starts_with(&prefix))
            };
            let set = command.get_arguments().filter(|argument| argument.get_long().is_some_and(is_set));
            let variables = set.filter_map(|argument| argument.get_env().and_then(OsStr::to_str));
            let inherited = variables.filter(|variable| is_inherited(spec.role, variable)).map(str::to_owned);
            decided.extend(inherited.collect::<Vec<_>>());
        }
        decided.sort_unstable();
        // Also a setting of the launcher.
        decided.retain(|variable| variable != "FERRITE_GIT_PROGRAM");
        assert_eq!(decided, DECIDED_VARIABLES);
    }

    #[test]
    fn git_svc_gets_the_git_program() {
        let given = |plan: &Plan| {
            let words = plan.groups.iter().flatten().flat_map(|spec| &spec.arguments);
            words.filter(|word| word.starts_with("--git-program")).cloned().collect::<Vec<_>>()
        };
        assert_eq!(given(&plan(&["--git-program=/opt/git/bin/git"])), ["--git-program=/opt/git/bin/git"]);
        let refusal = Outer::try_parse_from(["up", "--git-program=bin/git"]).map(drop).unwrap_err().to_string();
        assert!(refusal.contains("absolute path"), "{refusal}");
    }

    #[test]
    fn an_unspecified_address_becomes_the_loopback_address() {
        let connectable = |text: &str| connectable(text.parse().unwrap()).to_string();
        assert_eq!(connectable("0.0.0.0:3000"), "127.0.0.1:3000");
        assert_eq!(connectable("[::]:3000"), "[::1]:3000");
        assert_eq!(connectable("192.0.2.7:80"), "192.0.2.7:80");
    }

    #[test]
    fn a_child_has_the_variables_of_its_own_role() {
        for (role, name, expected) in [
            ("git-svc", "FERRITE_GIT_MAX_PUSH_REFS", true),
            ("hook-svc", "FERRITE_GIT_MAX_PUSH_REFS", false),
            ("gateway", "FERRITE_GATEWAY_UPLOADS", true),
            ("hook-svc", "FERRITE_WRITES_PER_HOUR", true),
            ("hook-svc", "OTEL_SERVICE_NAME", true),
            ("hook-svc", "FERRITE_DATABASE_URL", false),
        ] {
            assert_eq!(is_inherited(role, name), expected, "{role} {name}");
        }
    }
}
