//! An installation: five processes and their data.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ferrite_core::net::Address;
use ferrite_proto::ServiceRole;

use super::client::User;
use super::network::Network;
use super::postgres::Postgres;
use super::process::{Lines, Process, child_of, send};
use super::servers::{self, Redis};

pub(crate) const ADMIN: (&str, &str) = ("root-admin", "correct horse battery");
pub(super) const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for a response of a private listener, whose process may be paused.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
const SSH_PORT: u16 = 2222;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// `ferrite up`: SQLite, no Redis, Unix sockets.
    Embedded,
    /// PostgreSQL and Redis, one process per role, TCP.
    Production,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Repo,
    Issue,
    Hook,
    Git,
    Gateway,
}

impl Role {
    /// The roles with a database, then the gateway.
    pub(crate) const ALL: [Self; 5] = [Self::Repo, Self::Issue, Self::Hook, Self::Git, Self::Gateway];

    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Repo => "repo-svc",
            Self::Issue => "issue-svc",
            Self::Hook => "hook-svc",
            Self::Git => "git-svc",
            Self::Gateway => "gateway",
        }
    }

    pub(crate) fn service_role(self) -> ServiceRole {
        ServiceRole::parse(self.command()).unwrap()
    }

    /// Short name for files and databases.
    pub(crate) fn name(self) -> &'static str {
        self.command().trim_end_matches("-svc")
    }

    pub(super) fn port(self) -> u16 {
        match self {
            Self::Repo => 7001,
            Self::Issue => 7002,
            Self::Hook => 7003,
            Self::Git => 7004,
            Self::Gateway => 3000,
        }
    }
}

/// Differences from a default installation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Only for the production profile.
    pub(crate) without_redis: bool,
    /// Endpoint for exported traces.
    pub(crate) otlp: Option<String>,
    /// For all processes.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    /// Keep the data on a disk, where syncing a file takes time.
    pub(crate) on_disk: bool,
    /// Processes of gateway, repo-svc, issue-svc and hook-svc each, in the production profile; 0
    /// counts as 1.
    pub(crate) replicas: usize,
    /// Processes of git-svc in the production profile, each with its own store: `git-0`, `git-1`,
    /// …. With 0 there is one, whose store has the default name.
    pub(crate) stores: usize,
    /// Run the production profile on a separate PostgreSQL server, which the test may stop.
    pub(crate) own_postgres: bool,
    /// Run the last store in a separate network namespace, which the test can cut off. Needs root,
    /// a separate PostgreSQL server, and more stores than replicas.
    pub(crate) own_network: bool,
}

pub(super) enum Processes {
    Launcher(Mutex<Process>),
    /// By role and number.
    Roles(Mutex<HashMap<(Role, usize), Process>>),
}

/// A running installation. Dropping it stops everything it started.
pub(crate) struct Cluster {
    pub(crate) profile: Profile,
    pub(crate) url: String,
    /// Loopback addresses: process N of each role listens on address N.
    pub(crate) hosts: Vec<String>,
    pub(crate) folder: PathBuf,
    pub(super) admin_token: tokio::sync::OnceCell<String>,
    pub(super) outsider: tokio::sync::OnceCell<User>,
    pub(super) processes: Processes,
    pub(super) redis: Mutex<Option<Redis>>,
    pub(super) postgres: Option<Mutex<Postgres>>,
    pub(super) network: Option<Mutex<Network>>,
    databases: HashMap<Role, String>,
    pub(super) store_databases: Vec<String>,
    pub(super) log: Lines,
    pub(super) options: Options,
}

/// Removes the limits on writes, except in tests of these limits.
const NO_HOURLY_LIMITS: [(&str, &str); 6] = [
    ("FERRITE_WRITES_PER_HOUR", "0"),
    ("FERRITE_WRITE_BYTES_PER_HOUR", "0"),
    ("FERRITE_ISSUE_ISSUES_PER_HOUR", "0"),
    ("FERRITE_ISSUE_COMMENTS_PER_HOUR", "0"),
    ("FERRITE_ISSUE_TEXT_BYTES_PER_HOUR", "0"),
    ("FERRITE_HOOK_CREATIONS_PER_HOUR", "0"),
];

