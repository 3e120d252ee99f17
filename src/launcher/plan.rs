//! Which processes there are, and their command lines. Paths are relative to the data folder.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ferrite_kit::net::Address;

use super::{UpArgs, keys};

/// Where keys are.
pub(super) const KEYS: &str = "keys";
/// The database of repo-svc.
pub(super) const REPO_DATABASE: &str = "sqlite://repo.db";
/// What `--grpc-tcp` opens.
pub(super) const GRPC_PORTS: &[(&str, &str)] = &[
    ("repo-svc", "127.0.0.1:7001"),
    ("issue-svc", "127.0.0.1:7002"),
    ("hook-svc", "127.0.0.1:7003"),
    ("git-svc", "127.0.0.1:7004"),
];
/// Variables of the launcher that children see as well; everything else is on their command lines.
const INHERITED: &[&str] = &["PATH", "LANG", "LC_ALL", "TZ", "RUST_BACKTRACE"];

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    /// The role, which is also the first argument.
    pub(super) role: &'static str,
    /// The arguments after it.
    pub(super) arguments: Vec<String>,
    /// The whole environment.
    pub(super) environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    /// Its private listener.
    pub(super) admin: Address,
}

/// All processes.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// In groups: those of a group stop together, one group after the other.
    pub(super) groups: Vec<Vec<Spec>>,
    http: SocketAddr,
}

impl Plan {
    /// The processes that serve `http` and `ssh`.
    pub(super) fn new(args: &UpArgs, http: SocketAddr, ssh: SocketAddr) -> Self {
        let public_url = args.public_url.clone().unwrap_or_else(|| format!("http://{}", shown(http)));
        let public_ssh = args.public_ssh.clone().unwrap_or_else(|| shown(ssh).to_string());
        let builder = Builder { args, public_url, public_ssh };
        let services = ["repo", "issue", "hook", "git"].map(|name| (format!("--{name}-address"), socket(name)));
        let links = |names: &[&str]| -> Vec<String> {
            services
                .iter()
                .filter(|(flag, _)| names.iter().any(|name| *flag == format!("--{name}-address")))
                .flat_map(|(flag, address)| [flag.clone(), address.clone()])
                .collect()
        };
        let git_over_ssh = strings(&["--ssh-listen", &ssh.to_string(), "--ssh-host-key-folder", KEYS]);
        let all = links(&["repo", "issue", "hook", "git"]);
        let gateway = builder.spec("gateway", &http.to_string(), [all, builder.urls(), git_over_ssh]);
        let issue = builder.service("issue-svc", "issue", [links(&["repo"]), database("issue")]);
        let hook = builder.service("hook-svc", "hook", [links(&["repo"]), database("hook")]);
        let store = strings(&["--store-path", "git", "--store", "default"]);
        let git = builder.service("git-svc", "git", [links(&["repo"]), database("git"), store]);
        let signing = vec!["--grant-key-file".to_owned(), format!("{KEYS}/{}", keys::GRANT)];
        let store = strings(&["--store", "default", "--database-url", REPO_DATABASE]);
        let links = links(&["issue", "hook", "git"]);
        let repo = builder.service("repo-svc", "repo", [links, store, signing, builder.urls()]);
        Self { groups: vec![vec![gateway], vec![issue, hook], vec![git], vec![repo]], http }
    }

    /// The names of all roles.
    pub(super) fn roles(&self) -> Vec<&'static str> {
        self.groups.iter().flatten().map(|spec| spec.role).collect()
    }

    /// The HTTP address as a client on this machine may use it.
    pub(super) fn shown(&self) -> SocketAddr {
        shown(self.http)
    }
}

/// Threads of each process. They share the machine: most requests are worked on by one of them at a time, and a thread that is woken
/// for nothing costs more than the work of a small request.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).div_ceil(2)
}

/// An address that stands for all of the machine's cannot be connected to everywhere: the loopback one can.
fn shown(address: SocketAddr) -> SocketAddr {
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

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn database(name: &str) -> Vec<String> {
    vec!["--database-url".to_owned(), format!("sqlite://{name}.db")]
}

struct Builder<'a> {
    args: &'a UpArgs,
    public_url: String,
    public_ssh: String,
}

impl Builder<'_> {
    fn service<const N: usize>(&self, role: &'static str, name: &str, own: [Vec<String>; N]) -> Spec {
        let tcp = GRPC_PORTS.iter().find(|(other, _)| *other == role).map(|(_, address)| *address);
        let listen = match tcp {
            Some(address) if self.args.grpc_tcp => format!("{},{address}", socket(name)),
            _ => socket(name),
        };
        self.spec(role, &listen, own)
    }

    fn spec<const N: usize>(&self, role: &'static str, listen: &str, own: [Vec<String>; N]) -> Spec {
        let admin = format!("run/{}.admin.sock", role.trim_end_matches("-svc"));
        // Children get half of the launcher's time each: the other groups have to stop after them.
        let grace = (self.args.grace.as_secs() / 2).max(1).to_string();
        let mut arguments = strings(&["--listen", listen, "--admin-listen", &format!("unix:{admin}")]);
        arguments.extend(strings(&["--stop-with-stdin", "--grace", &grace, "--workers", &workers().to_string()]));
        arguments.extend(strings(&["--service-key-file", &format!("{KEYS}/{}", keys::SERVICE)]));
        arguments.extend(strings(&["--grant-public-key-file", &format!("{KEYS}/{}", keys::GRANT_PUBLIC)]));
        arguments.extend(self.telemetry());
        arguments.extend(own.into_iter().flatten());
        Spec { role, arguments, environment: environment(role), admin: Address::Unix(admin.into()) }
    }

    fn telemetry(&self) -> Vec<String> {
        let telemetry = &self.args.telemetry;
        let mut arguments = vec!["--log".to_owned(), telemetry.log.clone()];
        if let Some(format) = telemetry.log_format {
            let format = match format {
                ferrite_kit::config::LogFormat::Text => "text",
                ferrite_kit::config::LogFormat::Json => "json",
            };
            arguments.extend(strings(&["--log-format", format]));
        }
        if let Some(endpoint) = &telemetry.otlp_endpoint {
            arguments.extend(strings(&["--otlp-endpoint", endpoint]));
        }
        arguments
    }

    fn urls(&self) -> Vec<String> {
        strings(&["--public-url", &self.public_url, "--ssh", &self.public_ssh])
    }
}

/// What a child of this role sees: a few general variables, and the settings that bear its own name (`FERRITE_GIT_…`).
fn environment(role: &str) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let prefix = format!("FERRITE_{}_", role.trim_end_matches("-svc").to_uppercase());
    std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| INHERITED.contains(&name) || name.starts_with(&prefix)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_whole_machine_is_shown_as_the_loopback_one() {
        let shown = |text: &str| shown(text.parse().unwrap()).to_string();
        assert_eq!(shown("0.0.0.0:3000"), "127.0.0.1:3000");
        assert_eq!(shown("[::]:3000"), "[::1]:3000");
        assert_eq!(shown("192.0.2.7:80"), "192.0.2.7:80");
    }
}
