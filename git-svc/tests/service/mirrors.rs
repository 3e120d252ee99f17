//! Mirrors that follow another host.

use std::{collections::BTreeSet, time::Duration};

use ferrite_proto::{
    Permission,
    events::{MirrorChanged, RefsUpdateKind, RefsUpdated, event::Fact},
    git::{StartMigrationRequest, SyncMirrorRequest, UpdateMirrorRequest},
};

use crate::{
    harness::{Service, reason},
    imports::{end, packs_asked_for, request, service_for, service_for_all},
    push::wait_until,
    remote::{LOGIN, Remote, followed_refs},
};

const ID: i64 = 60;

fn states(service: &Service) -> Vec<MirrorChanged> {
    let facts = service.facts(ID).into_iter();
    facts.filter_map(|fact| if let Fact::MirrorChanged(changed) = fact { Some(changed) } else { None }).collect()
}

async fn sync(service: &Service) -> MirrorChanged {
    let before = states(service).len();
    let asked = SyncMirrorRequest { repository_id: ID };
    let mut grant = service.grant(ID, ferrite_proto::operation::SYNC_MIRROR);
    (grant.is_mirror, grant.permission) = (true, Permission::Admin);
    let token = service.sign(grant);
    service.mirrors().sync_mirror(crate::harness::with_token(asked, &token)).await.unwrap();
    for _ in 0..1000 {
        if let Some(state) = states(service).get(before) {
            return state.clone();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the mirror is not synced");
}

/// Returns the updates of all events after the first `skip`, as `name old? new?`.
fn updates(service: &Service, skip: usize) -> (BTreeSet<String>, Vec<RefsUpdated>) {
    let facts = service.facts(ID).into_iter();
    let events: Vec<_> = facts
        .filter_map(|fact| if let Fact::RefsUpdated(update) = fact { Some(update) } else { None })
        .skip(skip)
        .collect();
    let is_set = |id: &str| id.bytes().any(|byte| byte != b'0');
    let text = |update: &ferrite_proto::events::RefUpdate| {
        let name = String::from_utf8(update.name.clone()).unwrap();
        match (is_set(&update.old_id), is_set(&update.new_id)) {
            (false, _) => format!("new {name}"),
            (_, false) => format!("gone {name}"),
            _ => format!("moved {name}"),
        }
    };
    (events.iter().flat_map(|event| event.updates.iter().map(text)).collect(), events)
}

async fn mirror(remote: &Remote, flags: &[&str]) -> Service {
    let service = service_for(remote, flags).await;
    let asked = StartMigrationRequest {
        username: LOGIN.0.to_owned(),
        password: LOGIN.1.to_owned(),
        mirror_interval_seconds: 600,
        ..request(ID, &remote.url("secret", "demo.git"))
    };
    service.imports().start_migration(asked).await.unwrap();
    assert_eq!(end(&service, ID).await.0.error, "");
    service
}

#[tokio::test]
async fn a_mirror_follows_its_remote_with_the_events_of_pushes() {
    let remote = Remote::start().await;
    let repo = remote.repository("demo.git");
    let first = repo.commit("refs/heads/main", "one", &[]);
    repo.commit("refs/heads/forced", "two", &[first]);
    repo.commit("refs/heads/gone", "three", &[first]);
    repo.commit("refs/heads/folder", "four", &[first]);
    repo.0.set_head("refs/heads/main").unwrap();
    let mut service = mirror(&remote, &[]).await;
    let state = states(&service).remove(0);
    assert_eq!((state.version, state.state.as_ref().unwrap().interval_seconds), (1, 600));

    let requests = remote.seen().len();
    let state = sync(&service).await;
    assert_eq!((state.version, state.state.unwrap().last_error.as_str()), (2, ""));
    assert_eq!(remote.seen().len() - requests, 2, "an unchanged remote costs one request");
    assert_eq!(updates(&service, 0).0, BTreeSet::new());

    // The pull requests of the remote do not come, and those of the mirror stay.
    service.on_disk(ID).reference("refs/pull/1/head", first, false, "").unwrap();
    repo.commit("refs/pull/2/head", "pulled", &[first]);
    repo.commit("refs/heads/main", "pushed", &[first]);
    repo.commit("refs/heads/forced", "other", &[]);
    repo.delete("refs/heads/gone");
    repo.delete("refs/heads/folder");
    repo.commit("refs/heads/folder/inner", "five", &[first]);
    repo.tag("v1", first);
    assert_eq!(sync(&service).await.state.unwrap().last_error, "");
    assert_eq!(followed_refs(&service.on_disk(ID)), repo.refs());
    let (found, events) = updates(&service, 0);
    let expected = [
        "gone refs/heads/folder",
        "gone refs/heads/gone",
        "moved refs/heads/forced",
        "moved refs/heads/main",
        "new refs/heads/folder/inner",
        "new refs/tags/v1",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
    let pulls = service.on_disk(ID);
    assert_eq!(pulls.refname_to_id("refs/pull/1/head").unwrap(), first);
    assert!(pulls.refname_to_id("refs/pull/2/head").is_err());
    assert!(events.iter().all(|event| event.kind() == RefsUpdateKind::Mirror && event.user_id == 7), "{events:?}");

    // The default branch is renamed there.
    let seen = events.len();
    repo.point("refs/heads/trunk", repo.0.refname_to_id("refs/heads/main").unwrap());
    repo.0.set_head("refs/heads/trunk").unwrap();
    repo.delete("refs/heads/main");
    sync(&service).await;
    assert_eq!(followed_refs(&service.on_disk(ID)), repo.refs());
    let (_, events) = updates(&service, seen);
    assert_eq!(events.last().unwrap().default_branch, b"trunk");
    assert!(events.iter().all(|event| !event.is_empty), "{events:?}");

    // The schedule and the login are in the database only.
    service.stop().await;
    service.launch().await;
    repo.commit("refs/heads/trunk", "again", &[]);
    assert_eq!(sync(&service).await.state.unwrap().last_error, "");
    assert_eq!(followed_refs(&service.on_disk(ID)), repo.refs());
    crate::push::git(service.on_disk(ID).path(), &["fsck", "--strict"]).await;
}

#[tokio::test]
async fn slow_mirrors_of_one_user_do_not_hold_up_those_of_others() {
    let (slow, remote) = (Remote::start().await, Remote::start().await);
    for host in [&slow, &remote] {
        let repo = host.repository("demo.git");
        repo.commit("refs/heads/main", "one", &[]);
        repo.0.set_head("refs/heads/main").unwrap();
    }
    let service = service_for_all(&[&remote, &slow], &["--mirrors-at-once=2"]).await;
    let of_another = ID + 9;
    for (id, user_id, url) in [
        (ID, 7, slow.url("stuck", "demo.git")),
        (ID + 1, 7, slow.url("stuck", "demo.git")),
        (ID + 2, 7, slow.url("stuck", "demo.git")),
        (of_another, 8, remote.url("open", "demo.git")),
    ] {
        let asked = StartMigrationRequest { mirror_interval_seconds: 600, user_id, ..request(id, &url) };
        service.imports().start_migration(asked).await.unwrap();
        assert_eq!(end(&service, id).await.0.error, "");
    }
    slow.get_stuck();
    for host in [&slow, &remote] {
        host.repository("demo.git").commit("refs/heads/main", "two", &[]);
    }
    let sync = async |id: i64| {
        let mut grant = service.grant(id, ferrite_proto::operation::SYNC_MIRROR);
        (grant.is_mirror, grant.permission) = (true, Permission::Admin);
        let asked = crate::harness::with_token(SyncMirrorRequest { repository_id: id }, &service.sign(grant));
        service.mirrors().sync_mirror(asked).await.unwrap();
    };
    let before = packs_asked_for(&slow);
    for id in ID..ID + 3 {
        sync(id).await;
    }
    wait_until("two syncs hang", || packs_asked_for(&slow) >= before + 2).await;
    sync(of_another).await;
    let followed = || followed_refs(&service.on_disk(of_another)) == remote.repository("demo.git").refs();
    wait_until("the mirror of the other user follows", followed).await;
}

#[tokio::test]
async fn failures_are_told_and_a_mirror_recovers() {
    let remote = Remote::start().await;
    let repo = remote.repository("demo.git");
    let first = repo.commit("refs/heads/main", "one", &[]);
    repo.0.set_head("refs/heads/main").unwrap();
    let service = mirror(&remote, &["--migration-max-bytes=3000000"]).await;
    let before = repo.refs();
    let path = repo.0.path().to_owned();
    std::fs::rename(&path, path.with_extension("away")).unwrap();
    let failed = sync(&service).await.state.unwrap();
    assert_eq!(failed.last_error, "there is no repository at this address");
    let delay = |state: &ferrite_proto::repo::MirrorState| {
        state.next_sync_time.as_ref().unwrap().seconds - i64::try_from(crate::harness::now()).unwrap()
    };
    assert!((1050..=1330).contains(&delay(&failed)), "twice the interval: {}", delay(&failed));
    std::fs::rename(path.with_extension("away"), &path).unwrap();

    // Over the limit, so nothing is kept.
    let mut noise = vec![0; 4 << 20];
    rand::RngCore::fill_bytes(&mut rand::rng(), &mut noise);
    let blob = repo.0.blob(&noise).unwrap();
    repo.point("refs/tags/noise", blob);
    assert_eq!(sync(&service).await.state.unwrap().last_error, "the repository is larger than 3000000 bytes");
    assert_eq!(followed_refs(&service.on_disk(ID)), before);
    repo.delete("refs/tags/noise");
    repo.commit("refs/heads/main", "two", &[first]);
    let state = sync(&service).await.state.unwrap();
    assert_eq!(state.last_error, "");
    assert!((500..=700).contains(&delay(&state)), "{}", delay(&state));
    assert_eq!(followed_refs(&service.on_disk(ID)), repo.refs());
    assert_eq!(std::fs::read_dir(service.store().join("incoming")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_schedule_is_changed_and_other_repositories_are_no_mirrors() {
    let remote = Remote::start().await;
    remote.repository("demo.git").commit("refs/heads/main", "one", &[]);
    let service = mirror(&remote, &[]).await;
    let update = async |id: i64, seconds: i64| {
        let mut grant = service.grant(id, ferrite_proto::operation::UPDATE_MIRROR);
        (grant.is_mirror, grant.permission) = (id == ID, Permission::Admin);
        let asked = UpdateMirrorRequest { repository_id: id, interval_seconds: seconds };
        service.mirrors().update_mirror(crate::harness::with_token(asked, &service.sign(grant))).await
    };
    update(ID, 7200).await.unwrap();
    wait_until("the new state is sent", || states(&service).len() > 1).await;
    let state = states(&service).remove(1);
    assert_eq!((state.version, state.state.unwrap().interval_seconds), (2, 7200));
    for wrong in [0, 599, 31_536_001] {
        let refused = update(ID, wrong).await.unwrap_err();
        assert_eq!(ferrite_proto::error::violations(&refused)[0].0, "interval_seconds", "{wrong}");
    }
    let id = service.create().await;
    assert_eq!(reason(&update(id, 7200).await.unwrap_err()), "NOT_A_MIRROR");
    let sync = service.with_grant(id, SyncMirrorRequest { repository_id: id });
    assert_eq!(reason(&service.mirrors().sync_mirror(sync).await.unwrap_err()), "NOT_A_MIRROR");

    let deleted = ferrite_proto::git::DeleteRepositoryRequest { repository_id: ID };
    service.storage().delete_repository(deleted).await.unwrap();
    assert_eq!(reason(&update(ID, 9000).await.unwrap_err()), "REPOSITORY_NOT_FOUND");
}

#[tokio::test]
async fn a_repeated_change_of_a_schedule_changes_nothing() {
    let remote = Remote::start().await;
    remote.repository("demo.git").commit("refs/heads/main", "one", &[]);
    let service = mirror(&remote, &[]).await;
    let update = async |seconds: i64, key: &str| {
        let mut grant = service.grant(ID, ferrite_proto::operation::UPDATE_MIRROR);
        (grant.is_mirror, grant.permission) = (true, Permission::Admin);
        let asked = UpdateMirrorRequest { repository_id: ID, interval_seconds: seconds };
        let mut request = crate::harness::with_token(asked, &service.sign(grant));
        request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
        service.mirrors().update_mirror(request).await
    };
    update(7200, "k1").await.unwrap();
    update(9000, "k2").await.unwrap();
    // Setting the same interval again is also a repeatable write.
    update(9000, "k3").await.unwrap();
    for (seconds, key) in [(7200, "k1"), (9000, "k2")] {
        update(seconds, key).await.unwrap();
    }
    assert_eq!(reason(&update(7200, "k3").await.unwrap_err()), "IDEMPOTENCY_KEY_REUSED");
    update(10_800, "k4").await.unwrap();
    update(9000, "k3").await.unwrap();
    wait_until("the new states are sent", || states(&service).len() > 3).await;
    let told: Vec<_> =
        states(&service).into_iter().skip(1).map(|changed| changed.state.unwrap().interval_seconds).collect();
    assert_eq!(told, [7200, 9000, 10_800]);
}
