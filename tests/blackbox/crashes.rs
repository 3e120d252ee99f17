//! Two hundred kills at random points (a tenth of that in `make test`) of git-svc, the gateway, and
//! git-svc's git processes, while several writers work. Each writer records its acknowledged
//! writes. At the end all of them must exist and be intact, each with exactly one event.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use ferrite_proto::events::{Event, event::Fact};
use prost::Message;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::ssh::{Client, client_of};
use crate::harness::tree::{Random, fsck_all, git_below};
use crate::harness::{Cluster, Git, Options, Profile, Response, Role, User, is_slow, rounds, run_expecting_errors};

/// Numbers of kills. The launcher waits longer before each restart of a process that keeps dying,
/// so the embedded profile has fewer.
struct Plan {
    git: usize,
    gateway: usize,
    processes: usize,
}

const EMBEDDED: Plan = Plan { git: 8, gateway: 6, processes: 56 };
const PRODUCTION: Plan = Plan { git: 40, gateway: 20, processes: 70 };
/// Background maintenance runs constantly, so kills hit it as well.
const SETTINGS: &[(&str, &str)] = &[
    ("FERRITE_GIT_UPKEEP_INTERVAL_SECONDS", "0.3"),
    ("FERRITE_GIT_UPKEEP_PACKS", "2"),
    ("FERRITE_GIT_UPKEEP_REPACK_SECONDS", "2"),
];
/// Errors that git-svc logs for a killed git process, and the gateway for the failed call or git
/// request.
const EXPECTED: &[&str] = &["signal: 9", "a service failed: internal error", "git-svc failed a request"];
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
const REPOSITORIES: [&str; 4] = ["pushes", "ssh", "puts", "changes"];

mod embedded {
    #[test]
    fn nothing_acknowledged_is_lost_whatever_is_killed() {
        super::run(super::Profile::Embedded, &super::EMBEDDED);
    }
}

mod production {
    #[test]
    fn nothing_acknowledged_is_lost_whatever_is_killed() {
        super::run(super::Profile::Production, &super::PRODUCTION);
    }
}

fn run(profile: Profile, plan: &Plan) {
    let cluster =
        Cluster::start(profile, &Options { settings: SETTINGS.to_vec(), on_disk: true, ..Options::default() });
    run_expecting_errors(&cluster, EXPECTED, nothing_acknowledged_is_lost(&cluster, plan));
}

/// Commits available for pushes; more than needed.
fn commits() -> u32 {
    u32::try_from(rounds(900).max(200)).unwrap()
}

struct Workload {
    user: User,
    ssh: Client,
    source: Git,
    chain: Vec<String>,
    is_over: AtomicBool,
    /// Attempts that are running, have failed, and have succeeded.
    in_flight: AtomicUsize,
    failed: AtomicUsize,
    done: AtomicUsize,
    /// By branch of a pusher: indexes into `chain` of the last acknowledged commit and of the last
    /// one sent.
    branches: Mutex<BTreeMap<String, (usize, usize)>>,
}

