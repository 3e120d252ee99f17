//! Two hundred kills at random points: of git-svc, of the gateway, and of the git processes that work for them, while several
//! writers go on. Each writer remembers what was acknowledged; in the end that is there, whole, and was told once.

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
use crate::harness::tree::{Random, fsck_all, git_below, nobody_works_in};
use crate::harness::{Answer, Cluster, Git, Options, Profile, Role, User, rounds, run_forgiving};

/// How often each is killed. A launcher waits longer and longer before it starts a process again that dies again and again.
struct Plan {
    git: usize,
    gateway: usize,
    processes: usize,
}

const EMBEDDED: Plan = Plan { git: 8, gateway: 6, processes: 56 };
const PRODUCTION: Plan = Plan { git: 40, gateway: 20, processes: 70 };
/// Upkeep that never rests, so that it is hit as well.
const SETTINGS: &[(&str, &str)] = &[
    ("FERRITE_GIT_UPKEEP_INTERVAL_SECONDS", "0.3"),
    ("FERRITE_GIT_UPKEEP_JOBS", "1"),
    ("FERRITE_GIT_UPKEEP_LOOSE_OBJECTS", "20"),
    ("FERRITE_GIT_UPKEEP_PACKS", "3"),
    ("FERRITE_GIT_UPKEEP_UPDATES", "4"),
    ("FERRITE_GIT_UPKEEP_REPACK_SECONDS", "2"),
    ("FERRITE_GIT_UPKEEP_FULL_SECONDS", "15"),
    ("FERRITE_GIT_UPKEEP_LOOSE_REFS", "4"),
];
/// What git-svc says of a git process that was killed, and what the gateway then says of git-svc.
const EXPECTED: &[&str] = &["signal: 9", "a service failed: internal error"];
const ATTEMPT: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(60);
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
    run_forgiving(&cluster, EXPECTED, nothing_acknowledged_is_lost(&cluster, plan));
}

/// Commits to push; more than are needed.
fn commits() -> u32 {
    u32::try_from(rounds(900).max(200)).unwrap()
}

/// What all writers share.
struct Work {
    user: User,
    ssh: Client,
    source: Git,
    /// Commits, each the parent of the next.
    chain: Vec<String>,
    is_over: AtomicBool,
    /// Attempts that are going on, that failed, and that ended well.
    flying: AtomicUsize,
    failed: AtomicUsize,
    done: AtomicUsize,
    /// How far each branch of a pusher is for sure, and how far it may be.
    branches: Mutex<BTreeMap<String, (usize, usize)>>,
}