/// The released binary, with a clean environment.
pub(crate) fn ferrite() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite"));
    let path = std::env::vars_os().find(|(name, _)| name == "PATH").unwrap_or_default().1;
    command.env_clear().env("PATH", path).env("FERRITE_LOG", "info").env("RUST_BACKTRACE", "1").envs(NO_HOURLY_LIMITS);
    command
}

impl Cluster {
    /// Starts an installation and waits until it is ready. Blocks, so async code must not call it.
    pub(crate) fn start(profile: Profile, options: &Options) -> Self {
        Self::start_in(profile, options, |_| {})
    }

    /// Like [`Self::start`], but first runs `prepare` on the folder of the installation.
    pub(crate) fn start_in(profile: Profile, options: &Options, prepare: impl FnOnce(&Path)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let parent = if options.on_disk { servers::folder_on_disk() } else { servers::folder() };
        let folder = parent.join(NEXT.fetch_add(1, Ordering::SeqCst).to_string());
        std::fs::create_dir(&folder).unwrap();
        prepare(&folder);
        match profile {
            Profile::Embedded => Self::embedded(folder, options),
            Profile::Production => Self::production(folder, options),
        }
    }

    fn embedded(folder: PathBuf, options: &Options) -> Self {
        let log = Lines::default();
        let host = servers::address();
        let data = folder.join("data");
        let mut command = ferrite();
        command.args(["up", "--stop-with-stdin", "--http", &format!("{host}:0"), "--data"]).arg(&data);
        command.args(["--ssh", &format!("{host}:{SSH_PORT}")]);
        command.envs([("FERRITE_ADMIN_USERNAME", ADMIN.0), ("FERRITE_ADMIN_PASSWORD", ADMIN.1)]);
        command.envs(options.settings.iter().copied());
        if let Some(endpoint) = &options.otlp {
            command.envs([("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "300")]);
        }
        let process = Process::start(&mut command, &log);
        let ready = process.out.wait_for(PROCESS_TIMEOUT, |line| line.starts_with("ready: "));
        let ready = ready.unwrap_or_else(|| panic!("`ferrite up` does not become ready:\n{}", log.all().join("\n")));
        let databases = Role::ALL[..4]
            .iter()
            .map(|role| (*role, format!("sqlite://{}", data.join(format!("{}.db", role.name())).display())));
        Self {
            profile: Profile::Embedded,
            url: ready.trim_start_matches("ready: ").to_owned(),
            hosts: vec![host],
            folder,
            admin_token: tokio::sync::OnceCell::new(),
            outsider: tokio::sync::OnceCell::new(),
            processes: Processes::Launcher(Mutex::new(process)),
            redis: Mutex::new(None),
            postgres: None,
            network: None,
            databases: databases.collect(),
            store_databases: Vec::new(),
            log,
            options: options.clone(),
        }
    }

    fn production(folder: PathBuf, options: &Options) -> Self {
        // One more address than named stores, for a store that a test adds.
        let count = options.replicas.max(if options.stores == 0 { 1 } else { options.stores + 1 });
        let network = options.own_network.then(Network::start);
        let mut next = 0;
        let mut address = || {
            next += 1;
            network.as_ref().map_or_else(servers::address, |network| network.outside(next))
        };
        let mut hosts: Vec<_> = (0..count.max(1)).map(|_| address()).collect();
        if let Some(network) = &network {
            hosts[options.stores - 1] = network.inside();
        }
        let prefix = format!("ferrite_{}", hosts[0].replace('.', "_"));
        let postgres = options.own_postgres.then(|| Postgres::start_at(address()));
        let redis = (!options.without_redis).then(|| Redis::start_with_users(address(), &folder.join("redis-secrets")));
        let server = postgres.as_ref().map_or_else(|| servers::postgres().to_owned(), Postgres::url);
        let database = |name: &str| servers::database_on(&server, &format!("{prefix}_{name}"));
        let databases = Role::ALL[..4].iter().map(|role| (*role, database(role.name())));
        let databases: HashMap<_, _> = databases.collect();
        let names = if options.stores == 0 { 0..0 } else { 0..options.stores + 1 };
        let store_databases = names.map(|number| database(&format!("git_{number}"))).collect();
        make_keys(&folder);
        let cluster = Self {
            profile: Profile::Production,
            url: format!("http://{}:{}", hosts[0], Role::Gateway.port()),
            hosts,
            folder,
            admin_token: tokio::sync::OnceCell::new(),
            outsider: tokio::sync::OnceCell::new(),
            processes: Processes::Roles(Mutex::default()),
            redis: Mutex::new(redis),
            postgres: postgres.map(Mutex::new),
            network: network.map(Mutex::new),
            databases,
            store_databases,
            log: Lines::default(),
            options: options.clone(),
        };
        cluster.administer(&["create-user", "--admin", "--email", "root@example.com", "--username", ADMIN.0]);
        for number in 0..options.stores {
            cluster.administer(&["store", "add", &cluster.store_name(number)]);
        }
        let processes = cluster.processes();
        for (role, number) in &processes {
            cluster.start_replica(*role, *number);
        }
        for (role, number) in processes {
            cluster.wait_replica_ready(role, number);
        }
        cluster
    }

    pub(crate) fn administer(&self, arguments: &[&str]) -> String {
        let mut admin = ferrite();
        admin.arg("admin").args(arguments);
        admin.envs([("FERRITE_USER_PASSWORD", ADMIN.1), ("FERRITE_DATABASE_URL", &self.databases[&Role::Repo])]);
        let done = admin.output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// The command of a production process that listens on `own_host`, for clients that use
    /// `public_url`.
    pub(super) fn role_command(&self, role: Role, own_host: &str, public_url: &str) -> Command {
        self.replica_command(role, 0, own_host, public_url)
    }

    /// Like [`Self::role_command`], with the data of the process with this number.
    pub(super) fn replica_command(&self, role: Role, number: usize, own_host: &str, public_url: &str) -> Command {
        let ssh = format!("{own_host}:{SSH_PORT}");
        let mut command = ferrite();
        command.current_dir(&self.folder).arg(role.command()).arg("--stop-with-stdin");
        command.envs(self.options.settings.iter().copied());
        command.args(["--listen", &format!("{own_host}:{}", role.port())]);
        command.args(["--admin-listen", &format!("{own_host}:{}", role.port() + 2000)]);
        command.args(["--service-key-file", &format!("{}.pem", role.command()), "--service-public-keys", "public"]);
        command.args(["--grant-public-key-file", "grant.pub.pem"]);
        if let Some(redis) = &*self.redis.lock().unwrap() {
            command.args(redis.flags(role.name()));
        }
        if let Some(endpoint) = &self.options.otlp {
            command.envs([("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "300")]);
        }
        let database = self.store_databases.get(number).filter(|_| role == Role::Git);
        if let Some(url) = database.or_else(|| self.databases.get(&role)) {
            command.args(["--database-url", url, "--database-connections", "6"]);
        }
        let links: &[Role] = match role {
            Role::Gateway => &Role::ALL[..4],
            Role::Repo => &[Role::Issue, Role::Hook, Role::Git],
            Role::Issue => &[Role::Repo, Role::Hook, Role::Git],
            Role::Git => &[Role::Repo, Role::Issue, Role::Hook],
            Role::Hook => &[Role::Repo, Role::Git],
        };
        for link in links {
            command.args([format!("--{}-address", link.name()), self.addresses(*link)]);
        }
        if matches!(role, Role::Hook | Role::Git) {
            command.args(["--secret-key-file", &format!("{}-sealing.key", role.name())]);
        }
        if matches!(role, Role::Gateway | Role::Repo | Role::Hook) {
            command.args(["--public-url", public_url, "--ssh", &ssh]);
        }
        match role {
            Role::Gateway => command.args(["--ssh-listen", &ssh, "--ssh-host-key-folder", "host-keys"]),
            Role::Repo => command.args(["--grant-key-file", "grant.pem"]),
            Role::Git => command.args(["--store-path".into(), self.store_folder(number)]),
            _ => &mut command,
        };
        if role == Role::Git && self.options.stores > 0 {
            command.env("FERRITE_GIT_STORE", self.store_name(number));
        }
        command
    }

    pub(crate) fn log(&self) -> &Lines {
        &self.log
    }

    pub(crate) fn address(&self, role: Role) -> Address {
        match self.profile {
            Profile::Embedded if role == Role::Gateway => self.url.parse().unwrap(),
            Profile::Embedded => Address::Unix(self.folder.join(format!("data/run/{}.sock", role.name()))),
            Profile::Production => Address::Tcp(format!("{}:{}", self.hosts[0], role.port())),
        }
    }

    pub(crate) fn ssh(&self) -> String {
        self.ssh_of(0)
    }

    /// Host and port of git over SSH, at the gateway with this number.
    pub(crate) fn ssh_of(&self, number: usize) -> String {
        format!("{}:{SSH_PORT}", self.hosts[number])
    }

    /// Database URL of a role; for git-svc, of its first process.
    pub(crate) fn database(&self, role: Role) -> &str {
        let first = self.store_databases.first().filter(|_| role == Role::Git);
        first.unwrap_or_else(|| &self.databases[&role])
    }

    pub(crate) fn keys(&self) -> PathBuf {
        match self.profile {
            Profile::Embedded => self.folder.join("data/keys"),
            Profile::Production => self.folder.clone(),
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        match self.profile {
            Profile::Embedded => self.folder.join("data/git"),
            Profile::Production => self.store_folder(0),
        }
    }

    pub(crate) fn process_id(&self, role: Role) -> Option<u32> {
        match &self.processes {
            Processes::Launcher(launcher) => child_of(launcher.lock().unwrap().id(), role.command()),
            Processes::Roles(processes) => processes.lock().unwrap().get(&(role, 0)).map(Process::id),
        }
    }

    /// Kills a process and waits until it runs again. In the embedded profile the launcher restarts
    /// it, otherwise this function.
    pub(crate) fn crash(&self, role: Role) {
        self.end_and_restart(role, rustix::process::Signal::KILL);
    }

    /// Like [`Self::crash`], but shuts the process down cleanly.
    pub(crate) fn restart(&self, role: Role) {
        self.end_and_restart(role, rustix::process::Signal::TERM);
    }

    fn end_and_restart(&self, role: Role, signal: rustix::process::Signal) {
        match &self.processes {
            Processes::Launcher(_) => {
                let id = self.process_id(role).unwrap_or_else(|| panic!("{role:?} is not running"));
                send(id, signal);
                let deadline = Instant::now() + PROCESS_TIMEOUT;
                while self.process_id(role).is_none_or(|now| now == id) {
                    assert!(Instant::now() < deadline, "the launcher did not restart {role:?}");
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            Processes::Roles(_) => {
                self.end_replica(role, 0, signal);
                self.start_replica(role, 0);
            }
        }
        self.wait_ready(role);
    }

    /// URL of this installation's Redis for tests, while it runs.
    pub(crate) fn redis_url(&self) -> Option<String> {
        self.redis.lock().unwrap().as_ref().map(Redis::url)
    }

    pub(crate) fn stop_redis(&self) {
        if let Some(mut redis) = self.redis.lock().unwrap().take() {
            redis.stop();
        }
    }

    pub(crate) fn wait_ready(&self, role: Role) {
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        while !self.is_ready(role) {
            assert!(Instant::now() < deadline, "{role:?} does not become ready:\n{}", self.log.all().join("\n"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_ready(&self, role: Role) -> bool {
        match self.profile {
            Profile::Embedded => {
                let socket = self.folder.join(format!("data/run/{}.admin.sock", role.name()));
                http_get(&Address::Unix(socket), "/readyz").is_some_and(|response| response.starts_with("HTTP/1.1 200"))
            }
            Profile::Production => self.is_replica_ready(role, 0),
        }
    }
}

pub(crate) fn http_get(address: &Address, path: &str) -> Option<String> {
    let question = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    let mut response = String::new();
    match address {
        Address::Tcp(authority) => {
            let address = authority.to_socket_addrs().ok()?.next()?;
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
            stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).ok()?;
            stream.write_all(question.as_bytes()).ok()?;
            stream.read_to_string(&mut response).ok()?;
        }
        Address::Unix(path) => {
            let mut stream = UnixStream::connect(path).ok()?;
            stream.write_all(question.as_bytes()).ok()?;
            stream.read_to_string(&mut response).ok()?;
        }
    }
    Some(response)
}

fn make_keys(folder: &Path) {
    let made = ferrite().arg("keys").arg(folder).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}
