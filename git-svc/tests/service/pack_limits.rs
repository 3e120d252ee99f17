//! Packs that expand or need much CPU time: they are rejected by the limit, leave nothing behind,
//! and do not block other pushes.

use std::{io::Write as _, path::Path, sync::Arc};

use axum::body::Body;
use ferrite_proto::{git::MigrationPhase, operation::RECEIVE_PACK};
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use http::Method;
use tokio::io::AsyncWriteExt as _;

use crate::{
    attacks::{BLOB, OFS_DELTA, REF_DELTA, Workshop, assert_empty, assert_unharmed, entry, pack, push},
    bodies,
    bombs::{copy, distance, size},
    harness::Service,
    imports,
    push::{Gateway, endless, find_repository, git, running_in, try_git, wait_until, work_tree},
    remote::Remote,
    session::GitDaemon,
};

const MIB: usize = 1 << 20;
/// Sum limits that no test reaches.
const LOOSE: [&str; 2] = ["--pack-expansion-base-bytes=100000000000", "--delta-expansion-base-bytes=100000000000"];

async fn start(flags: &[&str]) -> Gateway {
    Gateway::over(Service::start_with(tempfile::tempdir().unwrap(), flags).await).await
}

async fn refused(gateway: &Gateway, id: i64, mut pack: Vec<u8>, reason: &str) -> String {
    let text = push(&gateway.service, id, &[("refs/heads/main", &"1".repeat(40))], &mut pack).await;
    assert!(text.contains(&format!("unpack {reason}")), "{reason}: {text}");
    assert!(text.contains("ng refs/heads/main "), "{text}");
    assert_nothing_left(gateway).await;
    text
}

/// Asserts that the store's only repository is empty, once git has ended.
async fn assert_nothing_left(gateway: &Gateway) {
    let store = gateway.service.store();
    wait_until("git has ended", || running_in(&store) == 0).await;
    wait_until("nothing is left", || has_no_quarantine(&find_repository(&store))).await;
    assert_unharmed(&gateway.service, 0).await;
    assert_empty(&gateway.service).await;
}

fn has_no_quarantine(repository: &Path) -> bool {
    let entries = std::fs::read_dir(repository.join("objects")).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("tmp_")).count() == 0
}

fn zeros(bytes: usize) -> Vec<u8> {
    pack(1, &[entry(BLOB, bytes as u64, b"", &vec![0; bytes])])
}

fn copies(bytes: usize, count: u32) -> Vec<u8> {
    let mut entries = vec![entry(BLOB, bytes as u64, b"", &vec![0; bytes])];
    let mut back = entries[0].len();
    for number in 0..count {
        let made = [&[4], number.to_be_bytes().as_slice(), &copy(u32::try_from(bytes).unwrap())].concat();
        let delta = [size(bytes as u64), size(bytes as u64 + 4), made].concat();
        let delta = entry(OFS_DELTA, delta.len() as u64, &distance(back), &delta);
        back += delta.len();
        entries.push(delta);
    }
    pack(count + 1, &entries)
}

#[tokio::test]
async fn a_small_pack_that_inflates_to_much_is_refused_with_the_limit() {
    let gateway = start(&[]).await;
    let id = gateway.service.create().await;
    let bomb = zeros(256 * MIB);
    assert!(bomb.len() < MIB);
    let text = refused(&gateway, id, bomb, "the pack inflates to more than ").await;
    assert!(text.contains(" bytes (limit: 100 times that plus 67108864)"), "{text}");
    // A header that claims less than the content has, which git would inflate to its end.
    let liar = pack(1, &[entry(BLOB, 40 * MIB as u64, b"", &vec![0; 50 * MIB])]);
    refused(&gateway, id, liar, "the pack is malformed").await;
    // Exactly the allowance of every pack.
    let text = push(&gateway.service, id, &[("refs/heads/main", &"1".repeat(40))], &mut zeros(60 * MIB)).await;
    assert!(!text.contains("inflates"), "{text}");
}

#[tokio::test]
async fn a_real_client_is_told_the_limit_over_http_and_in_a_session() {
    let gateway = start(&[]).await;
    let id = gateway.service.create().await;
    let daemon = GitDaemon::over(Arc::clone(&gateway.service)).await;
    let w = Workshop::new().await;
    let tip = w.file("100644", b"zeros", &vec![0; 100 * MIB]);
    for remote in [gateway.remote(id), format!("{}/{id}", daemon.url)] {
        let (succeeded, text) = try_git(w.path(), &["push", &remote, &format!("{tip}:refs/heads/main")]).await;
        assert!(!succeeded, "{text}");
        assert!(text.contains("remote: the pack inflates to more than "), "{text}");
        assert!(text.contains("unpack failed: the pack inflates") && text.contains("[remote rejected]"), "{text}");
    }
    assert_nothing_left(&gateway).await;
}

