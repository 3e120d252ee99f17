//! Starts that cannot succeed yet, or at all. Invalid settings end a process with one line before
//! it binds an address. For unreachable servers and schemas of other versions it waits, with a
//! reason at `/readyz`.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ferrite_core::net::Address;
use rustix::process::Signal;
use sqlx::Connection;

use crate::harness::Role;
use crate::harness::certificates::Authority;
use crate::harness::cluster::{ferrite, http_get};
use crate::harness::process::{Lines, Process};
use crate::harness::servers::{self, Redis};

const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);
const USAGE_STATUS: i32 = 2;
const FAILURE_STATUS: i32 = 1;

/// Files and addresses of issue-svc, the service with the fewest dependencies.
struct Service {
    folder: PathBuf,
    host: String,
}

struct Running {
    process: Process,
    log: Lines,
    admin: Address,
    listen: String,
}

impl Service {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(servers::folder()).unwrap().keep();
        let made = ferrite().arg("keys").arg(&folder).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Self { folder, host: servers::address() }
    }

    /// A new database, with `name` in its name.
    fn database(&self, name: &str) -> String {
        servers::database(&self.database_name(name))
    }

    fn database_name(&self, name: &str) -> String {
        format!("startup_{name}_{}", self.host.replace('.', "_"))
    }

    fn command(&self, role: Role) -> Command {
        let mut command = ferrite();
        command.current_dir(&self.folder).arg(role.command()).arg("--stop-with-stdin");
        command.env("FERRITE_LISTEN", format!("{}:7002", self.host));
        command.env("FERRITE_ADMIN_LISTEN", format!("{}:9002", self.host));
        command.env("FERRITE_SERVICE_KEY_FILE", format!("{}.pem", role.command()));
        command.env("FERRITE_SERVICE_PUBLIC_KEYS", "public").env("FERRITE_GRANT_PUBLIC_KEY_FILE", "grant.pub.pem");
        for peer in ["REPO", "ISSUE", "HOOK", "GIT"] {
            command.env(format!("FERRITE_{peer}_ADDRESS"), "127.0.0.1:1");
        }
        command.env("FERRITE_PUBLIC_URL", "http://127.0.0.1:3000").env("FERRITE_SECRET_KEY_FILE", "git-sealing.key");
        command.env("FERRITE_REPO_GRANT_KEY_FILE", "grant.pem").env("FERRITE_GIT_STORE_PATH", "git");
        command
    }

    fn start(&self, settings: &[(&str, &str)]) -> Running {
        let mut command = self.command(Role::Issue);
        command.envs(settings.iter().copied());
        let log = Lines::default();
        let admin = Address::Tcp(format!("{}:9002", self.host));
        Running { process: Process::start(&mut command, &log), log, admin, listen: format!("{}:7002", self.host) }
    }
}

impl Running {
    /// Status and body of a response of the private listener.
    fn get(&self, path: &str) -> Option<(u16, String)> {
        let response = http_get(&self.admin, path)?;
        let status = response.split(' ').nth(1)?.parse().ok()?;
        Some((status, response.split_once("\r\n\r\n")?.1.to_owned()))
    }