/// What a writer was told in the end.
enum Told {
    /// A ref of a repository is at a commit, or gone.
    Ref(&'static str, String, Option<String>),
    /// A branch of a repository holds a commit.
    Commit(&'static str, String, String),
}

impl Work {
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
        let [flying, failed, done] = [const { AtomicUsize::new(0) }; 3];
        Self { user, ssh, source, chain, is_over, flying, failed, done, branches }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Tries until it goes well. Whether it did before a failure was heard is for `attempt` to know.
    async fn insist<T, F: Future<Output = Result<T, String>>>(&self, what: &str, attempt: impl Fn() -> F) -> T {
        let start = Instant::now();
        loop {
            self.flying.fetch_add(1, Ordering::SeqCst);
            let outcome = tokio::time::timeout(ATTEMPT, attempt()).await;
            self.flying.fetch_sub(1, Ordering::SeqCst);
            match outcome.unwrap_or_else(|_| panic!("{what} hangs")) {
                Ok(done) => {
                    self.done.fetch_add(1, Ordering::SeqCst);
                    return done;
                }
                Err(error) => {
                    self.failed.fetch_add(1, Ordering::SeqCst);
                    assert!(start.elapsed() < 2 * PATIENCE, "{what} is never acknowledged: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Pushes until git says that it is done.
    async fn push(&self, name: &'static str, refspec: &str) {
        self.insist(&format!("{name}: push {refspec}"), || async {
            let (user, source) = (&self.user, &self.source);
            let output = if name == "ssh" {
                let url = self.ssh.url(&user.name, name);
                self.ssh.command(source, "source.git", &["push", "-q", &url, refspec]).output().await
            } else {
                source.command("source.git", &["push", "-q", &user.git_url(&user.name, name), refspec]).output().await
            };
            let output = output.unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            // A ref that is gone already was removed by an attempt whose answer was lost.
            let is_gone = refspec.starts_with(':') && told.contains("does not exist");
            if output.status.success() || is_gone { Ok(()) } else { Err(told) }
        })
        .await;
    }

    /// Sends a write with a key, so that a repeat gets the answer to the one that was done.
    async fn write(&self, method: Method, path: &str, key: &str, body: &Value) -> String {
        self.insist(key, || async {
            let request = self.user.request(method.clone(), path).header("idempotency-key", key).json(body);
            let answer = Answer::try_of(request).await.map_err(|error| error.to_string())?;
            let status = answer.status.as_u16();
            if status == 201 {
                return Ok(answer.json()["commit"]["sha"].as_str().unwrap().to_owned());
            }
            assert!(status >= 500 || status == 409, "{key}: {status}: {}", answer.text());
            Err(answer.text())
        })
        .await
    }

    /// Pushes commit after commit to a branch, and now and then a tag that goes again.
    async fn pusher(&self, name: &'static str, number: usize) -> Vec<Told> {
        let (branch, mut told) = (format!("refs/heads/writer-{number}"), Vec::new());
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
                    told.push(Told::Ref(name, tag, None));
                }
                _ => {}
            }
        }
        told.push(Told::Ref(name, branch, Some(self.chain[last].clone())));
        told
    }

    /// Writes file after file.
    async fn putter(&self, number: usize) -> Vec<Told> {
        let mut told = Vec::new();
        for step in 0.. {
            if self.is_over() {
                break;
            }
            let path = self.user.repo("puts", &format!("/contents/dir-{}/file-{number}-{step}", step % 5));
            let body =
                json!({"message": format!("Put {number} {step}"), "content": encode(&format!("{number} {step}"))});
            let commit = self.write(Method::PUT, &path, &format!("put-{number}-{step}"), &body).await;
            told.push(Told::Commit("puts", "refs/heads/main".to_owned(), commit));
        }
        told
    }

    /// Changes several files at once, and begins branches.
    async fn changer(&self) -> Vec<Told> {
        let (mut told, path) = (Vec::new(), self.user.repo("changes", "/contents"));
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
            told.push(match step % 3 {
                2 => Told::Ref("changes", format!("refs/heads/{branch}"), Some(commit)),
                _ => Told::Commit("changes", "refs/heads/main".to_owned(), commit),
            });
        }
        told
    }

    /// Copies every repository and looks whether the branches of pushers are where they may be.
    async fn look(&self) {
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
                assert_eq!(sure, 0, "{key} is not there");
                continue;
            };
            let place = self.chain.iter().position(|commit| commit == tip);
            let place = place.unwrap_or_else(|| panic!("{key} is at {tip}, which nobody pushed"));
            assert!((sure..=may_be).contains(&place), "{key}: {place}, not {sure} to {may_be}");
        }
    }
}

fn encode(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// What is killed next.
#[derive(Clone, Copy)]
enum Target {
    Role(Role),
    Process,
}

/// What became of the kills.
#[derive(Default)]
struct Toll {
    kills: usize,
    /// With requests in flight.
    busy: usize,
    processes: BTreeMap<String, usize>,
}

/// Kills until the plan is done.
async fn kill_all(cluster: &Cluster, work: &Work, plan: &Plan) -> Toll {
    let mut random = Random::seeded();
    let mut targets = vec![Target::Role(Role::Git); rounds(plan.git)];
    targets.extend(vec![Target::Role(Role::Gateway); rounds(plan.gateway)]);
    targets.extend(vec![Target::Process; rounds(plan.processes)]);
    for index in (1..targets.len()).rev() {
        let other = random.below(index as u64 + 1);
        targets.swap(index, usize::try_from(other).unwrap());
    }
    let (mut toll, third) = (Toll::default(), targets.len() / 3);
    for (index, target) in targets.into_iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(10 + random.below(120))).await;
        match target {
            Target::Role(role) => {
                toll.busy += usize::from(work.flying.load(Ordering::SeqCst) > 0);
                tokio::task::block_in_place(|| cluster.crash(role));
            }
            Target::Process => {
                let (name, is_busy) = kill_git(cluster, work, &mut random).await;
                toll.busy += usize::from(is_busy);
                *toll.processes.entry(name).or_default() += 1;
            }
        }
        toll.kills += 1;
        if index == third || index == 2 * third {
            work.look().await;
        }
    }
    toll
}

