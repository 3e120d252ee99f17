//! The services of the Compose file as processes of this machine.
//!
//! Each service gets a loopback address instead of a container, and a folder for its mounts. It
//! runs the command, environment and health check of the file, with service names replaced by
//! addresses and mount paths by local files. Services start in dependency order, as soon as the
//! health checks they wait for pass.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::file::{ComposeFile, Mount, Service};
use super::postgres;

const START_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const ADMIN_PASSWORD: &str = "correct-horse";
/// Ports in the URLs that `ferrite secrets` writes.
const POSTGRES_PORT: u16 = 5432;
const REDIS_PORT: u16 = 6379;

pub(super) struct Topology {
    folder: tempfile::TempDir,
    services: BTreeMap<String, Service>,
    addresses: BTreeMap<String, String>,
    processes: Vec<(String, Child)>,
}

impl Topology {
    /// Starts the services with an operator's variables: addresses of this machine.
    pub(super) fn start(defaults: &ComposeFile) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // PostgreSQL runs as another user and has its folder in here.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let addresses: BTreeMap<_, _> =
            defaults.services.keys().enumerate().map(|(number, name)| (name.clone(), address(number))).collect();
        let secrets = folder.path().join("secrets");
        std::fs::create_dir(&secrets).unwrap();
        std::fs::write(secrets.join("admin-password"), ADMIN_PASSWORD).unwrap();
        make_secrets(&secrets, &addresses);
        let gateway = &addresses["gateway"];
        let variables = BTreeMap::from([
            ("FERRITE_SECRETS".to_owned(), secrets.display().to_string()),
            ("FERRITE_PUBLIC_URL".to_owned(), format!("http://{gateway}:3000")),
            ("FERRITE_SSH".to_owned(), format!("{gateway}:2222")),
        ]);
        let file = ComposeFile::read(&super::text(super::COMPOSE_FILE), &variables).unwrap();
        let order = file.start_order().unwrap();
        let mut topology = Self { folder, services: file.services, addresses, processes: Vec::new() };
        for name in order {
            topology.start_service(&name);
        }
        topology.wait_all_healthy();
        topology
    }

    pub(super) fn public_address(&self) -> String {
        format!("{}:3000", self.addresses["gateway"])
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn start_service(&mut self, name: &str) {
        let service = self.services[name].clone();
        for (other, condition) in &service.depends_on {
            match condition.as_str() {
                "service_healthy" => self.wait_healthy(other),
                "service_completed_successfully" => self.wait_completed(other),
                other => panic!("{name}: unknown condition {other}"),
            }
        }
        if name == "postgres" {
            self.initialise_postgres(&service);
        }
        let mut command = if name == "postgres" {
            postgres::server(&self.own_folder(name), &self.mapped_words(name, &service.command), &self.addresses[name])
        } else {
            self.command(name, &service.command)
        };
        if name == "redis" {
            command.args(["--bind", &self.addresses[name]]).current_dir(self.own_folder(name));
        }
        let log = std::fs::File::create(self.log(name)).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        self.processes.push((name.to_owned(), process));
        if name == "postgres" {
            self.wait_healthy(name);
            self.run_init_script(&service);
        }
    }

    pub(super) fn run_to_end(&self, name: &str) -> String {
        let output = self.command(name, &self.services[name].command).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn initialise_postgres(&self, service: &Service) {
        let password = self.mapped("postgres", &service.environment["POSTGRES_PASSWORD_FILE"]);
        let arguments = &service.environment["POSTGRES_INITDB_ARGS"];
        postgres::initialise(&self.own_folder("postgres"), arguments, &password);
    }

    /// Runs the mounted init script twice: the second run changes nothing.
    fn run_init_script(&self, service: &Service) {
        let mounted = service.mounts.iter().find(|(path, _)| path.starts_with("/docker-entrypoint-initdb.d/"));
        let Some((_, Mount::Host(script))) = mounted else { panic!("no script for a new database") };
        for _ in 0..2 {
            let mut command = Command::new("sh");
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script)).env("PGHOST", self.own_folder("postgres"));
            command.env("FERRITE_SECRETS", self.folder.path().join("secrets"));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    }

    fn command(&self, name: &str, words: &[String]) -> Command {
        let words = self.mapped_words(name, words);
        let (program, arguments) = words.split_first().unwrap();
        let program = if program == "ferrite" { env!("CARGO_BIN_EXE_ferrite") } else { program };
        // Killed with the test.
        let mut command = Command::new("setpriv");
        command.arg("--pdeathsig=KILL").arg(program);
        let path = std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, path)| path);
        command.args(arguments).env_clear().env("PATH", path.unwrap_or_default());
        if self.services[name].image == self.services["gateway"].image {
            command
                .envs(image_environment().into_iter().map(|(variable, value)| (variable, self.mapped(name, &value))));
        }
        for (variable, value) in &self.services[name].environment {
            command.env(variable, self.mapped(name, value));
        }
        command
    }

    fn mapped_words(&self, name: &str, words: &[String]) -> Vec<String> {
        words.iter().map(|word| self.mapped(name, word)).collect()
    }

    /// Replaces mount paths by local files and service names by addresses.
    fn mapped(&self, name: &str, text: &str) -> String {
        let own = &self.addresses[name];
        let mut pairs = vec![("0.0.0.0".to_owned(), own.clone()), ("127.0.0.1".to_owned(), own.clone())];
        pairs.extend(self.addresses.iter().map(|(other, address)| (format!("{other}:"), format!("{address}:"))));
        for (target, mount) in &self.services[name].mounts {
            pairs.push((target.clone(), self.mounted(name, target, mount).display().to_string()));
        }
        // The longest first: a mount may be below another.
        pairs.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.len()));
        replace_words(text, &pairs)
    }

    fn mounted(&self, name: &str, target: &str, mount: &Mount) -> PathBuf {
        match mount {
            Mount::Host(source) => Path::new(env!("CARGO_MANIFEST_DIR")).join(source),
            Mount::Volume(_) | Mount::Memory => {
                let folder = self.own_folder(name).join(target.trim_start_matches('/'));
                std::fs::create_dir_all(&folder).unwrap();
                folder
            }
        }
    }

    fn own_folder(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join("services").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    fn wait_all_healthy(&mut self) {
        let names: Vec<_> = self.processes.iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            if self.services[&name].health.is_some() {
                self.wait_healthy(&name);
            }
        }
    }

    fn wait_healthy(&mut self, name: &str) {
        let check = self.services[name].health.clone().unwrap_or_else(|| panic!("{name} has no health check"));
        let words = match check.split_first() {
            Some((kind, words)) if kind == "CMD" => words.to_vec(),
            Some((kind, [script])) if kind == "CMD-SHELL" => vec!["sh".into(), "-c".into(), script.clone()],
            _ => panic!("{name}: {check:?}"),
        };
        self.wait(name, |topology| {
            let output = topology.command(name, &words).output().unwrap();
            output.status.success().then_some(()).ok_or_else(|| format!("{output:?}"))
        });
    }

    fn wait_completed(&mut self, name: &str) {
        let place = self.processes.iter().position(|(started, _)| started == name).unwrap();
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(status) = self.processes[place].1.try_wait().unwrap() {
                assert!(status.success(), "{name}: {status}: {}", self.log_text(name));
                return;
            }
            assert!(Instant::now() < deadline, "{name} did not exit: {}", self.log_text(name));
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn wait(&mut self, name: &str, check: impl Fn(&Self) -> Result<(), String>) {
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(reason) = check(self) {
            let ended = self.processes.iter_mut().find(|(started, _)| started == name);
            if let Some(status) = ended.and_then(|(_, process)| process.try_wait().unwrap()) {
                panic!("{name} ended: {status}: {}", self.log_text(name));
            }
            assert!(Instant::now() < deadline, "{name} is not healthy: {reason}\n{}", self.log_text(name));
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn log_text(&self, name: &str) -> String {
        std::fs::read_to_string(self.log(name)).unwrap_or_default()
    }

    /// Checks that each login can reach only its own database, with the password from its file.
    pub(super) fn check_accounts(&self) {
        let reach = |service: &str, database: &str| {
            let url =
                super::text(&self.folder.path().join(format!("secrets/{service}-database-url")).display().to_string());
            let url = url.trim_end().replace(&format!("/ferrite_{service}"), &format!("/{database}"));
            let output =
                Command::new("psql").args(["--no-psqlrc", "-Atc", "SELECT current_user", &url]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        for service in ["repo", "issue", "hook", "git"] {
            let login = format!("ferrite_{service}");
            assert_eq!(reach(service, &login), login);
            let other = if service == "repo" { "ferrite_issue" } else { "ferrite_repo" };
            assert_eq!(reach(service, other), "", "{login} reaches {other}");
        }
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        for (name, process) in self.processes.iter_mut().rev() {
            if name == "postgres" {
                // After SIGKILL, its child processes would live on for a moment.
                let _ = Command::new("kill").args(["-QUIT", &process.id().to_string()]).status();
            } else {
                let _ = process.kill();
            }
            let _ = process.wait();
        }
    }
}

/// Runs `ferrite secrets` twice: the second run generates nothing.
fn make_secrets(folder: &Path, addresses: &BTreeMap<String, String>) {
    for expected in ["created ", "nothing to generate"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite"));
        command.arg("secrets").arg(folder);
        command.args(["--postgres", &format!("{}:{POSTGRES_PORT}", addresses["postgres"])]);
        command.args(["--redis", &format!("{}:{REDIS_PORT}", addresses["redis"])]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(expected), "{output:?}");
        assert!(!text.contains(ADMIN_PASSWORD), "{text}");
    }
}

fn image_environment() -> Vec<(String, String)> {
    let dockerfile = super::text(concat!(env!("CARGO_MANIFEST_DIR"), "/Dockerfile"));
    let (_, last) = dockerfile.rsplit_once("\nFROM ").unwrap();
    let pairs = last.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A loopback address for a service, which no other test process uses.
fn address(number: usize) -> String {
    let id = std::process::id();
    format!("127.{}.{}.{}", 60 + number, id / 240 % 250 + 1, id % 240 + 10)
}

/// Replaces whole words, each place once.
fn replace_words(text: &str, pairs: &[(String, String)]) -> String {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let mut result = String::new();
    let mut rest = text;
    let mut previous = None;
    while let Some(first) = rest.chars().next() {
        let found = pairs.iter().find(|(pattern, _)| {
            let after = rest.strip_prefix(pattern.as_str()).map(|after| after.chars().next());
            let ends = after.is_some_and(|next| pattern.ends_with(':') || !next.is_some_and(is_word));
            ends && !previous.is_some_and(is_word)
        });
        let (taken, written) = match found {
            Some((pattern, replacement)) => (pattern.as_str(), replacement.as_str()),
            None => (&rest[..first.len_utf8()], &rest[..first.len_utf8()]),
        };
        result.push_str(written);
        previous = taken.chars().last();
        rest = &rest[taken.len()..];
    }
    result
}