#[tokio::test]
async fn deltas_count_with_what_they_make() {
    let gateway = start(&["--delta-expansion-base-bytes=100000000", "--max-object-bytes=20000000"]).await;
    let id = gateway.service.create().await;
    let bomb = copies(4 * MIB, 100);
    assert!(bomb.len() < 20_000, "{}", bomb.len());
    refused(&gateway, id, bomb, "the deltas of the pack expand to more than ").await;
    refused(&gateway, id, zeros(20 * MIB), "the pack has an object of 20971520 bytes; the limit is 20000000").await;
    let large = [size(4), size(20_000_001), copy(4)].concat();
    let large = entry(OFS_DELTA, large.len() as u64, &distance(13), &large);
    let made = pack(2, &[entry(BLOB, 4, b"", b"base"), large]);
    refused(&gateway, id, made, "the pack has an object of 20000001 bytes; the limit is 20000000").await;
}

#[tokio::test]
async fn a_delta_of_an_object_that_git_makes_none_of_is_refused() {
    let gateway = start(&LOOSE).await;
    let id = gateway.service.create().await;
    let base = entry(BLOB, 4, b"", b"base");
    let reason = "the pack has a delta for an object of 536870913 bytes; the limit is 536870912";
    for sizes in [(4, (512 << 20) + 1), ((512 << 20) + 1, 4)] {
        let delta = [size(sizes.0), size(sizes.1), copy(4)].concat();
        let delta = entry(OFS_DELTA, delta.len() as u64, &distance(base.len()), &delta);
        refused(&gateway, id, pack(2, &[base.clone(), delta]), reason).await;
    }
}

#[tokio::test]
async fn bases_outside_of_the_pack_count_once_for_each_delta() {
    let gateway = start(&["--delta-expansion-base-bytes=20000000"]).await;
    let id = gateway.service.create().await;
    let blob = {
        let commit = gateway.service.put(id, "large", &vec![0; 4 * MIB]).await;
        git(&find_repository(&gateway.service.store()), &["rev-parse", &format!("{commit}:large")]).await
    };
    let deltas = (0..10_u8).map(|number| {
        let delta = [size(4 * MIB as u64), size(1), vec![1, number]].concat();
        entry(REF_DELTA, delta.len() as u64, &hex::decode(&blob).unwrap(), &delta)
    });
    let deltas: Vec<_> = deltas.collect();
    let text = push(&gateway.service, id, &[("refs/heads/x", &"1".repeat(40))], &mut pack(10, &deltas)).await;
    assert!(text.contains("unpack the deltas of the pack expand to more than "), "{text}");
    assert_unharmed(&gateway.service, 1).await;
}

#[tokio::test]
async fn a_push_that_keeps_a_processor_busy_is_ended_with_a_report() {
    let limit = ["--pack-cpu-seconds=1", "--pack-cpu-milliseconds-per-mib=0"];
    let gateway = start(&[&LOOSE[..], &limit].concat()).await;
    let id = gateway.service.create().await;
    let reason = "the push took more than 1 s of CPU time";
    refused(&gateway, id, copies(15 * MIB, 400), reason).await;
    // The same pack within its time limit, including the time that its bytes add.
    let gateway = start(&LOOSE).await;
    let id = gateway.service.create().await;
    let text = push(&gateway.service, id, &[("refs/heads/main", &"1".repeat(40))], &mut copies(15 * MIB, 2)).await;
    assert!(!text.contains("CPU time"), "{text}");
}

#[tokio::test]
async fn a_compressed_request_counts_as_sent() {
    let gateway = start(&["--max-pack-expansion=2", "--pack-expansion-base-bytes=1000"]).await;
    let id = gateway.service.create().await;
    // Not compressed in the pack, but in the request.
    let length = 10 * MIB;
    let mut stored = entry(BLOB, length as u64, b"", b"");
    stored.truncate(4);
    let mut encoder = ZlibEncoder::new(stored, Compression::none());
    encoder.write_all(&vec![0; length]).unwrap();
    let stored = pack(1, &[encoder.finish().unwrap()]);
    let text = push(&gateway.service, id, &[("refs/heads/main", &"1".repeat(40))], &mut stored.clone()).await;
    assert!(!text.contains("inflates"), "{text}");
    let command = format!("{} {} refs/heads/main\0report-status", "0".repeat(40), "1".repeat(40));
    let head = format!("{:04x}{command}0000", command.len() + 4);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&[head.as_bytes(), &stored].concat()).unwrap();
    let path = format!("/git/{id}/receive-pack");
    let request = bodies::request(&gateway.service, Method::POST, &path, RECEIVE_PACK, id);
    let request = request.header("content-encoding", "gzip").body(Body::from(encoder.finish().unwrap())).unwrap();
    let (_, _, response) = bodies::send(&gateway.service, request).await;
    let text = String::from_utf8_lossy(&response).into_owned();
    assert!(text.contains("unpack the pack inflates to more than "), "{text}");
}

