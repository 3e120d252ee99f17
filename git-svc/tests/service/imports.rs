//! Imports from another host, valid and invalid.

use std::{path::Path, time::Duration};

use ferrite_proto::{
    events::{MigrationEnded, event::Fact},
    git::{GetMigrationRequest, GetMigrationResponse, MigrationPhase, StartMigrationRequest},
};
use git2::{Oid, Repository};

use crate::{
    harness::{Service, reason},
    push::{git, wait_until},
    remote::{LOGIN, Remote, followed_refs},
};

/// Limits that soon end bad transfers.
const SHORT: [&str; 3] =
    ["--migration-idle-seconds=5", "--migration-total-seconds=60", "--migration-max-bytes=2000000"];

pub(crate) fn request(id: i64, url: &str) -> StartMigrationRequest {
    StartMigrationRequest {
        repository_id: id,
        store: "s1".into(),
        epoch: 1,
        default_branch: "main".into(),
        url: url.to_owned(),
        user_id: 7,
        ..StartMigrationRequest::default()
    }
}

/// Starts a service that may connect to this host, with additional flags.
pub(crate) async fn service_for(remote: &Remote, flags: &[&str]) -> Service {
    service_for_all(&[remote], flags).await
}

pub(crate) async fn service_for_all(remotes: &[&Remote], flags: &[&str]) -> Service {
    let hosts: Vec<_> = remotes.iter().map(|remote| remote.host()).collect();
    let allowed = format!("--outbound-allow={}", hosts.join(","));
    Service::start_with(tempfile::tempdir().unwrap(), &[&[allowed.as_str()], flags].concat()).await
}

async fn state(service: &Service, id: i64) -> GetMigrationResponse {
    service.imports().get_migration(GetMigrationRequest { repository_id: id }).await.unwrap().into_inner()
}

