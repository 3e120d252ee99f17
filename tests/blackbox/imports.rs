//! Imports from a real git server on loopback: the imported content, errors and their messages,
//! where credentials never appear, and recovery from a crash during an import.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::git_server::{Behaviour, GitServer, REACHABLE, basic};
use crate::harness::{Cluster, Git, Options, Profile, Response, Role, User, rounds};

const SECRET: &str = "hunter2-very-secret";
/// Commits of the imported repository in `make test-slow`.
const COMMITS: usize = 10_000;
const END_TIMEOUT: Duration = Duration::from_secs(120);

macro_rules! on_outward_installations {
    ($($module:ident $profile:ident { $($name:ident)* })*) => {$(
        mod $module {
            $(#[test]
            fn $name() {
                let cluster = super::outward($crate::harness::Profile::$profile);
                $crate::harness::run(&cluster, super::$name(&cluster));
            })*
        }
    )*};
}
pub(crate) use on_outward_installations;

on_outward_installations! {
    embedded Embedded {
        a_repository_is_brought_with_its_branches_tags_notes_and_wiki
        a_caller_that_does_not_wait_finds_the_import_at_its_place
        credentials_are_nowhere_while_they_are_used
        repositories_are_imported_to_accounts_of_the_caller
        what_programs_for_gitea_ask_for_is_imported_or_named
    }
    production Production {
        a_repository_is_brought_with_its_branches_tags_notes_and_wiki
        a_caller_that_does_not_wait_finds_the_import_at_its_place
        credentials_are_nowhere_while_they_are_used
    }
}

mod crashes {
    use super::*;

    on_own_installations! {
        an_import_that_is_interrupted_ends(own_options())
    }
}

mod alone {
    use super::*;

    on_own_installations! {
        @profile embedded Embedded
        addresses_that_lead_to_no_repository_are_refused_with_the_reason(with_short_idle_time())
    }

    /// Silent or slow remotes fail soon; others have enough time on a busy machine.
    fn with_short_idle_time() -> Options {
        let settings = [&REACHABLE[..], &[("FERRITE_GIT_MIGRATION_IDLE_SECONDS", "8")]].concat();
        Options { settings, ..Options::default() }
    }
}

fn own_options() -> Options {
    Options { settings: REACHABLE.to_vec(), ..Options::default() }
}

/// The shared installation for tests of imports and mirrors, which may connect to 127.0.0.1.
pub(crate) fn outward(profile: Profile) -> Arc<Cluster> {
    static EMBEDDED: OnceLock<Arc<Cluster>> = OnceLock::new();
    static PRODUCTION: OnceLock<Arc<Cluster>> = OnceLock::new();
    let place = match profile {
        Profile::Embedded => &EMBEDDED,
        Profile::Production => &PRODUCTION,
    };
    Arc::clone(place.get_or_init(|| Arc::new(Cluster::start(profile, &own_options()))))
}

/// Requests an import into the caller's account, with the additional fields `more`.
pub(crate) async fn import(user: &User, url: &str, name: &str, more: Value) -> Response {
    Response::of(import_request(user, url, name, &more)).await
}

fn import_request(user: &User, url: &str, name: &str, more: &Value) -> reqwest::RequestBuilder {
    let mut body = json!({"clone_addr": url, "uid": user.id, "repo_name": name});
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    user.request(Method::POST, "/repos/migrate").json(&body)
}

async fn start(user: &User, url: &str, name: &str, more: Value) -> String {
    let response = Response::of(import_request(user, url, name, &more).header("prefer", "respond-async")).await;
    let response = response.expect(202);
    assert_eq!(response.header("preference-applied"), "respond-async");
    let (id, location) = (response.json()["id"].as_i64().unwrap(), response.header("location"));
    let path = format!("/repos/migrations/{id}");
    assert_eq!(location, format!("{}/api/v1{path}", user.url));
    path
}