#[tokio::test]
async fn two_accounts_that_hold_pushes_leave_places_for_others() {
    let gateway = start(&["--pushes=4", "--wait-seconds=2"]).await;
    let service = &gateway.service;
    let command = format!("{} {} refs/heads/main\0report-status", "0".repeat(40), "1".repeat(40));
    let head = format!("{:04x}{command}0000PACK\0\0\0\x02\0\0\0\x01", command.len() + 4);
    let mut senders = Vec::new();
    // User 7 also owns the sessions, so that both transports count together.
    let daemon = GitDaemon::over(Arc::clone(service)).await;
    let id = service.create().await;
    let mut session = daemon.connect(id).await;
    session.write_all(head.as_bytes()).await.unwrap();
    for user in [7, 7, 12, 12] {
        let id = service.create().await;
        let mut grant = service.grant(id, RECEIVE_PACK);
        grant.user.as_mut().unwrap().id = user;
        let (body, sender) = endless();
        sender.send(Ok(head.clone().into())).await.unwrap();
        let path = format!("/git/{id}/receive-pack");
        let request = bodies::request_as(service, Method::POST, &path, grant).body(body).unwrap();
        let own = Arc::clone(service);
        gateway.spawn(async move { drop(bodies::send(&own, request).await) });
        senders.push(sender);
    }
    // Each has a process of git and one that reads the pack.
    let store = service.store();
    wait_until("two pushes run", || running_in(&store) >= 4).await;
    let id = service.create().await;
    let folder = tempfile::tempdir().unwrap();
    work_tree(folder.path()).await;
    git(folder.path(), &["push", &gateway.remote_as(id, 13, "write"), "main"]).await;
    drop((senders, session));
}

#[tokio::test]
async fn others_push_while_two_accounts_send_bombs() {
    let gateway = start(&["--pushes=4", "--wait-seconds=10"]).await;
    let service = &gateway.service;
    let w = Workshop::new().await;
    let tip = w.file("100644", b"zeros", &vec![0; 100 * MIB]);
    let mut bombs = Vec::new();
    for user in [11, 11, 12, 12] {
        let (remote, path) = (gateway.remote_as(service.create().await, user, "write"), w.path().to_owned());
        let target = format!("{tip}:refs/heads/main");
        bombs.push(gateway.spawn(async move {
            let (succeeded, text) = try_git(&path, &["push", &remote, &target]).await;
            assert!(!succeeded && text.contains("the pack inflates to more than "), "{text}");
        }));
    }
    let id = service.create().await;
    let folder = tempfile::tempdir().unwrap();
    work_tree(folder.path()).await;
    for branch in ["main:one", "main:two", "main:three"] {
        git(folder.path(), &["push", &gateway.remote_as(id, 13, "write"), branch]).await;
    }
    for bomb in bombs {
        bomb.await.unwrap();
    }
}

#[tokio::test]
async fn an_import_is_held_to_the_limits_of_pushes() {
    let remote = Remote::start().await;
    let repo = remote.repository("zeros.git");
    // Large enough for git to work through more than one check of its CPU time.
    let blob = repo.0.blob(&vec![0; 200 * MIB]).unwrap();
    let mut tree = repo.0.treebuilder(None).unwrap();
    tree.insert("zeros", blob, 0o100_644).unwrap();
    let tree = repo.0.find_tree(tree.write().unwrap()).unwrap();
    let who = git2::Signature::now("Ada", "ada@example.com").unwrap();
    repo.0.commit(Some("refs/heads/main"), &who, &who, "zeros", &tree, &[]).unwrap();
    let no_cpu = [&LOOSE[..], &["--pack-cpu-seconds=0", "--pack-cpu-milliseconds-per-mib=0"]].concat();
    let cases: [(&[&str], &str); 4] = [
        (&[], "the repository has objects that are too large"),
        (&["--max-object-bytes=100000000", LOOSE[0]], "the repository has objects that are too large"),
        (&no_cpu, "the repository takes too long to unpack"),
        (&LOOSE, ""),
    ];
    for (flags, reason) in cases {
        let service = imports::service_for(&remote, flags).await;
        let asked = imports::request(1, &remote.url("open", "zeros.git"));
        service.imports().start_migration(asked).await.unwrap();
        let (state, _) = imports::end(&service, 1).await;
        assert_eq!(state.error, reason, "{flags:?}");
        assert_eq!(state.phase() == MigrationPhase::Done, reason.is_empty());
        let incoming = std::fs::read_dir(service.store().join("incoming")).unwrap().count();
        assert_eq!(incoming, 0);
    }
}