enum Acknowledged {
    /// Repository, ref, and its commit, or `None` if it was deleted.
    Ref(&'static str, String, Option<String>),
    /// Repository, branch, and a commit that it contains.
    Commit(&'static str, String, String),
}

impl Workload {
    async fn new(cluster: &Cluster) -> Self {
        let user = cluster.user("ada").await;
        for name in REPOSITORIES {
            let is_bare = ["pushes", "ssh"].contains(&name);
            user.new_repository(name, json!({"auto_init": !is_bare})).await;
        }
        let (ssh, source) = (client_of(cluster, &user, "ed25519").await, Git::new());
        source.large("source.git", commits()).await;
        let chain = source.run("source.git", &["rev-list", "--reverse", "--first-parent", "main"]).await;
        let chain = chain.lines().map(str::to_owned).collect();
        let (is_over, branches) = (AtomicBool::new(false), Mutex::default());
        let [in_flight, failed, done] = [const { AtomicUsize::new(0) }; 3];
        Self { user, ssh, source, chain, is_over, in_flight, failed, done, branches }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Repeats `attempt` until it succeeds. A failed attempt may still have taken effect, so it
    /// must be safe to repeat.
    async fn retry<T, F: Future<Output = Result<T, String>>>(&self, what: &str, attempt: impl Fn() -> F) -> T {
        let start = Instant::now();
        loop {
            self.in_flight.fetch_add(1, Ordering::SeqCst);
            let outcome = tokio::time::timeout(ATTEMPT_TIMEOUT, attempt()).await;
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
            match outcome.unwrap_or_else(|_| panic!("{what} hangs")) {
                Ok(done) => {
                    self.done.fetch_add(1, Ordering::SeqCst);
                    return done;
                }
                Err(error) => {
                    self.failed.fetch_add(1, Ordering::SeqCst);
                    assert!(start.elapsed() < 2 * SETTLE_TIMEOUT, "{what} was never acknowledged: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn push(&self, name: &'static str, refspec: &str) {
        self.retry(&format!("{name}: push {refspec}"), || async {
            let (user, source) = (&self.user, &self.source);
            let output = if name == "ssh" {
                let url = self.ssh.url(&user.name, name);
                self.ssh.command(source, "source.git", &["push", "-q", &url, refspec]).output().await
            } else {
                source.command("source.git", &["push", "-q", &user.git_url(&user.name, name), refspec]).output().await
            };
            let output = output.unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            // If the ref no longer exists, an earlier attempt deleted it and its response was lost.
            let is_gone = refspec.starts_with(':') && stderr.contains("does not exist");
            if output.status.success() || is_gone { Ok(()) } else { Err(stderr) }
        })
        .await;
    }

    /// Sends a write with an idempotency key until it is acknowledged, and returns its commit.
    async fn write(&self, method: Method, path: &str, key: &str, body: &Value) -> String {
        self.retry(key, || async {
            let request = self.user.request(method.clone(), path).header("idempotency-key", key).json(body);
            let response = Response::try_of(request).await.map_err(|error| error.to_string())?;
            let status = response.status.as_u16();
            if status == 201 {
                return Ok(response.json()["commit"]["sha"].as_str().unwrap().to_owned());
            }
            assert!(status >= 500 || status == 409, "{key}: {status}: {}", response.text());
            Err(response.text())
        })
        .await
    }

    /// Pushes commit after commit to a branch, and sometimes pushes and deletes a tag.
    async fn pusher(&self, name: &'static str, number: usize) -> Vec<Acknowledged> {
        let (branch, mut acknowledged) = (format!("refs/heads/writer-{number}"), Vec::new());
        let key = format!("{name} {branch}");
        let mut last = 0;
        for (step, commit) in self.chain.iter().enumerate() {
            if self.is_over() {
                break;
            }
            let note = |sure: usize| {
                self.branches.lock().unwrap().insert(key.clone(), (sure, step));
            };
            note(step.saturating_sub(1));
            self.push(name, &format!("{commit}:{branch}")).await;
            note(step);
            last = step;
            let tag = format!("refs/tags/t-{number}-{}", step - step % 3);
            match step % 6 {
                0 => self.push(name, &format!("{commit}:{tag}")).await,
                2 => {
                    self.push(name, &format!(":{tag}")).await;
                    acknowledged.push(Acknowledged::Ref(name, tag, None));
                }
                _ => {}
            }
        }
        acknowledged.push(Acknowledged::Ref(name, branch, Some(self.chain[last].clone())));
        acknowledged
    }

    async fn putter(&self, number: usize) -> Vec<Acknowledged> {
        let mut acknowledged = Vec::new();
        for step in 0.. {
            if self.is_over() {
                break;
            }
            let path = self.user.repo("puts", &format!("/contents/dir-{}/file-{number}-{step}", step % 5));
            let body =
                json!({"message": format!("Put {number} {step}"), "content": encode(&format!("{number} {step}"))});
            let commit = self.write(Method::PUT, &path, &format!("put-{number}-{step}"), &body).await;
            acknowledged.push(Acknowledged::Commit("puts", "refs/heads/main".to_owned(), commit));
        }
        acknowledged
    }

    async fn changer(&self) -> Vec<Acknowledged> {
        let (mut acknowledged, path) = (Vec::new(), self.user.repo("changes", "/contents"));
        for step in 0.. {
            if self.is_over() {
                break;
            }
            let files: Vec<_> = (0..3)
                .map(|file| json!({"operation": "create", "path": format!("{step}/{file}"), "content": encode(&format!("{step} {file}"))}))
                .collect();
            let mut body = json!({"message": format!("Change {step}"), "files": files});
            let mut branch = "main".to_owned();
            if step % 3 == 2 {
                branch = format!("topic-{step}");
                body["new_branch"] = json!(branch);
            }
            let commit = self.write(Method::POST, &path, &format!("change-{step}"), &body).await;
            acknowledged.push(match step % 3 {
                2 => Acknowledged::Ref("changes", format!("refs/heads/{branch}"), Some(commit)),
                _ => Acknowledged::Commit("changes", "refs/heads/main".to_owned(), commit),
            });
        }
        acknowledged
    }

    /// Clones every repository and checks that each pusher's branch is between the acknowledged and
    /// the sent commit.
    async fn check_branches(&self) {
        let git = Git::new();
        let before = self.branches.lock().unwrap().clone();
        let mut seen = HashMap::new();
        for name in REPOSITORIES {
            let copy = format!("{name}.git");
            git.run("", &["clone", "-q", "--mirror", &self.user.git_url(&self.user.name, name), &copy]).await;
            git.run(&copy, &["fsck", "--strict"]).await;
            for line in git.refs(&copy).await.lines() {
                let (name_of_ref, tip) = line.split_once(' ').unwrap();
                seen.insert(format!("{name} {name_of_ref}"), tip.to_owned());
            }
        }
        let after = self.branches.lock().unwrap().clone();
        for (key, (sure, _)) in before {
            let may_be = after[&key].1;
            let Some(tip) = seen.get(&key) else {
                assert_eq!(sure, 0, "{key} is missing");
                continue;
            };
            let place = self.chain.iter().position(|commit| commit == tip);
            let place = place.unwrap_or_else(|| panic!("{key} points to {tip}, which was never pushed"));
            assert!((sure..=may_be).contains(&place), "{key}: {place}, not {sure} to {may_be}");
        }
    }
}

fn encode(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[derive(Clone, Copy)]
enum Target {
    Role(Role),
    Process,
}

#[derive(Default)]
struct CrashCounts {
    kills: usize,
    /// Kills while requests were in flight.
    busy: usize,
    /// Kills of git-svc during a consolidation.
    consolidations: usize,
    processes: BTreeMap<String, usize>,
}

async fn kill_all(cluster: &Cluster, work: &Workload, plan: &Plan) -> CrashCounts {
    let mut random = Random::seeded();
    let mut targets = vec![Target::Role(Role::Git); rounds(plan.git)];
    targets.extend(vec![Target::Role(Role::Gateway); rounds(plan.gateway)]);
    targets.extend(vec![Target::Process; rounds(plan.processes)]);
    for index in (1..targets.len()).rev() {
        let other = random.below(index as u64 + 1);
        targets.swap(index, usize::try_from(other).unwrap());
    }
    let (mut counts, third) = (CrashCounts::default(), targets.len() / 3);
    for (index, target) in targets.into_iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(10 + random.below(120))).await;
        match target {
            Target::Role(role) => {
                if matches!(role, Role::Git) {
                    counts.consolidations += usize::from(wait_for_consolidation(cluster).await);
                }
                counts.busy += usize::from(work.in_flight.load(Ordering::SeqCst) > 0);
                tokio::task::block_in_place(|| cluster.crash(role));
            }
            Target::Process => {
                let (name, is_busy) = kill_git(cluster, work, &mut random).await;
                counts.busy += usize::from(is_busy);
                *counts.processes.entry(name).or_default() += 1;
            }
        }
        counts.kills += 1;
        if index == third || index == 2 * third {
            work.check_branches().await;
        }
    }
    counts
}

/// Waits up to 300 ms for a consolidation. Returns whether one is running.
async fn wait_for_consolidation(cluster: &Cluster) -> bool {
    let (root, start) = (cluster.process_id(Role::Git).unwrap(), Instant::now());
    while !git_below(root).iter().any(|process| process.name == "pack-objects") {
        if start.elapsed() > Duration::from_millis(300) {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}

/// Kills a git process of git-svc: one of a random kind if it appears within 300 ms, otherwise any.
/// Returns its subcommand, and whether requests were in flight.
async fn kill_git(cluster: &Cluster, work: &Workload, random: &mut Random) -> (String, bool) {
    const KINDS: [&str; 8] =
        ["", "receive-pack", "index-pack", "update-ref", "multi-pack-index", "repack", "pack-objects", "pack-refs"];
    let root = cluster.process_id(Role::Git).unwrap();
    let wanted = KINDS[usize::try_from(random.below(KINDS.len() as u64)).unwrap()];
    let start = Instant::now();
    loop {
        let running = git_below(root);
        let is_any = wanted.is_empty() || start.elapsed() > Duration::from_millis(300);
        let fitting: Vec<_> = running.iter().filter(|process| is_any || process.name == wanted).collect();
        if !fitting.is_empty() {
            let victim = fitting[usize::try_from(random.below(fitting.len() as u64)).unwrap()];
            let is_busy = work.in_flight.load(Ordering::SeqCst) > 0;
            let id = rustix::process::Pid::from_raw(victim.id.try_into().unwrap()).unwrap();
            if rustix::process::kill_process(id, Signal::KILL).is_ok() {
                return (victim.name.clone(), is_busy);
            }
        }
        assert!(start.elapsed() < SETTLE_TIMEOUT, "git-svc runs no git");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn nothing_acknowledged_is_lost(cluster: &Cluster, plan: &Plan) {
    let work = Arc::new(Workload::new(cluster).await);
    let mut writers = JoinSet::new();
    for number in 0..6 {
        let work = Arc::clone(&work);
        writers.spawn(async move {
            match number {
                0 | 1 => work.pusher("pushes", number).await,
                2 => work.pusher("ssh", number).await,
                3 | 4 => work.putter(number).await,
                _ => work.changer().await,
            }
        });
    }
    let start = Instant::now();
    let counts = kill_all(cluster, &work, plan).await;
    work.is_over.store(true, Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    while let Some(writer) = writers.join_next().await {
        acknowledged.extend(writer.unwrap());
    }
    let (done, failed) = (work.done.load(Ordering::SeqCst), work.failed.load(Ordering::SeqCst));
    eprintln!(
        "{} kills in {:?}, {} with requests in flight, {} in a consolidation; git: {:?}; {done} writes, {failed} attempts failed",
        counts.kills,
        start.elapsed(),
        counts.busy,
        counts.consolidations,
        counts.processes,
    );
    assert!(counts.busy * 10 >= counts.kills * 9, "most kills hit no request");
    assert!(failed * 4 >= counts.kills, "most kills failed no attempt");
    assert!(counts.consolidations > 0 || !is_slow(), "no kill hit a consolidation");
    settled(cluster).await;
    let refs = all_acknowledged_is_there(&work, &acknowledged).await;
    events_are_exact(cluster, &work, &refs).await;
    assert_eq!(fsck_all(cluster, 0, &Git::new()).await, REPOSITORIES.len());
}

async fn settled(cluster: &Cluster) {
    let waiting = "SELECT COUNT(*) FROM outbox WHERE delivered_us IS NULL";
    let open = "SELECT COUNT(*) FROM ref_journal WHERE state = 'open'";
    let start = Instant::now();
    while cluster.number(Role::Git, waiting).await + cluster.number(Role::Git, open).await > 0 {
        assert!(start.elapsed() < SETTLE_TIMEOUT, "events are not delivered or journal entries stay open");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Compares fresh clones with the acknowledged writes. Returns all refs by repository and name.
async fn all_acknowledged_is_there(
    work: &Workload,
    acknowledged: &[Acknowledged],
) -> HashMap<(String, String), String> {
    let (git, mut refs, mut commits) = (Git::new(), HashMap::new(), HashMap::new());
    for name in REPOSITORIES {
        let copy = format!("{name}.git");
        git.run("", &["clone", "-q", "--mirror", &work.user.git_url(&work.user.name, name), &copy]).await;
        git.run(&copy, &["fsck", "--strict"]).await;
        for line in git.refs(&copy).await.lines() {
            let (name_of_ref, tip) = line.split_once(' ').unwrap();
            refs.insert((name.to_owned(), name_of_ref.to_owned()), tip.to_owned());
        }
        if refs.contains_key(&(name.to_owned(), "refs/heads/main".to_owned())) {
            let all = git.run(&copy, &["rev-list", "refs/heads/main"]).await;
            commits.insert(name, all.lines().map(str::to_owned).collect::<HashSet<_>>());
        }
    }
    let mut on_main: HashMap<&str, usize> = HashMap::new();
    for acknowledged in acknowledged {
        match acknowledged {
            Acknowledged::Ref(name, name_of_ref, tip) => {
                let found = refs.get(&((*name).to_owned(), name_of_ref.clone()));
                assert_eq!(found, tip.as_ref(), "{name} {name_of_ref}");
            }
            Acknowledged::Commit(name, branch, commit) => {
                assert!(commits[name].contains(commit), "{name} {branch}: {commit} was acknowledged but is missing");
                *on_main.entry(name).or_default() += 1;
            }
        }
    }
    for (name, count) in on_main {
        assert_eq!(commits[name].len(), count + 1, "{name}: one commit per write, and the first one");
    }
    refs
}

/// Every ref change has one confirmed journal entry and one event, delivered once. Together they
/// lead to the current refs.
async fn events_are_exact(cluster: &Cluster, work: &Workload, refs: &HashMap<(String, String), String>) {
    let mut names = HashMap::new();
    for name in REPOSITORIES {
        let repository = work.user.get(&work.user.repo(name, "")).await.expect(200).json();
        names.insert(repository["id"].as_i64().unwrap(), name.to_owned());
    }
    // issue-svc also gets some of them.
    let query = "SELECT payload FROM outbox WHERE kind = 'refs.updated' AND subscriber = 'repo-svc' ORDER BY id";
    let payloads = cluster.bytes(Role::Git, query.to_owned()).await;
    let (mut chains, mut seen, mut updates) = (HashMap::<_, Vec<(String, String)>>::new(), HashSet::new(), 0_i64);
    for payload in &payloads {
        let event = Event::decode(payload.as_slice()).unwrap();
        let Some(Fact::RefsUpdated(fact)) = event.fact else { panic!("{event:?}") };
        let Some(name) = names.get(&event.repository_id) else { continue };
        for update in fact.updates {
            updates += 1;
            let change = (name.clone(), update.name.clone(), update.old_id.clone(), update.new_id.clone());
            assert!(seen.insert(change.clone()), "two events: {change:?}");
            let key = (name.clone(), String::from_utf8(update.name).unwrap());
            chains.entry(key).or_default().push((update.old_id, update.new_id));
        }
    }
    let zero = "0".repeat(40);
    for (key, chain) in &chains {
        let mut now = zero.clone();
        for (old, new) in chain {
            assert_eq!(*old, now, "{key:?}: an event is missing, or they are out of order");
            now.clone_from(new);
        }
        assert_eq!(refs.get(key).unwrap_or(&zero), &now, "{key:?}: events do not lead to its value");
    }
    assert!(refs.keys().all(|key| chains.contains_key(key)), "a ref without an event");
    let confirmed = cluster.number(Role::Git, "SELECT COUNT(*) FROM ref_journal WHERE state = 'confirmed'").await;
    assert_eq!(updates, confirmed, "updates in events, confirmed");
    let delivered = cluster.number(Role::Repo, "SELECT COUNT(*) FROM inbox WHERE kind = 'refs.updated'").await;
    assert_eq!(delivered, i64::try_from(payloads.len()).unwrap(), "events delivered, sent");
}