async fn ended(user: &User, path: &str) -> Value {
    let deadline = tokio::time::Instant::now() + END_TIMEOUT;
    loop {
        // The gateway or repo-svc may be down for a moment.
        let response = Response::try_of(user.request(Method::GET, path)).await;
        if let Some(value) = response.ok().filter(|response| response.status == 200).map(|response| response.json())
            && !value["finished_at"].is_null()
        {
            return value;
        }
        assert!(tokio::time::Instant::now() < deadline, "{path} did not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn heads_and_tags(git: &Git, url: &str) -> String {
    git.run("", &["ls-remote", "--heads", "--tags", url]).await
}

/// Creates a bare repository with a wiki, and with refs that are not imported.
async fn source(git: &Git, name: &str, commits: usize) {
    let folder = format!("{name}.git");
    git.large(&folder, u32::try_from(commits).unwrap()).await;
    git.run(&folder, &["notes", "add", "-m", "A note", "main"]).await;
    git.run(&folder, &["update-ref", "refs/pull/1/head", "main"]).await;
    git.run(&folder, &["update-ref", "refs/hidden/one", "main"]).await;
    let wiki = format!("{name}.wiki.git");
    git.large(&wiki, 3).await;
}

async fn a_repository_is_brought_with_its_branches_tags_notes_and_wiki(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    source(&git, "demo", rounds(COMMITS)).await;
    let server = GitServer::with_login(&git, Some(("ada", SECRET))).await;
    let login = json!({"auth_username": "ada", "auth_password": SECRET, "private": true, "description": "Brought"});
    let made = import(&ada, &server.url("demo.git"), "demo", login).await.expect(201).json();
    let seen = ["name", "description", "private", "empty", "mirror", "default_branch"].map(|field| made[field].clone());
    assert_eq!(json!(seen), json!(["demo", "Brought", true, false, false, "main"]));
    assert!(made["size"].as_i64().is_some_and(|size| size > 0) && made["watchers_count"] == 1, "{made}");
    let (ours, theirs) = (ada.git_url(&ada.name, "demo"), git.path().join("demo.git").display().to_string());
    assert_eq!(heads_and_tags(&git, &ours).await, heads_and_tags(&git, &theirs).await);
    let refs = git.run("", &["ls-remote", &ours]).await;
    assert!(
        refs.contains("refs/notes/commits") && !refs.contains("refs/pull/") && !refs.contains("refs/hidden/"),
        "{refs}"
    );
    git.run("", &["clone", "-q", "--mirror", &ours, "copy"]).await;
    git.run("copy", &["fsck", "--full"]).await;
    let wiki = (git.path().join("demo.wiki.git").display().to_string(), ada.git_url(&ada.name, "demo.wiki"));
    assert_eq!(heads_and_tags(&git, &wiki.1).await, heads_and_tags(&git, &wiki.0).await);

    // The URL can contain user and password, and the wiki can be left out.
    let url = server.url("demo.git").replace("http://", &format!("http://ada:{SECRET}@"));
    import(&ada, &url, "again", json!({"wiki": false})).await.expect(201);
    assert_eq!(heads_and_tags(&git, &ada.git_url(&ada.name, "again")).await, heads_and_tags(&git, &theirs).await);
    assert_eq!(git.attempt("", &["ls-remote", &ada.git_url(&ada.name, "again.wiki"), "main"]).await.stdout, b"");

    git.run("", &["init", "-q", "--bare", "empty.git"]).await;
    let login = json!({"auth_username": "ada", "auth_password": SECRET});
    let empty = import(&ada, &server.url("empty.git"), "empty", login).await.expect(201).json();
    assert_eq!(empty["empty"], true);
    let list = ada.get("/user/migrations").await.expect(200);
    assert_eq!(list.header("x-total-count"), "3");
    assert_eq!(list.each("repository"), ["empty", "again", "demo"].map(|name| format!("{}/{name}", ada.name)));
    assert_eq!(list.each("phase"), ["done"; 3]);
    assert!(!list.text().contains(SECRET) && !list.text().contains("127.0.0.1"));
}

async fn addresses_that_lead_to_no_repository_are_refused_with_the_reason(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    git.small("work").await;
    git.run("", &["clone", "-q", "--bare", "work", "demo.git"]).await;
    for url in [
        "/srv/git/demo.git",
        "file:///etc",
        "ssh://git@example.com/demo.git",
        "git@example.com:demo.git",
        "git://127.0.0.1/demo.git",
        "ext::sh -c date",
        "--upload-pack=date",
        "http://127.0.0.2/demo.git",
        "http://[::1]/demo.git",
        "http://[::ffff:127.0.0.1]/demo.git",
        "http://2130706434/demo.git",
        "http://0x7f.0.0.2/demo.git",
        "http://10.0.0.1/demo.git",
        "http://169.254.169.254/latest",
        "http://0.0.0.0/demo.git",
        "nonsense",
    ] {
        import(&ada, url, "demo", Value::Null).await.refused_field("clone_addr");
    }
    assert_eq!(ada.get("/user/migrations").await.expect(200).json(), json!([]), "nothing was started");

    let fails = async |url: &str, more: Value, reason: &str| {
        let response = import(&ada, url, "demo", more).await.refused_field("clone_addr");
        let message = response.json()["errors"][0]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(reason), "{url}: {message}");
    };
    // Nothing listens on this port. A port that was bound and released may belong to another test
    // by now.
    fails("http://127.0.0.1:1/demo.git", Value::Null, "cannot be reached").await;
    let server = GitServer::with_login(&git, Some(("ada", SECRET))).await;
    let url = server.url("demo.git");
    let login = json!({"auth_username": "ada", "auth_password": SECRET});
    fails(&url, Value::Null, "credentials").await;
    fails(&url, json!({"auth_username": "ada", "auth_password": "wrong"}), "credentials").await;
    fails(&server.url("none.git"), login.clone(), "no repository").await;
    for (behaviour, reason) in [
        (Behaviour::SignInPage, "smart protocol"),
        (Behaviour::Redirect("http://127.0.0.2:3000".into()), "not allowed"),
        (Behaviour::Redirect("http://[::1]:3000".into()), "not allowed"),
        (Behaviour::Redirect("http://169.254.169.254".into()), "not allowed"),
        (Behaviour::Redirect("file:///etc".into()), ""),
        (Behaviour::Hang, ""),
        (Behaviour::Drip, ""),
    ] {
        server.set(behaviour);
        fails(&url, login.clone(), reason).await;
    }
    // Redirects are followed, but credentials go only to the original server.
    let other = GitServer::start(&git).await;
    server.set(Behaviour::Redirect(other.url("").trim_end_matches('/').to_owned()));
    import(&ada, &url, "demo", login).await.expect(201);
    assert_eq!(other.logins(), 0);
    let list = ada.get("/user/migrations").await.expect(200);
    assert!(list.each("phase").iter().skip(1).all(|phase| phase == "failed"), "{}", list.text());
    assert!(list.each("error").iter().skip(1).all(|error| !error.is_empty() && !error.contains("127.0.0")));
    assert_eq!(ada.get("/user/repos").await.expect(200).each("name"), ["demo"], "nothing was left behind");
}

async fn a_caller_that_does_not_wait_finds_the_import_at_its_place(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    source(&git, "demo", 50).await;
    let server = GitServer::start(&git).await;
    server.set(Behaviour::HoldPacks);
    let path = start(&ada, &server.url("demo.git"), "demo", json!({"wiki": false})).await;
    server.pack_requested(0).await;
    let running = ada.get(&path).await.expect(200).json();
    assert_eq!((&running["phase"], &running["finished_at"]), (&json!("fetching"), &Value::Null), "{running}");
    assert_eq!(running["repository"], format!("{}/demo", ada.name));
    ada.get(&ada.repo("demo", "")).await.refused(404);
    ada.post("/user/repos", &json!({"name": "DEMO"})).await.refused(422);
    assert!(git.fails("", &["ls-remote", &ada.git_url(&ada.name, "demo")]).await.contains("not found"));
    cluster.outsider().await.get(&path).await.refused(404);
    cluster.anonymous().get(&path).await.refused(401);
    cluster.admin().await.get(&path).await.expect(200);
    server.set(Behaviour::Serve);
    let done = ended(&ada, &path).await;
    assert_eq!((&done["phase"], &done["error"]), (&json!("done"), &json!("")));
    assert!(done["objects"].as_i64().is_some_and(|objects| objects > 50) && done["bytes"].as_i64() > Some(0), "{done}");
    ada.get(&ada.repo("demo", "")).await.expect(200);

    // A disconnected caller changes nothing, and a repeated request gets the same import.
    server.set(Behaviour::HoldPacks);
    let keyed =
        || import_request(&ada, &server.url("demo.git"), "second", &json!({})).header("idempotency-key", "once");
    let hung_up = tokio::time::timeout(Duration::from_millis(500), keyed().send()).await;
    assert!(hung_up.is_err(), "the response waits for the end");
    server.set(Behaviour::Serve);
    let made = Response::of(keyed()).await.expect(201).json();
    assert_eq!(made["name"], "second");
    let list = ada.get("/user/migrations").await.expect(200);
    assert_eq!(list.each("phase"), ["done", "done"]);
    let events = cluster.admin().await.get(&format!("/admin/audit?target={}/second", ada.name)).await.expect(200);
    assert_eq!(
        (events.each("action"), &events.json()[0]["actor"]["id"]),
        (vec!["repository.create".to_owned()], &json!(ada.id))
    );
}

async fn repositories_are_imported_to_accounts_of_the_caller(cluster: &Cluster) {
    let (ada, bob, git) = (cluster.user("ada").await, cluster.user("bob").await, Git::new());
    git.small("work").await;
    git.run("", &["clone", "-q", "--bare", "work", "demo.git"]).await;
    let server = GitServer::start(&git).await;
    let organization = ada.new_organization("acme").await;
    let uid = ada.get(&format!("/orgs/{organization}")).await.expect(200).json()["id"].clone();
    let url = server.url("demo.git");
    let made = import(&ada, &url, "demo", json!({"uid": uid})).await.expect(201).json();
    assert_eq!(made["full_name"], format!("{organization}/demo"));
    import(&bob, &url, "other", json!({"uid": uid})).await.refused(403);
    import(&bob, &url, "other", json!({"uid": ada.id})).await.refused(403);
    import(&bob, &url, "other", json!({"uid": 999_999_999})).await.refused_field("uid");
    import(&cluster.admin().await, &url, "other", json!({"uid": ada.id})).await.expect(201);
    import(&ada, &url, "other", Value::Null).await.refused_fields(&[("repo_name", "taken")]);
    import(&ada, &url, "a b", Value::Null).await.refused_field("repo_name");
    import(&cluster.anonymous(), &url, "x", Value::Null).await.refused(401);
    let response = ada.post("/repos/migrate", &json!({})).await;
    response.refused_fields(&[("clone_addr", "required"), ("repo_name", "required"), ("uid", "required")]);
}

async fn what_programs_for_gitea_ask_for_is_imported_or_named(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    git.small("work").await;
    git.run("", &["clone", "-q", "--bare", "work", "demo.git"]).await;
    let server = GitServer::with_login(&git, Some(("oauth2", SECRET))).await;
    let (url, organization) = (server.url("demo.git"), ada.new_organization("acme").await);
    let more = json!({
        "uid": 0, "repo_owner": organization, "auth_token": SECRET, "service": "github", "mirror": true, "wiki": false,
        "mirror_interval": "8h0m0s", "lfs": false, "issues": true, "labels": true, "milestones": true,
        "pull_requests": true, "releases": true,
    });
    let made = import(&ada, &url, "demo", more).await.expect(201).json();
    assert_eq!(made["full_name"], format!("{organization}/demo"));
    assert_eq!((&made["original_url"], &made["mirror_interval"]), (&json!(url), &json!("8h0m0s")));
    assert_eq!(made["mirror_updated"], made["mirror_info"]["last_sync_at"]);
    let seen = cluster.anonymous().get(&format!("/repos/{organization}/demo")).await.expect(200).json();
    assert_eq!((seen.get("original_url"), seen.get("mirror_updated")), (None, None));
    let parts = json!({"auth_token": SECRET, "service": "github", "issues": true, "releases": true, "lfs": true});
    let refused = import(&ada, &url, "parts", parts).await;
    refused.refused_fields(&[("lfs", "invalid"), ("issues", "invalid"), ("releases", "invalid")]);
    let unknown = json!({"repo_owner": "no-such-account", "auth_token": SECRET});
    import(&ada, &url, "parts", unknown).await.refused_field("repo_owner");
    import(&ada, &url, "parts", json!({"uid": null})).await.refused_fields(&[("uid", "required")]);
}

fn processes(cluster: &Cluster) -> HashSet<u32> {
    let parent_of = |id: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<u32> = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let mut found: HashSet<u32> = Role::ALL.iter().filter_map(|role| cluster.process_id(*role)).collect();
    loop {
        let before = found.len();
        let children: Vec<_> = all.iter().filter(|id| parent_of(**id).is_some_and(|id| found.contains(&id))).collect();
        found.extend(children);
        if found.len() == before {
            return found;
        }
    }
}

fn has(bytes: &[u8], secrets: &[String]) -> bool {
    secrets.iter().any(|secret| bytes.windows(secret.len()).any(|part| part == secret.as_bytes()))
}

fn file_with(folder: &Path, texts: &[String]) -> Option<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().find_map(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => file_with(&path, texts),
            // Files come and go during an import.
            Ok(kind) if kind.is_file() => has(&std::fs::read(&path).unwrap_or_default(), texts).then_some(path),
            _ => None,
        }
    })
}