/// Waits for an import to end. Returns its last state and its event.
pub(crate) async fn end(service: &Service, id: i64) -> (GetMigrationResponse, MigrationEnded) {
    for _ in 0..3000 {
        let found = state(service, id).await;
        let told = service.facts(id).into_iter().find_map(|fact| match fact {
            Fact::MigrationEnded(ended) => Some(ended),
            _ => None,
        });
        if let (MigrationPhase::Done | MigrationPhase::Failed, Some(told)) = (found.phase(), told) {
            return (found, told);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the import of {id} does not end: {:?}", state(service, id).await);
}

/// Files below a directory that contain `text`.
fn files_with(folder: &Path, text: &[u8]) -> Vec<String> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if std::fs::read(entry.path()).unwrap_or_default().windows(text.len()).any(|part| part == text) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

fn incoming(service: &Service) -> usize {
    std::fs::read_dir(service.store().join("incoming")).unwrap().count()
}

/// A repository with everything that is imported, and a pull request, which is not imported.
fn fill(remote: &Remote, name: &str) -> Oid {
    let repo = remote.repository(name);
    let first = repo.commit("refs/heads/trunk", "one", &[]);
    let second = repo.commit("refs/heads/feature/two", "two", &[first]);
    repo.tag("v1", first);
    repo.point("refs/tags/light", second);
    repo.commit("refs/notes/commits", "note", &[]);
    repo.0.set_head("refs/heads/trunk").unwrap();
    repo.commit("refs/pull/1/head", "pulled", &[first])
}

#[tokio::test]
async fn a_copy_has_what_the_remote_has_and_its_password_is_nowhere() {
    let remote = Remote::start().await;
    let pulled = fill(&remote, "demo.git");
    remote.repository("demo.wiki.git").commit("refs/heads/master", "Home.md", &[]);
    let service = service_for(&remote, &[]).await;
    let asked = StartMigrationRequest {
        username: LOGIN.0.to_owned(),
        password: LOGIN.1.to_owned(),
        wiki_repository_id: 51,
        ..request(50, &remote.url("secret", "demo.git"))
    };
    service.imports().start_migration(asked.clone()).await.unwrap();
    service.imports().start_migration(asked).await.unwrap();
    let (state, told) = end(&service, 50).await;
    assert_eq!((state.phase(), state.error.as_str()), (MigrationPhase::Done, ""));
    assert_eq!((told.is_empty, told.has_wiki, told.default_branch.as_slice()), (false, true, &b"trunk"[..]));
    assert!(told.size_bytes > 0 && told.object_count > 0 && told.received_bytes > 0 && told.number == 1, "{told:?}");

    let copy = service.on_disk(50);
    assert_eq!(followed_refs(&copy), remote.repository("demo.git").refs());
    assert!(copy.find_reference("refs/pull/1/head").is_err() && copy.find_commit(pulled).is_err());
    assert_eq!(followed_refs(&service.on_disk(51)), remote.repository("demo.wiki.git").refs());
    git(copy.path(), &["fsck", "--strict"]).await;

    let pair = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("{}:{}", LOGIN.0, LOGIN.1));
    for text in [LOGIN.1, pair.as_str()] {
        assert_eq!(files_with(service.folder.path(), text.as_bytes()), [""; 0]);
    }
    assert!(remote.seen().iter().all(|(path, _)| !path.contains("hunter2")));
    assert_eq!(incoming(&service), 0);
    assert!(service.facts(51).is_empty(), "wikis emit no events");
}

#[tokio::test]
async fn an_empty_repository_is_brought_an_old_server_spoken_to_and_a_redirect_followed_without_the_password() {
    let remote = Remote::start().await;
    remote.repository("empty.git").0.set_head("refs/heads/later").unwrap();
    fill(&remote, "demo.git");
    // Another port is another server.
    let other = Remote::start().await;
    fill(&other, "demo.git");
    let service = Service::start_with(tempfile::tempdir().unwrap(), &["--outbound-allow=127.0.0.1"]).await;
    service.imports().start_migration(request(1, &remote.url("open", "empty.git"))).await.unwrap();
    let (state, told) = end(&service, 1).await;
    assert_eq!((state.error.as_str(), told.is_empty, told.default_branch.as_slice()), ("", true, &b"later"[..]));
    service.imports().start_migration(request(2, &remote.url("to-open", "demo.git"))).await.unwrap();
    assert_eq!(end(&service, 2).await.0.error, "");
    assert_eq!(followed_refs(&service.on_disk(2)), remote.repository("demo.git").refs());
    service.imports().start_migration(request(4, &remote.url("old", "demo.git"))).await.unwrap();
    assert_eq!(end(&service, 4).await.0.error, "");
    assert_eq!(followed_refs(&service.on_disk(4)), remote.repository("demo.git").refs());

    let asked =
        StartMigrationRequest { password: "hunter2".to_owned(), ..request(3, &remote.elsewhere(&other, "demo.git")) };
    service.imports().start_migration(asked).await.unwrap();
    assert_eq!(end(&service, 3).await.0.error, "");
    assert!(remote.seen().last().unwrap().1.is_some(), "its own server gets the password");
    assert!(!other.seen().is_empty() && other.seen().iter().all(|(_, login)| login.is_none()), "{:?}", other.seen());
}

#[tokio::test]
async fn bad_remotes_fail_with_neutral_reasons_and_leave_nothing() {
    let remote = Remote::start().await;
    fill(&remote, "demo.git");
    let bad = remote.repository("bad.git");
    bad_tree(&bad.0);
    let service = service_for(&remote, &SHORT).await;
    let (smart, allowed) = ("the remote does not speak git's smart protocol", "the address is not allowed");
    let cases = [
        ("page", "demo.git", smart),
        ("dumb", "demo.git", smart),
        ("to-page", "demo.git", smart),
        ("to-itself", "demo.git", smart),
        ("to-inner", "demo.git", allowed),
        ("gone", "demo.git", "there is no repository at this address"),
        ("open", "missing.git", "there is no repository at this address"),
        ("secret", "demo.git", "the remote requires credentials, or rejected the given ones"),
        ("silent", "demo.git", "the remote stopped sending or was too slow"),
        ("hang", "demo.git", "the remote stopped sending or was too slow"),
        ("late", "demo.git", "the transfer failed"),
        ("endless", "demo.git", "the repository is larger than 2000000 bytes"),
        ("open", "bad.git", "the repository has invalid objects"),
    ];
    for (id, (way, name, _)) in (1..).zip(&cases) {
        let asked = StartMigrationRequest {
            username: "ada".to_owned(),
            password: "wrong".to_owned(),
            mirror_interval_seconds: 600,
            wiki_repository_id: id + 1000,
            ..request(id, &remote.url(way, name))
        };
        service.imports().start_migration(asked).await.unwrap();
    }
    for (id, (way, name, reason)) in (1..).zip(&cases) {
        let (state, told) = end(&service, id).await;
        // The reason is followed by git's finding and the object.
        let found = state.error.split(": `").next().unwrap_or_default();
        assert_eq!((state.phase(), found), (MigrationPhase::Failed, *reason), "{way}/{name}");
        assert_eq!(told.error, state.error);
        assert!(service.facts(id).len() == 1, "no mirror was created");
        let gone =
            service.with_grant(id, ferrite_proto::git::ListBranchesRequest { repository_id: id, ..Default::default() });
        assert_eq!(self::reason(&service.git().list_branches(gone).await.unwrap_err()), "REPOSITORY_NOT_FOUND");
    }
    assert_eq!(incoming(&service), 0);
    assert_eq!(walk_repositories(&service.store().join("repos")), 0);
    let missing = service.imports().get_migration(GetMigrationRequest { repository_id: 999 }).await;
    assert_eq!(reason(&missing.unwrap_err()), "MIGRATION_NOT_FOUND");
}

#[tokio::test]
async fn an_import_that_is_given_up_leaves_no_wiki() {
    let remote = Remote::start().await;
    fill(&remote, "demo.git");
    remote.repository("demo.wiki.git").commit("refs/heads/master", "Home.md", &[]);
    let service = service_for(&remote, &[]).await;
    let asked = StartMigrationRequest { wiki_repository_id: 51, ..request(50, &remote.url("open", "demo.git")) };
    service.imports().start_migration(asked).await.unwrap();
    assert!(end(&service, 50).await.1.has_wiki);
    assert_eq!(walk_repositories(&service.store().join("repos")), 2);
    // repo-svc does this if a repository exceeds the quota or its user lost access.
    let deleted = ferrite_proto::git::DeleteRepositoryRequest { repository_id: 50 };
    service.storage().delete_repository(deleted).await.unwrap();
    assert_eq!(walk_repositories(&service.store().join("repos")), 0);
}

#[tokio::test]
async fn addresses_that_are_refused_are_told_at_once() {
    let service = Service::start().await;
    for url in [
        "http://127.0.0.1/a.git",
        "file:///etc",
        "ssh://git@example.com/a",
        "ext::sh -c id",
        "-x",
        "git://example.com/a",
    ] {
        let status = service.imports().start_migration(request(1, url)).await.unwrap_err();
        assert_eq!(ferrite_proto::error::violations(&status)[0].0, "url", "{url}");
    }
    let status = ferrite_proto::git::migration_service_client::MigrationServiceClient::new(service.stranger())
        .start_migration(request(1, "https://example.com/a.git"))
        .await;
    assert!(status.is_err());
}

#[tokio::test]
async fn an_import_goes_on_after_a_restart() {
    let remote = Remote::start().await;
    fill(&remote, "demo.git");
    let mut service = service_for(&remote, &["--migrations-at-once=1", "--migration-idle-seconds=6"]).await;
    service.imports().start_migration(request(1, &remote.url("hang", "demo.git"))).await.unwrap();
    service.imports().start_migration(request(2, &remote.url("open", "demo.git"))).await.unwrap();
    while !remote.seen().iter().any(|(path, _)| path.ends_with("git-upload-pack")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(state(&service, 2).await.phase(), MigrationPhase::Queued);
    service.stop().await;
    service.launch().await;
    assert_eq!(end(&service, 1).await.0.error, "the remote stopped sending or was too slow");
    assert_eq!(end(&service, 2).await.0.error, "");
    assert_eq!(followed_refs(&service.on_disk(2)), remote.repository("demo.git").refs());
    assert_eq!(incoming(&service), 0);
}

/// Requests for packs to a remote. Each follows one for refs.
pub(crate) fn packs_asked_for(remote: &Remote) -> usize {
    remote.seen().iter().filter(|(path, _)| path.ends_with("/git-upload-pack")).count() / 2
}

#[tokio::test]
async fn imports_of_one_user_that_wait_together_take_all_places() {
    let remote = Remote::start().await;
    fill(&remote, "demo.git");
    let mut service = service_for(&remote, &[]).await;
    for id in 1..=3 {
        service.imports().start_migration(request(id, &remote.url("hang", "demo.git"))).await.unwrap();
    }
    wait_until("two fetches hang", || packs_asked_for(&remote) >= 2).await;
    service.stop().await;
    // Now all of them are waiting when the first one starts.
    let before = packs_asked_for(&remote);
    service.launch().await;
    wait_until("two fetches hang again", || packs_asked_for(&remote) >= before + 2).await;
}

#[tokio::test]
async fn slow_imports_of_one_user_do_not_hold_up_those_of_others() {
    let (slow, remote) = (Remote::start().await, Remote::start().await);
    fill(&slow, "demo.git");
    fill(&remote, "demo.git");
    let service = service_for_all(&[&remote, &slow], &[]).await;
    for id in 1..=3 {
        service.imports().start_migration(request(id, &slow.url("hang", "demo.git"))).await.unwrap();
    }
    wait_until("two fetches hang", || packs_asked_for(&slow) >= 2).await;
    for id in 4..=5 {
        let asked = StartMigrationRequest { user_id: 8, ..request(id, &remote.url("open", "demo.git")) };
        service.imports().start_migration(asked).await.unwrap();
    }
    for id in 4..=5 {
        assert_eq!(end(&service, id).await.0.error, "");
    }
    assert_eq!(state(&service, 3).await.phase(), MigrationPhase::Queued, "the first user has reached its limit");
}

#[tokio::test]
async fn a_remote_has_to_send_a_minimum_after_some_time() {
    let remote = Remote::start().await;
    fill(&remote, "demo.git");
    let flags = ["--migration-slow-seconds=2", "--migration-slowest-bytes=100000", "--migration-idle-seconds=5"];
    let service = service_for(&remote, &flags).await;
    service.imports().start_migration(request(1, &remote.url("drip", "demo.git"))).await.unwrap();
    let (state, told) = end(&service, 1).await;
    assert_eq!(state.error, "the remote sent less than 100000 bytes per second");
    assert!(told.received_bytes > 2000, "the remote was silent: {told:?}");
}

#[tokio::test]
async fn one_user_does_not_fill_the_queue() {
    let remote = Remote::start().await;
    fill(&remote, "demo.git");
    let service = service_for(&remote, &["--migration-user-queue=2", "--migration-queue=3"]).await;
    let start = async |id: i64, user_id: i64| {
        let asked = StartMigrationRequest { user_id, ..request(id, &remote.url("hang", "demo.git")) };
        service.imports().start_migration(asked).await.map_err(|status| reason(&status))
    };
    start(1, 7).await.unwrap();
    start(2, 7).await.unwrap();
    assert_eq!(start(3, 7).await.unwrap_err(), "TOO_MANY_MIGRATIONS_OF_USER");
    start(1, 7).await.expect("a repeated request");
    start(4, 8).await.unwrap();
    assert_eq!(start(5, 9).await.unwrap_err(), "TOO_MANY_MIGRATIONS");
}

#[tokio::test]
async fn git_servers_are_asked_where_the_operator_permits_it() {
    let remote = Remote::start().await;
    fill(&remote, "demo.git");
    // The daemon cannot choose a free port itself. On a separate address, no other test takes the
    // port meanwhile.
    let host = "127.9.4.18";
    let port = std::net::TcpListener::bind((host, 0)).unwrap().local_addr().unwrap().port();
    // Not `git daemon`, which starts this program and would leave it behind when killed.
    let programs = git(remote.folder(), &["--exec-path"]).await;
    let mut daemon = tokio::process::Command::new(Path::new(&programs).join("git-daemon"));
    daemon.args(["--export-all", "--reuseaddr"]).args([format!("--listen={host}"), format!("--port={port}")]);
    daemon.arg(format!("--base-path={}", remote.folder().display())).kill_on_drop(true);
    let mut daemon = daemon.spawn().unwrap();
    while tokio::net::TcpStream::connect((host, port)).await.is_err() {
        assert!(daemon.try_wait().unwrap().is_none(), "git daemon ended");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let allowed = format!("--outbound-allow={host}:{port}");
    let flags = [allowed.as_str(), "--migration-protocols=https,git"];
    let service = Service::start_with(tempfile::tempdir().unwrap(), &flags).await;
    let asked =
        StartMigrationRequest { mirror_interval_seconds: 600, ..request(1, &format!("git://{host}:{port}/demo.git")) };
    service.imports().start_migration(asked).await.unwrap();
    assert_eq!(end(&service, 1).await.0.error, "");
    assert_eq!(followed_refs(&service.on_disk(1)), remote.repository("demo.git").refs());
    service.imports().start_migration(request(2, &format!("git://{host}:{port}/missing.git"))).await.unwrap();
    assert_eq!(end(&service, 2).await.0.error, "there is no repository at this address");
    assert!(service.imports().start_migration(request(3, &remote.url("open", "demo.git"))).await.is_err());
}

fn walk_repositories(folder: &Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_repository = entry.path().extension().is_some_and(|extension| extension == "git");
        count += if is_repository { 1 } else { walk_repositories(&entry.path()) };
    }
    count
}

/// Writes a branch whose tree has an entry that some file systems take for git's own directory.
fn bad_tree(repo: &Repository) {
    let blob = repo.blob(b"x").unwrap();
    let tree = [b"100644 .GIT\0".as_slice(), blob.as_bytes()].concat();
    let tree = repo.odb().unwrap().write(git2::ObjectType::Tree, &tree).unwrap();
    let commit = format!("tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nbad\n");
    let commit = repo.odb().unwrap().write(git2::ObjectType::Commit, commit.as_bytes()).unwrap();
    repo.reference("refs/heads/main", commit, true, "test").unwrap();
}