/// Kills a git process that works for git-svc: of a wanted kind if one shows up, or else any.
async fn kill_git(cluster: &Cluster, work: &Work, random: &mut Random) -> (String, bool) {
    const WANTED: [&str; 8] =
        ["", "receive-pack", "index-pack", "update-ref", "update-ref", "repack", "pack-objects", "pack-refs"];
    let root = cluster.process_id(Role::Git).unwrap();
    let wanted = WANTED[usize::try_from(random.below(WANTED.len() as u64)).unwrap()];
    let start = Instant::now();
    loop {
        let running = git_below(root);
        let is_any = wanted.is_empty() || start.elapsed() > Duration::from_millis(300);
        let fitting: Vec<_> = running.iter().filter(|process| is_any || process.name == wanted).collect();
        if !fitting.is_empty() {
            let victim = fitting[usize::try_from(random.below(fitting.len() as u64)).unwrap()];
            let is_busy = work.flying.load(Ordering::SeqCst) > 0;
            let id = rustix::process::Pid::from_raw(victim.id.try_into().unwrap()).unwrap();
            if rustix::process::kill_process(id, Signal::KILL).is_ok() {
                return (victim.name.clone(), is_busy);
            }
        }
        assert!(start.elapsed() < PATIENCE, "git-svc runs no git");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn nothing_acknowledged_is_lost(cluster: &Cluster, plan: &Plan) {
    let work = Arc::new(Work::new(cluster).await);
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
    let toll = kill_all(cluster, &work, plan).await;
    work.is_over.store(true, Ordering::SeqCst);
    let mut told = Vec::new();
    while let Some(writer) = writers.join_next().await {
        told.extend(writer.unwrap());
    }
    let (done, failed) = (work.done.load(Ordering::SeqCst), work.failed.load(Ordering::SeqCst));
    eprintln!(
        "{} kills in {:?}, {} with requests in flight; git: {:?}; {done} writes, {failed} attempts failed",
        toll.kills,
        start.elapsed(),
        toll.busy,
        toll.processes,
    );
    assert!(toll.busy * 10 >= toll.kills * 9, "most kills hit nobody");
    assert!(failed * 4 >= toll.kills, "most kills harmed nobody");
    settled(cluster).await;
    let refs = what_is_there(&work, &told).await;
    events_are_exact(cluster, &work, &refs).await;
    nobody_works_in(&cluster.store(), PATIENCE).await;
    assert_eq!(fsck_all(&cluster.store(), &Git::new()).await, REPOSITORIES.len());
}

/// Waits until nothing is open and everything was told.
async fn settled(cluster: &Cluster) {
    let waiting = "SELECT COUNT(*) FROM outbox WHERE delivered_us IS NULL";
    let open = "SELECT COUNT(*) FROM ref_journal WHERE state = 'open'";
    let start = Instant::now();
    while cluster.number(Role::Git, waiting).await + cluster.number(Role::Git, open).await > 0 {
        assert!(start.elapsed() < PATIENCE, "events or intents are never settled");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Holds fresh copies against what was acknowledged; all refs by repository and name.
async fn what_is_there(work: &Work, told: &[Told]) -> HashMap<(String, String), String> {
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
    for told in told {
        match told {
            Told::Ref(name, name_of_ref, tip) => {
                let found = refs.get(&((*name).to_owned(), name_of_ref.clone()));
                assert_eq!(found, tip.as_ref(), "{name} {name_of_ref}");
            }
            Told::Commit(name, branch, commit) => {
                assert!(commits[name].contains(commit), "{name} {branch}: {commit} was acknowledged and is not there");
                *on_main.entry(name).or_default() += 1;
            }
        }
    }
    for (name, count) in on_main {
        assert_eq!(commits[name].len(), count + 1, "{name}: each write makes one commit, and there is a first one");
    }
    refs
}

/// Every change of a ref has one confirmed entry and one event, which was heard once; together they lead to where refs are.
async fn events_are_exact(cluster: &Cluster, work: &Work, refs: &HashMap<(String, String), String>) {
    let mut names = HashMap::new();
    for name in REPOSITORIES {
        let repository = work.user.get(&work.user.repo(name, "")).await.expect(200).json();
        names.insert(repository["id"].as_i64().unwrap(), name.to_owned());
    }
    let payloads =
        cluster.bytes(Role::Git, "SELECT payload FROM outbox WHERE kind = 'refs.updated' ORDER BY id".to_owned()).await;
    let (mut chains, mut seen, mut updates) = (HashMap::<_, Vec<(String, String)>>::new(), HashSet::new(), 0_i64);
    for payload in &payloads {
        let event = Event::decode(payload.as_slice()).unwrap();
        let Some(Fact::RefsUpdated(fact)) = event.fact else { panic!("{event:?}") };
        let Some(name) = names.get(&event.repository_id) else { continue };
        for update in fact.updates {
            updates += 1;
            let change = (name.clone(), update.name.clone(), update.old_id.clone(), update.new_id.clone());
            assert!(seen.insert(change.clone()), "told twice: {change:?}");
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
        assert_eq!(refs.get(key).unwrap_or(&zero), &now, "{key:?}: events do not lead to where it is");
    }
    assert!(refs.keys().all(|key| chains.contains_key(key)), "a ref is there of which nobody was told");
    let confirmed = cluster.number(Role::Git, "SELECT COUNT(*) FROM ref_journal WHERE state = 'confirmed'").await;
    assert_eq!(updates, confirmed, "updates told, confirmed");
    let heard = cluster.number(Role::Repo, "SELECT COUNT(*) FROM inbox WHERE kind = 'refs.updated'").await;
    assert_eq!(heard, i64::try_from(payloads.len()).unwrap(), "events heard, told");
}