async fn credentials_are_nowhere_while_they_are_used(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    let secret = format!("{SECRET}-of-{}", ada.name);
    source(&git, "demo", 20).await;
    let server = GitServer::with_login(&git, Some(("ada", &secret))).await;
    server.set(Behaviour::HoldPacks);
    let login = json!({"auth_username": "ada", "auth_password": secret, "mirror": true});
    let path = start(&ada, &server.url("demo.git"), "demo", login).await;
    server.pack_requested(0).await;
    let header = basic("ada", &secret);
    let secrets = [secret.clone(), header.trim_start_matches("Basic ").to_owned()];
    let (mut responses, mut has_children) = (Vec::new(), false);
    for _ in 0..20 {
        let processes = processes(cluster);
        has_children |= processes.len() > Role::ALL.len();
        for id in processes {
            for file in ["cmdline", "environ"] {
                let content = std::fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
                assert!(!has(&content, &secrets), "/proc/{id}/{file}");
            }
        }
        responses.push(ada.get(&path).await.expect(200).text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(has_children, "git runs");
    assert_eq!(file_with(&cluster.folder, &secrets), None);
    server.set(Behaviour::Serve);
    assert_eq!(ended(&ada, &path).await["phase"], "done");
    for path in [ada.repo("demo", ""), "/user/migrations".to_owned(), ada.repo("demo", "/events")] {
        responses.push(ada.get(&path).await.expect(200).text());
    }
    responses.push(cluster.admin().await.get("/admin/audit").await.expect(200).text());
    responses.extend(cluster.log().all());
    assert!(responses.iter().all(|text| !has(text.as_bytes(), &secrets)), "in a response or a log line");
    assert_eq!(file_with(&cluster.folder, &secrets), None);
    let sealed = "SELECT credentials FROM mirrors WHERE credentials IS NOT NULL";
    let sealed = cluster.bytes(Role::Git, sealed.to_owned()).await;
    assert!(!sealed.is_empty() && sealed.iter().all(|bytes| !has(bytes, &secrets)));
    assert!(server.logins() > 1, "the password was used");
    if cluster.profile == Profile::Embedded {
        assert!(file_with(&cluster.folder, std::slice::from_ref(&ada.name)).is_some(), "files are searched");
    }
}

async fn an_import_that_is_interrupted_ends(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    source(&git, "demo", 200).await;
    let server = GitServer::start(&git).await;
    let theirs = heads_and_tags(&git, &git.path().join("demo.git").display().to_string()).await;
    for role in [Role::Git, Role::Repo, Role::Gateway] {
        let (name, packs) = (role.name(), server.packs());
        server.set(Behaviour::HoldPacks);
        let path = start(&ada, &server.url("demo.git"), name, Value::Null).await;
        server.pack_requested(packs).await;
        cluster.crash(role);
        server.set(Behaviour::Serve);
        let end = ended(&ada, &path).await;
        assert_eq!((&end["phase"], &end["error"]), (&json!("done"), &json!("")), "{role:?}");
        assert_eq!(heads_and_tags(&git, &ada.git_url(&ada.name, name)).await, theirs, "{role:?}");
        assert_eq!(heads_and_tags(&git, &ada.git_url(&ada.name, &format!("{name}.wiki"))).await.lines().count(), 1);
    }
    // At any moment of the request: there is no import, or one that ends.
    for round in 0..rounds(30) {
        let (name, role) = (format!("any-{round}"), [Role::Repo, Role::Git][round % 2]);
        let asked = import_request(&ada, &server.url("demo.git"), &name, &json!({"wiki": false}));
        let asked = Response::try_of(asked.header("prefer", "respond-async"));
        let pause = Duration::from_millis(u64::try_from(round * 7 % 50).unwrap());
        let crash = async {
            tokio::time::sleep(pause).await;
            tokio::task::block_in_place(|| cluster.crash(role));
        };
        let (_, ()) = tokio::join!(asked, crash);
        let repository = format!("{}/{name}", ada.name);
        let list = ada.get("/user/migrations").await.expect(200).json();
        let found = list.as_array().unwrap().iter().find(|one| one["repository"] == repository.as_str());
        let phase = match found {
            Some(one) => ended(&ada, &format!("/repos/migrations/{}", one["id"])).await["phase"].clone(),
            None => json!("failed"),
        };
        if phase == "done" {
            assert_eq!(heads_and_tags(&git, &ada.git_url(&ada.name, &name)).await, theirs);
        } else {
            ada.get(&ada.repo(&name, "")).await.refused(404);
            ada.new_repository(&name, json!({})).await;
        }
    }
}
