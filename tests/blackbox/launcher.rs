//! `ferrite up` and `ferrite admin` on the command line.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::cluster::{ferrite, http_get};
use crate::harness::process::{Lines, Process, child_of, send};
use crate::harness::{Role, servers};

const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);

struct Up {
    process: Process,
    log: Lines,
    data: PathBuf,
    url: String,
}

fn folder() -> PathBuf {
    tempfile::tempdir_in(servers::folder()).unwrap().keep()
}

fn command(data: &Path, http: &str) -> Command {
    let mut command = ferrite();
    command.args(["up", "--stop-with-stdin", "--http", http, "--data"]).arg(data);
    command.env("FERRITE_SSH", "127.0.0.1:0");
    command
}

impl Up {
    fn start(data: &Path, http: &str, more: &[&str]) -> Self {
        let log = Lines::default();
        let process = Process::start(command(data, http).args(more), &log);
        let ready = process.out.wait_for(PROCESS_TIMEOUT, |line| line.starts_with("ready: "));
        let ready = ready.unwrap_or_else(|| panic!("not ready:\n{}", log.all().join("\n")));
        let url = ready.trim_start_matches("ready: ").to_owned();
        Self { process, log, data: data.to_owned(), url }
    }

    fn children(&self) -> Vec<u32> {
        let find = |role: &Role| {
            child_of(self.process.id(), role.command()).unwrap_or_else(|| panic!("{role:?} is not running"))
        };
        Role::ALL.iter().map(find).collect()
    }

    fn http_status(&self) -> Option<u16> {
        let response = http_get(&self.url.parse().unwrap(), "/api/v1/repos/search")?;
        response.split(' ').nth(1)?.parse().ok()
    }
}

pub(crate) fn outcome(command: &mut Command) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + PROCESS_TIMEOUT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// The only line that a failed command prints.
#[track_caller]
pub(crate) fn error_line(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(output.stdout.is_empty(), "{output:?}");
    stderr
}