    /// Waits until the process is alive but not ready, for a reason that contains all of `parts`,
    /// and refuses its clients.
    #[track_caller]
    fn waits_for(&self, parts: &[&str]) {
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        let said = loop {
            let said = self.get("/readyz");
            if let Some((503, reason)) = &said
                && parts.iter().all(|part| reason.contains(part))
            {
                break reason.clone();
            }
            assert!(Instant::now() < deadline, "{said:?}\n{}", self.log.all().join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(self.get("/livez"), Some((200, "ok".to_owned())));
        assert!(TcpStream::connect(&self.listen).is_err(), "clients are refused until it is ready");
        let line = self.log.wait_for(PROCESS_TIMEOUT, |line| parts.iter().all(|part| line.contains(part)));
        assert!(line.is_some_and(|line| line.contains("retrying in")), "{:#?}", self.log.all());
    }

    #[track_caller]
    fn becomes_ready(&self) {
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        while self.get("/readyz").is_none_or(|(status, _)| status != 200) {
            assert!(Instant::now() < deadline, "{:?}\n{}", self.get("/readyz"), self.log.all().join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(TcpStream::connect(&self.listen).is_ok());
    }

    fn warnings(&self) -> usize {
        self.log.all().iter().filter(|line| line.contains("retrying in")).count()
    }

    #[track_caller]
    fn stops(mut self) {
        self.process.signal(Signal::TERM);
        let started = Instant::now();
        let status = self.process.ended_within(PROCESS_TIMEOUT).expect("it ends");
        assert_eq!(status.code(), Some(0), "{:#?}", self.log.all());
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    }
}

#[track_caller]
fn outcome(command: &mut Command) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{command:?} did not exit: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Checks that a command ends with a status and prints only one line, which contains all of
/// `parts`.
#[track_caller]
fn refused(command: &mut Command, status: i32, parts: &[&str]) {
    let output = outcome(command);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), line.lines().count()), (Some(status), 1), "{line}");
    assert!(output.stdout.is_empty(), "it bound an address: {output:?}");
    assert!(line.starts_with("ferrite"), "{line}");
    for part in parts {
        assert!(line.contains(part), "`{part}` is not in: {line}");
    }
}

fn forward(listen: &str, target: SocketAddr) {
    let listener = TcpListener::bind(listen).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(target).unwrap();
            for (mut from, mut to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
}

fn server_of(url: &str) -> SocketAddr {
    url.rsplit_once('@').unwrap().1.split('/').next().unwrap().parse().unwrap()
}

fn execute(url: &str, statement: String) {
    let run = async {
        let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run);
}

#[test]
fn missing_and_wrong_settings_end_a_process_with_one_line() {
    let service = Service::new();
    for role in Role::ALL {
        let name = format!("ferrite {}: ", role.command());
        let missing = ["FERRITE_LISTEN", "FERRITE_SERVICE_KEY_FILE", "FERRITE_SERVICE_PUBLIC_KEYS"];
        refused(ferrite().arg(role.command()), USAGE_STATUS, &[&[name.as_str()], &missing[..]].concat());
        let url = ("FERRITE_DATABASE_URL", "sqlite://x.db");
        let with = |setting: &str, value: &str| {
            let mut command = service.command(role);
            if role != Role::Gateway {
                command.envs([url]);
            }
            command.env(setting, value);
            command
        };
        refused(&mut with("FERRITE_GRACE_SECONDS", "soon"), USAGE_STATUS, &["--grace (FERRITE_GRACE_SECONDS)", "soon"]);
        refused(&mut with("FERRITE_GRACE_SECONDS", "18446744073709551615"), USAGE_STATUS, &["FERRITE_GRACE_SECONDS"]);
        refused(&mut with("FERRITE_ADMIN_LISTEN", "9000"), USAGE_STATUS, &["FERRITE_ADMIN_LISTEN"]);
        refused(&mut with("FERRITE_LOG_FORMAT", "xml"), USAGE_STATUS, &["FERRITE_LOG_FORMAT", "json"]);
        refused(
            &mut with("FERRITE_SERVICE_KEY_FILE", "/nonexistent.pem"),
            FAILURE_STATUS,
            &["FERRITE_SERVICE_KEY_FILE", "/nonexistent.pem"],
        );
        let other = if role == Role::Repo { "git-svc.pem" } else { "repo-svc.pem" };
        refused(&mut with("FERRITE_SERVICE_KEY_FILE", other), FAILURE_STATUS, &[other, "does not belong"]);
        refused(
            &mut with("FERRITE_SERVICE_PUBLIC_KEYS", "/nonexistent"),
            FAILURE_STATUS,
            &["FERRITE_SERVICE_PUBLIC_KEYS"],
        );
        refused(
            &mut with("FERRITE_GRANT_PUBLIC_KEY_FILE", "git-sealing.key"),
            FAILURE_STATUS,
            &["FERRITE_GRANT_PUBLIC_KEY_FILE"],
        );
        for wrong in ["http://x", "rediss://127.0.0.1#insecure"] {
            refused(&mut with("FERRITE_REDIS_URL", wrong), FAILURE_STATUS, &["FERRITE_REDIS_URL"]);
        }
        let elsewhere = "redis://u:hunter2@redis.example.com:6379";
        let parts = ["redis.example.com:6379", "rediss://", "FERRITE_REDIS_PLAINTEXT"];
        refused(&mut with("FERRITE_REDIS_URL", elsewhere), FAILURE_STATUS, &parts);
        for (file, url) in [("/nonexistent", "rediss://redis.example.com"), ("git-sealing.key", "redis://127.0.0.1")] {
            let mut command = with("FERRITE_REDIS_URL", url);
            refused(command.env("FERRITE_REDIS_CA_FILE", file), FAILURE_STATUS, &["FERRITE_REDIS_CA_FILE"]);
        }
        refused(&mut with("FERRITE_LOG", "a=b=c"), USAGE_STATUS, &["--log (FERRITE_LOG)", "a=b=c"]);
        refused(&mut with("FERRITE_LISTEN", "192.0.2.1:1"), FAILURE_STATUS, &["192.0.2.1:1"]);
        if role != Role::Gateway {
            for wrong in ["mysql://x", "postgres:", "postgres://u:hunter2@h:port/d"] {
                refused(&mut with("FERRITE_DATABASE_URL", wrong), FAILURE_STATUS, &["FERRITE_DATABASE_URL"]);
            }
            refused(&mut service.command(role), USAGE_STATUS, &["FERRITE_DATABASE_URL"]);
        }
        if matches!(role, Role::Hook | Role::Git) {
            refused(&mut with("FERRITE_SECRET_KEY_FILE", "grant.pem"), FAILURE_STATUS, &["FERRITE_SECRET_KEY_FILE"]);
        }
        if matches!(role, Role::Gateway | Role::Repo | Role::Hook) {
            for (setting, wrong) in [("FERRITE_SSH", "git.example.com"), ("FERRITE_PUBLIC_URL", "git.example.com/sub")]
            {
                refused(&mut with(setting, wrong), USAGE_STATUS, &[&format!("({setting})"), wrong]);
            }
        }
        if role == Role::Repo {
            refused(
                &mut with("FERRITE_REPO_GRANT_KEY_FILE", "repo-svc.pem"),
                FAILURE_STATUS,
                &["FERRITE_REPO_GRANT_KEY_FILE"],
            );
        }
    }
    refused(ferrite().arg("serve"), USAGE_STATUS, &["serve"]);
    let alone = outcome(&mut ferrite());
    let help = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(
        alone.status.code() == Some(USAGE_STATUS) && help.contains("Usage: ferrite") && help.contains("repo-svc"),
        "{help}"
    );
    refused(ferrite().args(["up", "--http"]), USAGE_STATUS, &["--http"]);
}

#[test]
fn a_database_out_of_reach_is_waited_for() {
    let service = Service::new();
    let real = service.database("reach");
    let address = format!("{}:5432", servers::address());
    let url = format!("postgres://ferrite:hunter2@{address}/{}", real.rsplit_once('/').unwrap().1);
    let running = service.start(&[("FERRITE_DATABASE_URL", &url)]);
    running.waits_for(&["FERRITE_DATABASE_URL", "refused"]);
    std::thread::sleep(Duration::from_secs(2));
    assert!(running.warnings() <= 3, "{:#?}", running.log.all());
    let health =
        ferrite().arg("health").env("FERRITE_ADMIN_LISTEN", format!("{}:9002", service.host)).output().unwrap();
    let said = String::from_utf8_lossy(&health.stderr).into_owned();
    assert_eq!((health.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("FERRITE_DATABASE_URL") && !said.contains("hunter2"), "{said}");
    forward(&address, server_of(&real));
    running.becomes_ready();
    assert!(!running.log.all().join("\n").contains("hunter2"));
    let health =
        ferrite().arg("health").env("FERRITE_ADMIN_LISTEN", format!("{}:9002", service.host)).output().unwrap();
    assert_eq!((health.status.code(), health.stdout.as_slice()), (Some(0), &b"ready\n"[..]), "{health:?}");
    running.stops();
}

#[test]
fn a_database_that_is_not_made_yet_is_waited_for() {
    let service = Service::new();
    let name = service.database_name("later");
    let url = format!("{}/{name}", servers::postgres().rsplit_once('/').unwrap().0);
    let running = service.start(&[("FERRITE_DATABASE_URL", &url)]);
    running.waits_for(&[&name, "does not exist"]);
    service.database("later");
    running.becomes_ready();
}

#[test]
fn a_process_that_waits_stops_at_once() {
    let service = Service::new();
    let url = format!("postgres://ferrite@{}:5432/x", servers::address());
    let running = service.start(&[("FERRITE_DATABASE_URL", &url)]);
    running.waits_for(&["refused"]);
    running.stops();
}

#[test]
fn a_newer_schema_is_left_alone_until_it_is_known() {
    let service = Service::new();
    let url = service.database("newer");
    let running = service.start(&[("FERRITE_DATABASE_URL", &url)]);
    running.becomes_ready();
    running.stops();
    let columns = "version, description, installed_on, success, checksum, execution_time";
    let newer = "9000, 'later', installed_on, success, checksum, execution_time";
    execute(&url, format!("INSERT INTO _sqlx_migrations ({columns}) SELECT {newer} FROM _sqlx_migrations LIMIT 1"));
    let running = service.start(&[("FERRITE_DATABASE_URL", &url)]);
    running.waits_for(&["newer than this program", "9000"]);
    execute(&url, "DELETE FROM _sqlx_migrations WHERE version = 9000".to_owned());
    running.becomes_ready();
}

#[test]
fn a_process_that_must_not_migrate_waits_for_one_that_may() {
    let service = Service::new();
    let url = service.database("older");
    let running = service.start(&[("FERRITE_DATABASE_URL", &url), ("FERRITE_NO_MIGRATE", "true")]);
    running.waits_for(&["older than this program", "FERRITE_NO_MIGRATE"]);
    let other = Service::new().start(&[("FERRITE_DATABASE_URL", &url)]);
    other.becomes_ready();
    running.becomes_ready();
}

#[test]
fn a_newer_schema_in_a_file_ends_the_process() {
    let service = Service::new();
    let url = format!("sqlite://{}", service.folder.join("x.db").display());
    let running = service.start(&[("FERRITE_DATABASE_URL", &url)]);
    running.becomes_ready();
    running.stops();
    let statement = "INSERT INTO _sqlx_migrations SELECT 9000, 'later', installed_on, success, checksum, execution_time \
                     FROM _sqlx_migrations LIMIT 1";
    let insert = async {
        let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(insert);
    let output = outcome(service.command(Role::Issue).env("FERRITE_DATABASE_URL", &url));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(FAILURE_STATUS), "{said}");
    assert!(said.lines().last().unwrap().contains("newer than this program"), "{said}");
}

#[test]
fn a_failed_start_is_not_repeated_many_times_a_second() {
    let service = Service::new();
    let mut command = ferrite();
    command.current_dir(&service.folder).arg("issue-svc");
    let settings = service.command(Role::Issue);
    command.envs(settings.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("FERRITE_DATABASE_URL", "sqlite:///nonexistent/x.db");
    let (started, log) = (Instant::now(), Lines::default());
    let admin = Address::Tcp(format!("{}:9002", service.host));
    let process = Process::start(&mut command, &log);
    let mut running = Running { process, log, admin, listen: format!("{}:7002", service.host) };
    let deadline = Instant::now() + Duration::from_secs(4);
    while running.get("/readyz").is_none_or(|(status, reason)| status != 503 || !reason.contains("database")) {
        assert!(Instant::now() < deadline, "{:?}: {:#?}", running.get("/readyz"), running.log.all());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(TcpStream::connect(&running.listen).is_err());
    let status = running.process.ended_within(PROCESS_TIMEOUT).expect("it ends");
    assert_eq!(status.code(), Some(FAILURE_STATUS));
    assert!(started.elapsed() >= Duration::from_secs(4), "{:?}", started.elapsed());
    let lines = running.log.all_after_end(PROCESS_TIMEOUT);
    assert!(lines.last().unwrap().starts_with("ferrite issue-svc: "), "{lines:#?}");
}

fn redis(url: &str, commands: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("redis://")).unwrap();
    stream.write_all(commands.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut responses = String::new();
    stream.read_to_string(&mut responses).unwrap();
    responses
}

#[test]
fn a_redis_that_refuses_the_password_is_waited_for_and_one_that_is_away_is_done_without() {
    let service = Service::new();
    let url = service.database("redis");
    let server = Redis::start();
    assert!(redis(&server.url(), "CONFIG SET requirepass sesame\r\n").contains("+OK"));
    let running = service.start(&[("FERRITE_DATABASE_URL", &url), ("FERRITE_REDIS_URL", &server.url())]);
    running.waits_for(&["FERRITE_REDIS_URL", "uthentication"]);
    assert!(redis(&server.url(), "AUTH sesame\r\nCONFIG SET requirepass \"\"\r\n").ends_with("+OK\r\n"));
    running.becomes_ready();
    running.stops();

    let away = format!("redis://:hunter2@{}:6379", servers::address());
    let running = service.start(&[("FERRITE_DATABASE_URL", &url), ("FERRITE_REDIS_URL", &away)]);
    running.waits_for(&["FERRITE_REDIS_URL", "refused"]);
    running.becomes_ready();
    assert!(running.log.all().iter().any(|line| line.contains("continuing without it")));
    assert!(!running.log.all().join("\n").contains("hunter2"));
}

#[test]
fn a_redis_without_the_right_certificate_is_not_used() {
    let service = Service::new();
    let url = service.database("redis_tls");
    let secrets = service.folder.join("redis");
    let _server = Redis::start_with_users(servers::address(), &secrets);
    let file = |name: &str| secrets.join(name).display().to_string();
    Authority::new().write(&secrets.join("other"), "redis", &["127.0.0.1".to_owned()]);
    let settings = |authority: &'static str| {
        let (database, redis) = (url.clone(), file("issue-redis-url"));
        [
            ("FERRITE_DATABASE_URL", database),
            ("FERRITE_REDIS_URL_FILE", redis),
            ("FERRITE_REDIS_CA_FILE", file(authority)),
        ]
    };
    let start = |settings: [(&'static str, String); 3]| {
        service.start(&settings.each_ref().map(|(name, value)| (*name, value.as_str())))
    };
    let running = start(settings("other/ca.pem"));
    running.waits_for(&["FERRITE_REDIS_URL", "certificate"]);
    running.stops();
    let running = start(settings("tls/ca.pem"));
    running.becomes_ready();
    assert!(!running.log.all().iter().any(|line| line.contains("FERRITE_REDIS_URL")), "{:#?}", running.log.all());
}

#[test]
fn the_health_of_all_processes_of_a_launcher_is_asked_at_once() {
    let data = tempfile::tempdir_in(servers::folder()).unwrap().keep();
    let health = || {
        let asked = ferrite().args(["health", "--data"]).arg(&data).output().unwrap();
        let said = [asked.stdout, asked.stderr].concat();
        (asked.status.code(), String::from_utf8(said).unwrap())
    };
    let (status, said) = health();
    assert!(status == Some(1) && said.contains("repo-svc: nothing answers at unix:run/repo.admin.sock"), "{said}");
    assert!(said.contains("--data (FERRITE_DATA)"), "{said}");
    let missing = ferrite().args(["health", "--data", "/nonexistent"]).output().unwrap();
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(said.contains("/nonexistent") && said.contains("choose another with --data (FERRITE_DATA)"), "{said}");
    let mut command = ferrite();
    command.args(["up", "--stop-with-stdin", "--http", &format!("{}:0", servers::address()), "--data"]).arg(&data);
    command.env("FERRITE_SSH", "127.0.0.1:0");
    let socket = data.join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PROCESS_TIMEOUT)).unwrap();
    let mut process = Process::start(command.env("NOTIFY_SOCKET", &socket), &Lines::default());
    let mut told = [0; 64];
    let length = manager.recv(&mut told).unwrap();
    assert_eq!(&told[..length], b"READY=1\n", "systemd is notified");
    assert_eq!(health(), (Some(0), "ready\n".to_owned()));
    let issue = crate::harness::process::child_of(process.id(), "issue-svc").unwrap();
    crate::harness::process::send(issue, Signal::STOP);
    let (status, said) = health();
    assert_eq!((status, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("no response within 3 s"), "{said}");
    crate::harness::process::send(issue, Signal::CONT);
    process.signal(Signal::TERM);
    let length = manager.recv(&mut told).unwrap();
    assert_eq!(&told[..length], b"STOPPING=1\n");
    assert_eq!(process.ended_within(PROCESS_TIMEOUT).and_then(|status| status.code()), Some(0));
    assert_eq!(health().0, Some(1));
}
