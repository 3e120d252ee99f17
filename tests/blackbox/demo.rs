//! `ferrite demo`: its data, the commands it prints, and its cleanup.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::cluster::{ferrite, http_get};
use crate::harness::process::{Lines, Process, child_of};
use crate::harness::{Role, servers};
use crate::launcher::{error_line, outcome, runs};

const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);

/// A running demo, and the parent of its temporary folder.
struct Demo {
    process: Process,
    log: Lines,
    parent: PathBuf,
}

fn folder() -> PathBuf {
    tempfile::tempdir_in(servers::folder()).unwrap().keep()
}

fn command(parent: &Path) -> Command {
    let mut command = ferrite();
    command.args(["demo", "--stop-with-stdin", "--http", &format!("{}:0", servers::address())]).env("TMPDIR", parent);
    // Settings from the environment have no effect.
    command.env("FERRITE_PUBLIC_URL", "https://git.example.com").env("FERRITE_ADMIN_USERNAME", "someone");
    command
}

impl Demo {
    fn start() -> Self {
        let (parent, log) = (folder(), Lines::default());
        let process = Process::start(&mut command(&parent), &log);
        Self { process, log, parent }
    }

    /// Waits for the commands to paste. Each is below a comment.
    fn commands(&self) -> Vec<String> {
        let last = self.process.out.wait_for(PROCESS_TIMEOUT, |line| line.starts_with("Ctrl-C"));
        assert!(last.is_some(), "not ready:\n{}", self.log.all().join("\n"));
        let lines = self.process.out.all();
        lines.windows(2).filter(|pair| pair[0].starts_with("# ")).map(|pair| pair[1].clone()).collect()
    }

    fn server(&self) -> u32 {
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        loop {
            if let Some(id) = child_of(self.process.id(), "up") {
                return id;
            }
            assert!(Instant::now() < deadline, "no server:\n{}", self.log.all().join("\n"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Names in the parent of the temporary folder.
    fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.parent).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[track_caller]
    fn stops_at(&mut self, signal: Signal, processes: &[u32]) {
        self.process.signal(signal);
        let status = self.process.ended_within(PROCESS_TIMEOUT).expect("it stops within the grace period");
        assert_eq!(status.code(), Some(0), "{}", self.log.all().join("\n"));
        assert!(processes.iter().all(|id| !runs(*id)), "some of {processes:?} still run");
        assert_eq!(self.left(), Vec::<String>::new());
    }
}

/// Runs a script in a new folder, as if pasted into a terminal.
fn pasted(script: &str) -> Output {
    let path = std::env::vars_os().find(|(name, _)| name == "PATH").unwrap_or_default().1;
    let folder = folder();
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(&folder);
    command.env_clear().env("PATH", path).env("HOME", &folder).env("TMPDIR", &folder);
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_TERMINAL_PROMPT", "0")]);
    outcome(&mut command)
}

/// Runs what the README offers after the printed commands: in a clone, with the printed variables.
#[track_caller]
fn tour(clone: &str, variables: &str) {
    let readme = include_str!("../../README.md");
    let section = readme.split("\n## A tour in five minutes\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let blocks: Vec<_> = blocks.filter(|block| !block.contains("make demo")).collect();
    assert!(blocks.len() >= 3, "the tour is not found: {blocks:?}");
    let output = pasted(&format!("{clone}\n{variables}\n{}", blocks.concat()));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    let responses: Vec<Value> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(responses.len() >= 5 && responses.iter().all(|response| response["message"].is_null()), "{printed}");
    for mark in ["Written through the API.", "acme/hello", "/releases/download/v1.0/", "hello-again", "\"name\":\"ci\""]
    {
        assert!(printed.contains(mark), "no `{mark}` in {printed}");
    }
}

#[test]
fn the_printed_commands_work_and_nothing_is_left_after_ctrl_c() {
    let started = Instant::now();
    let mut demo = Demo::start();
    let commands = demo.commands();
    eprintln!("ready after {:?}", started.elapsed());
    let [list, create, clone, push, open, variables] = &commands[..] else { panic!("not six: {commands:#?}") };
    let script = [list, create, clone, push].map(String::as_str).join("\n");
    let output = pasted(&script);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    let mut responses = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_default());
    let listed = responses.next().unwrap();
    let issues = listed.as_array().unwrap_or_else(|| panic!("not a list: {printed}"));
    assert_eq!(issues.len(), 2, "{printed}");
    assert!(issues.iter().all(|issue| issue["labels"].as_array().is_some_and(|labels| labels.len() == 1)), "{printed}");
    assert!(issues.iter().any(|issue| issue["comments"] == 1), "{printed}");
    let created = responses.next().unwrap();
    assert_eq!((&created["number"], &created["user"]["login"]), (&json!(3), &json!("ada")), "{printed}");
    let (root, page) = open.rsplit(' ').next().unwrap().split_once("/docs/").unwrap();
    let is_below_root = created["html_url"].as_str().is_some_and(|url| url.starts_with(root));
    assert!(is_below_root, "{printed}");
    let response = http_get(&root.parse().unwrap(), &format!("/docs/{page}")).unwrap();
    assert!(page == "api" && response.starts_with("HTTP/1.1 200 "), "{response}");
    let expected = ["webhook: issues (opened), acme/hello, 200", "webhook: push, acme/hello, 200"];
    for line in expected {
        let received = demo.process.out.wait_for(PROCESS_TIMEOUT, |received| received == line);
        assert!(received.is_some(), "no `{line}` in {:#?}", demo.process.out.all());
    }
    let mut deliveries: Vec<_> =
        demo.process.out.all().into_iter().filter(|line| line.starts_with("webhook: ")).collect();
    deliveries.sort_unstable();
    assert_eq!(deliveries, expected, "no webhooks of the example data");
    tour(clone, variables);
    let server = demo.server();
    let roles = Role::ALL.iter().map(|role| child_of(server, role.command()).expect("the role runs"));
    let processes: Vec<_> = roles.chain([server]).collect();
    let left = demo.left();
    assert!(left.len() == 1 && left[0].starts_with("ferrite-demo-"), "{left:?}");
    demo.stops_at(Signal::INT, &processes);
    assert_eq!(demo.log.errors(), Vec::<String>::new());
}

#[test]
fn a_signal_during_the_start_leaves_nothing() {
    let mut demo = Demo::start();
    let server = demo.server();
    demo.stops_at(Signal::TERM, &[server]);
}

#[test]
fn failures_of_a_demo_print_one_line_and_leave_nothing() {
    let parent = folder();
    let holder = std::net::TcpListener::bind(format!("{}:0", servers::address())).unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let demo = |flags: &[&str], parent: &Path| {
        let mut command = ferrite();
        outcome(command.arg("demo").args(flags).env("TMPDIR", parent))
    };
    let missing = Path::new("/nonexistent");
    for (output, reason) in [
        (demo(&["--http", taken.as_str()], &parent), taken.as_str()),
        (demo(&["--git-program", "/nonexistent/git"], &parent), "/nonexistent/git"),
        (demo(&[], missing), "temporary folder"),
    ] {
        let line = error_line(&output);
        assert!(line.starts_with("ferrite demo: ") && line.contains(reason), "{line}");
    }
    let output = demo(&["--http", "nonsense"], &parent);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.starts_with("ferrite demo: ") && line.contains("--http"), "{line}");
    assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0);
}