pub(crate) fn runs(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[track_caller]
fn all_end(ids: &[u32]) {
    let deadline = Instant::now() + PROCESS_TIMEOUT;
    while ids.iter().any(|id| runs(*id)) {
        assert!(Instant::now() < deadline, "some of {ids:?} still run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_second_launcher_is_refused_and_the_first_goes_on() {
    let data = folder();
    let first = Up::start(&data, &format!("{}:0", servers::address()), &[]);
    let stderr = error_line(&outcome(&mut command(&data, &format!("{}:0", servers::address()))));
    assert!(stderr.contains("in use by another `ferrite up`; choose another with --data"), "{stderr}");
    assert_eq!(first.http_status(), Some(200));
}

#[test]
fn failures_to_start_print_one_line_and_leave_no_process() {
    let data = folder();
    let holder = std::net::TcpListener::bind(format!("{}:0", servers::address())).unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let stderr = error_line(&outcome(&mut command(&data, &taken)));
    assert!(stderr.contains(&taken) && stderr.contains("--http (FERRITE_HTTP)"), "{stderr}");
    let free = format!("{}:0", servers::address());
    let stderr = error_line(&outcome(command(&data, &free).args(["--ssh", &taken])));
    assert!(stderr.contains(&taken) && stderr.contains("--ssh (FERRITE_SSH)"), "{stderr}");
    let stderr = error_line(&outcome(command(&data, &free).args(["--git-program", "/nonexistent/git"])));
    assert!(stderr.contains("/nonexistent/git"), "{stderr}");
    let file = data.join("file");
    std::fs::write(&file, "").unwrap();
    for wrong in [file.as_path(), &file.join("below"), Path::new("/proc/ferrite-data")] {
        let stderr = error_line(&outcome(&mut command(wrong, &free)));
        assert!(stderr.contains(&wrong.display().to_string()), "{stderr}");
    }
    Up::start(&data, &free, &[]);
}

#[test]
fn a_variable_that_is_no_setting_is_warned_about() {
    let mut command = command(Path::new("/proc/ferrite-data"), &format!("{}:0", servers::address()));
    command.env("FERRITE_GRACE", "1").env("FERRITE_TEST_SEED", "1");
    let stderr = String::from_utf8(outcome(&mut command).stderr).unwrap();
    let warning = "FERRITE_GRACE is not a setting and has no effect; did you mean FERRITE_GRACE_SECONDS?";
    assert!(stderr.contains(warning) && !stderr.contains("FERRITE_TEST_SEED"), "{stderr}");
    assert_eq!(stderr.lines().count(), 2, "the warning and the error: {stderr}");
}

#[test]
fn a_wrong_setting_of_any_process_ends_the_launcher_before_it_starts_one() {
    let data = folder().join("data");
    let free = format!("{}:0", servers::address());
    let refused = |mut command: Command, setting: &str, value: &str| {
        let output = outcome(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains(setting) && stderr.contains(value), "{stderr}");
        assert!(output.stdout.is_empty() && !data.exists(), "{output:?}");
    };
    for wrong in ["nonsense", "127.0.0.1:99999", "no..host:80"] {
        refused(command(&data, wrong), "--http (FERRITE_HTTP)", wrong);
    }
    for (setting, wrong) in [
        ("FERRITE_SSH", "nonsense"),
        ("FERRITE_SSH", "no..host:22"),
        ("FERRITE_PUBLIC_SSH", "foo"),
        ("FERRITE_LOG", "a=b=c"),
        ("FERRITE_GRACE_SECONDS", "18446744073709551615"),
        ("FERRITE_GATEWAY_CONNECTION_SECONDS", "18446744073709551615"),
        ("FERRITE_GATEWAY_IDLE_CONNECTION_SECONDS", "315360001"),
        ("FERRITE_GIT_UPKEEP_REPACK_SECONDS", "1e300"),
        ("FERRITE_PUBLIC_URL", "git.example.com"),
        ("FERRITE_GATEWAY_UPLOADS", "many"),
        ("FERRITE_REPO_CREATIONS_PER_HOUR", "-1"),
        ("FERRITE_ISSUE_TIMELINE_DAYS", "x"),
        ("FERRITE_HOOK_FEED_DAYS", "366"),
        ("FERRITE_GIT_STORE_PATIENCE_SECONDS", "soon"),
        ("FERRITE_EVENT_RETENTION_SECONDS", "59"),
    ] {
        let mut command = command(&data, &free);
        command.env(setting, wrong);
        refused(command, &format!("({setting})"), wrong);
    }
    for (setting, wrong) in [
        ("FERRITE_ADMIN_USERNAME", "a b"),
        ("FERRITE_ADMIN_EMAIL", "nope"),
        ("FERRITE_ADMIN_PASSWORD", "x"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ] {
        let mut command = command(&data, &free);
        command.env(setting, wrong);
        refused(command, setting, "");
    }
}

#[test]
fn settings_that_contradict_each_other_and_unusable_files_end_the_launcher_before_there_is_an_account() {
    let data = folder().join("data");
    let free = format!("{}:0", servers::address());
    for (settings, named) in [
        (&[("FERRITE_GATEWAY_HTTP_REDIRECT_LISTEN", "127.0.0.1:0")][..], "FERRITE_PUBLIC_URL"),
        (&[("FERRITE_GATEWAY_PROXY_PROTOCOL", "true")][..], "FERRITE_GATEWAY_TRUSTED_PROXIES"),
        (
            &[
                ("FERRITE_GATEWAY_TLS_CERTIFICATE_FILE", "/nonexistent/c.pem"),
                ("FERRITE_GATEWAY_TLS_KEY_FILE", "/nonexistent/k.pem"),
            ][..],
            "/nonexistent/c.pem",
        ),
    ] {
        let output = outcome(command(&data, &free).envs(settings.iter().copied()));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.starts_with("ferrite up: gateway: ") && stderr.contains(named), "{stderr}");
        assert!(output.stdout.is_empty() && !data.join("repo.db").exists(), "{output:?}");
    }
}

#[test]
fn a_child_that_cannot_start_ends_the_launcher() {
    let data = folder();
    std::fs::create_dir(data.join("issue.db")).unwrap();
    let output = outcome(&mut command(&data, &format!("{}:0", servers::address())));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.lines().last().unwrap().contains("issue-svc did not start"), "{stderr}");
    assert!(output.stdout.iter().filter(|byte| **byte == b'\n').count() <= 1, "{output:?}");
}

#[test]
fn signals_stop_everything_in_order_and_it_starts_again() {
    let data = folder();
    let http = {
        let holder = std::net::TcpListener::bind(format!("{}:0", servers::address())).unwrap();
        holder.local_addr().unwrap().to_string()
    };
    for signal in [Signal::TERM, Signal::INT] {
        let started = Instant::now();
        let mut up = Up::start(&data, &http, &["--log", "debug"]);
        eprintln!("ready after {:?}", started.elapsed());
        assert_eq!(up.url, format!("http://{http}"));
        assert_eq!(up.http_status(), Some(200));
        let children = up.children();
        up.process.signal(signal);
        let status = up.process.ended_within(PROCESS_TIMEOUT).expect("it stops within the grace period");
        assert_eq!(status.code(), Some(0));
        assert!(children.iter().all(|id| !runs(*id)), "{children:?}");
        let mut stopped = up.log.all_after_end(PROCESS_TIMEOUT);
        stopped.retain(|line| line.contains("child stopped"));
        let place = |role: &str| {
            stopped.iter().position(|line| line.contains(role)).unwrap_or_else(|| panic!("{role}: {stopped:#?}"))
        };
        assert!(place("gateway") < place("issue-svc").min(place("hook-svc")));
        assert!(place("issue-svc").max(place("hook-svc")) < place("git-svc"));
        assert!(place("git-svc") < place("repo-svc"));
        assert!(stopped.iter().all(|line| line.contains("exit status: 0")), "{stopped:#?}");
        assert_eq!(up.log.errors(), Vec::<String>::new());
        for name in ["repo", "issue", "hook", "git"] {
            let log = data.join(format!("{name}.db-wal")).metadata().map_or(0, |file| file.len());
            assert_eq!(log, 0, "{name}.db is not the whole database");
        }
    }
}

#[test]
fn children_do_not_outlive_a_launcher_that_was_killed() {
    let data = folder();
    let http = format!("{}:0", servers::address());
    let mut up = Up::start(&data, &http, &[]);
    let children = up.children();
    up.process.kill();
    all_end(&children);
    let again = Up::start(&data, &http, &[]);
    assert_eq!(again.http_status(), Some(200));
}

#[test]
fn a_dead_child_comes_back_at_the_same_place() {
    let data = folder();
    let up = Up::start(&data, &format!("{}:0", servers::address()), &[]);
    for role in Role::ALL {
        let old = child_of(up.process.id(), role.command()).unwrap();
        send(old, Signal::KILL);
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        loop {
            let new = child_of(up.process.id(), role.command());
            if new.is_some_and(|new| new != old) && up.http_status() == Some(200) {
                break;
            }
            assert!(Instant::now() < deadline, "{role:?} did not restart: {:#?}", up.log.all());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let ready = up.process.out.all().iter().filter(|line| line.starts_with("ready: ")).count();
    assert_eq!(ready, 1, "it prints ready once");
}

#[test]
fn a_made_password_is_printed_once_and_works() {
    let data = folder();
    let http = format!("{}:0", servers::address());
    let up = Up::start(&data, &http, &[]);
    let line = up.process.out.all().into_iter().find(|line| line.contains("password")).expect("it prints the password");
    assert!(line.contains("admin"), "{line}");
    let password = line.rsplit(' ').next().unwrap().to_owned();
    let make = |url: String, password: String| async move {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{url}/api/v1/users/admin/tokens")).basic_auth("admin", Some(password));
        request.json(&json!({"name": "x"})).send().await.unwrap().status()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(runtime.block_on(make(up.url.clone(), password.clone())), StatusCode::CREATED);
    assert_eq!(runtime.block_on(make(up.url.clone(), "wrong".to_owned())), StatusCode::UNAUTHORIZED);
    let stderr: String = up.log.all().join("\n");
    assert!(!stderr.contains(&password), "the password is in the log");
    drop(up);
    // An account exists, so the settings of the first administrator have no effect.
    let again = Up::start(&data, &http, &["--admin-username", "a b", "--admin-email", "nope"]);
    assert!(!again.process.out.all().iter().any(|line| line.contains("password")), "{:?}", again.process.out.all());
}

#[test]
fn the_first_requests_after_the_ready_line_are_served() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    // On each start, the ready line races with the connections between the services.
    for start in 0..3 {
        let up = Up::start(&folder(), &format!("{}:0", servers::address()), &[]);
        let line = up.process.out.all().into_iter().find(|line| line.contains("password")).unwrap();
        let password = line.rsplit(' ').next().unwrap();
        let api = format!("{}/api/v1", up.url);
        let created = async |request: reqwest::RequestBuilder, body: Value| -> Value {
            let response = request.json(&body).send().await.unwrap();
            let (status, text) = (response.status(), response.text().await.unwrap());
            assert_eq!(status, StatusCode::CREATED, "start {start}, {body}: {text}\n{}", up.log.all().join("\n"));
            serde_json::from_str(&text).unwrap()
        };
        runtime.block_on(async {
            let request = client.post(format!("{api}/users/admin/tokens")).basic_auth("admin", Some(password));
            let token = created(request, json!({"name": "x"})).await["sha1"].as_str().unwrap().to_owned();
            let post =
                |path: &str| client.post(format!("{api}{path}")).header("authorization", format!("token {token}"));
            created(post("/user/repos"), json!({"name": "demo", "auto_init": true})).await;
            created(post("/repos/admin/demo/issues"), json!({"title": "One"})).await;
            let config = json!({"url": "https://example.com/hook", "content_type": "json"});
            created(post("/repos/admin/demo/hooks"), json!({"type": "native", "config": config})).await;
        });
    }
}

#[test]
fn only_the_public_ports_are_open() {
    let ssh = format!("{}:2222", servers::address());
    let up = Up::start(&folder(), &format!("{}:0", servers::address()), &["--ssh", &ssh]);
    let ids: Vec<_> = up.children().into_iter().chain([up.process.id()]).collect();
    let port = up.url.rsplit_once(':').unwrap().1.parse().unwrap();
    assert_eq!(listening(&ids), HashSet::from([port, 2222]));
    assert_eq!(up.data.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let hosts = ["ssh_host_ed25519_key", "ssh_host_rsa_key"];
    let private = Role::ALL.map(|role| format!("{}.pem", role.command()));
    let public = Role::ALL.map(|role| format!("public/{}.pub.pem", role.command()));
    let others = ["grant.pem", "grant.pub.pem", "hook-sealing.key", "git-sealing.key"]
        .into_iter()
        .chain(hosts)
        .map(str::to_owned);
    for name in others.chain(private.clone()).chain(public) {
        let mode = up.data.join("keys").join(&name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    for id in ids {
        let arguments = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap();
        for name in private.iter().map(String::as_str).chain(["hook-sealing.key", "git-sealing.key"]) {
            let key = std::fs::read_to_string(up.data.join("keys").join(name)).unwrap();
            let secret = key.lines().find(|line| !line.starts_with('-')).unwrap();
            assert!(!arguments.contains(secret), "a key is on a command line");
        }
    }
}

#[test]
fn grpc_ports_open_on_request() {
    // These ports are fixed, so another run of this test may briefly hold them.
    let deadline = Instant::now() + PROCESS_TIMEOUT;
    while (7001..7005).any(|port| std::net::TcpListener::bind(("127.0.0.1", port)).is_err()) {
        assert!(Instant::now() < deadline, "one of the ports 7001 to 7004 stays in use");
        std::thread::sleep(Duration::from_millis(100));
    }
    let ssh = format!("{}:2222", servers::address());
    let up = Up::start(&folder(), &format!("{}:0", servers::address()), &["--grpc-tcp", "--ssh", &ssh]);
    let port: u16 = up.url.rsplit_once(':').unwrap().1.parse().unwrap();
    assert_eq!(listening(&up.children()), HashSet::from([port, 2222, 7001, 7002, 7003, 7004]));
    let stderr = error_line(&outcome(command(&folder(), &format!("{}:0", servers::address())).arg("--grpc-tcp")));
    assert!(stderr.contains("127.0.0.1:7001"), "{stderr}");
}

/// TCP ports on which these processes listen.
fn listening(ids: &[u32]) -> HashSet<u16> {
    let mut sockets = HashSet::new();
    for id in ids {
        for file in std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().flatten() {
            if let Ok(target) = std::fs::read_link(file.path())
                && let Some(inode) = target.to_str().and_then(|text| text.strip_prefix("socket:["))
            {
                sockets.insert(inode.trim_end_matches(']').to_owned());
            }
        }
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let ports = rows.filter_map(|row| {
        let fields: Vec<_> = row.split_whitespace().collect();
        let is_listening = fields[3] == "0A" && sockets.contains(fields[9]);
        let port = fields[1].rsplit_once(':')?.1;
        is_listening.then(|| u16::from_str_radix(port, 16).unwrap())
    });
    ports.collect()
}

#[test]
fn accounts_are_made_from_the_command_line() {
    let up = Up::start(&folder(), &format!("{}:0", servers::address()), &[]);
    let create = |name: &str, more: &[&str]| {
        let mut command = ferrite();
        command.args(["admin", "create-user", "--username", name, "--email", &format!("{name}@example.com"), "--data"]);
        command.arg(&up.data).args(more);
        command
    };
    let made = outcome(&mut create("one", &["--admin", "--full-name", "Number One"]));
    let line = String::from_utf8(made.stdout).unwrap();
    assert!(made.status.success() && line.starts_with("created user one, password: "), "{line}");
    let given = outcome(create("two", &[]).env("FERRITE_USER_PASSWORD", "long enough"));
    assert_eq!(String::from_utf8(given.stdout).unwrap(), "created user two\n");
    let typed = Command::new("sh")
        .args(["-c", "echo 'from standard input' | \"$0\" \"$@\"", env!("CARGO_BIN_EXE_ferrite")])
        .args(create("three", &["--password-stdin"]).get_args())
        .output()
        .unwrap();
    assert!(typed.status.success(), "{typed:?}");
    let stderr = error_line(&outcome(create("ONE", &[]).env("FERRITE_USER_PASSWORD", "long enough")));
    assert!(stderr.to_lowercase().contains("one") || stderr.contains("exist"), "{stderr}");
    error_line(&outcome(&mut create("a/b", &[])));
    error_line(&outcome(create("four", &[]).env("FERRITE_USER_PASSWORD", "short")));
    let nowhere = outcome(ferrite().args([
        "admin",
        "create-user",
        "--username",
        "x",
        "--email",
        "x@example.com",
        "--data",
        "/nonexistent",
    ]));
    assert!(error_line(&nowhere).contains("/nonexistent"));
    assert_eq!(http_get(&up.url.parse().unwrap(), "/api/v1/users/one").unwrap().split(' ').nth(1), Some("200"));
    assert_eq!(up.log.errors(), Vec::<String>::new());
}

#[test]
fn administration_names_what_does_not_exist() {
    let data = folder();
    let admin = |words: &[&str]| {
        let mut command = ferrite();
        command.arg("admin").args(words).arg("--data").arg(&data);
        command
    };
    let stderr = error_line(&outcome(&mut admin(&["store", "list"])));
    assert!(stderr.contains("has no repo.db; choose another with --data (FERRITE_DATA)"), "{stderr}");
    assert!(!data.join("repo.db").exists());
    let url = format!("sqlite://{}/repo.db", data.display());
    let listed = outcome(ferrite().args(["admin", "store", "list", "--database-url", &url]));
    assert!(listed.status.success(), "{listed:?}");
    for words in [&["store", "weight", "git-9", "1"][..], &["store", "remove", "git-9"]] {
        let stderr = error_line(&outcome(&mut admin(words)));
        assert!(stderr.contains("store git-9 does not exist; `ferrite admin store list`"), "{stderr}");
    }
}

#[test]
fn the_command_line_explains_itself() {
    let version = outcome(ferrite().arg("--version"));
    assert_eq!(String::from_utf8(version.stdout).unwrap(), concat!("ferrite ", env!("CARGO_PKG_VERSION"), "\n"));
    let help = String::from_utf8(outcome(ferrite().arg("help")).stdout).unwrap();
    for command in ["up", "gateway", "repo-svc", "issue-svc", "hook-svc", "git-svc", "demo", "keys", "admin"] {
        assert!(help.contains(command), "{command}: {help}");
    }
    for arguments in
        [&[][..], &["nonsense"], &["repo-svc"], &["up", "--nonsense"], &["git-svc", "--listen", "nonsense"]]
    {
        let output = outcome(ferrite().args(arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
    let missing =
        outcome(ferrite().args(["gateway", "--listen", "127.0.0.1:0", "--service-key-file", "/nonexistent/k"]).args([
            "--service-public-keys",
            "/nonexistent/f",
            "--grant-public-key-file",
            "/nonexistent/p",
            "--repo-address",
            "127.0.0.1:1",
            "--issue-address",
            "127.0.0.1:1",
            "--hook-address",
            "127.0.0.1:1",
            "--git-address",
            "127.0.0.1:1",
        ]));
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nonexistent/"), "{missing:?}");
}
