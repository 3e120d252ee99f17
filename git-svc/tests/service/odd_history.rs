//! Faulty histories from old tools: push, import and fork accept them, and every read and write
//! works on them.

use axum::body::Body;
use ferrite_proto::{
    ServiceRole,
    git::{
        Commit, CreateRepositoryRequest, DescribeUpdatesRequest, GetBranchRequest, GetCommitRequest,
        GetContentsRequest, GetTagObjectRequest, GetTreeRequest, ListBranchesRequest, ListCommitsRequest,
        ListPushedCommitsRequest, ListTagsRequest, MigrationPhase, UpdateToDescribe, get_contents_response::Contents,
        storage_service_client::StorageServiceClient,
    },
    operation::{ARCHIVE, RAW},
};
use http::{Method, StatusCode};

use crate::{
    attacks::Workshop,
    bodies,
    harness::{Service, put_request},
    imports::{end, request, service_for},
    odd_objects::{ODD_LINES, OddHistory, odd_history},
    push::{Gateway, git, try_git},
    remote::Remote,
    writes::{protect, rule},
};

async fn bytes(service: &Service, id: i64, operation: &str, path: &str) -> Vec<u8> {
    let request = bodies::request(service, Method::GET, &format!("/git/{id}/{path}"), operation, id);
    let (status, _, body) = bodies::send(service, request.body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body:?}");
    body.to_vec()
}

fn person(commit: &Commit, is_author: bool) -> (&str, &str, i64) {
    let person = if is_author { &commit.author } else { &commit.committer }.as_ref().unwrap();
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (text(&person.name), text(&person.email), person.time.as_ref().unwrap().seconds)
}

async fn push_all(w: &Workshop, gateway: &Gateway, id: i64) {
    let (is_done, text) = try_git(w.path(), &["push", &gateway.remote(id), "refs/heads/*", "refs/tags/*"]).await;
    assert!(is_done, "{text}");
}

/// Asserts that a repository has the history and that all reads return it.
async fn assert_readable(service: &Service, id: i64, history: &OddHistory) {
    let list = ListCommitsRequest { repository_id: id, page: 1, page_size: 1000, ..ListCommitsRequest::default() };
    let listed = service.data().list_commits(service.with_grant(id, list.clone())).await.unwrap().into_inner();
    let find = |id: &String| listed.commits.iter().find(|commit| commit.id == *id).unwrap();
    assert_eq!(
        (listed.commits.len(), listed.total_count),
        (history.commits.len(), i64::try_from(history.commits.len()).ok())
    );
    for (odd, commit) in ODD_LINES.iter().zip(&history.commits) {
        let expected = (odd.name, odd.email, odd.seconds);
        assert_eq!((person(find(commit), true), person(find(commit), false)), (expected, expected), "{}", odd.line);
        let get = GetCommitRequest { repository_id: id, revision: commit.clone().into_bytes(), ..Default::default() };
        let single = service.git().get_commit(service.with_grant(id, get)).await.unwrap().into_inner().commit.unwrap();
        assert_eq!(&single, find(commit), "{}", odd.line);
    }
    let [authors, nul, extra, modes] = history.commits.last_chunk().unwrap();
    assert_eq!(person(find(authors), true).0, "Ada");
    assert_eq!((find(nul).message.as_slice(), find(nul).is_truncated), (b"Nul".as_slice(), true));
    assert_eq!(find(extra).message, "Müller, fixes #1\n".as_bytes());
    assert_eq!(find(extra).parent_ids, *std::slice::from_ref(nul));
    let of_path = ListCommitsRequest { path: b"f".to_vec(), ..list };
    let listed = service.data().list_commits(service.with_grant(id, of_path)).await.unwrap().into_inner();
    assert_eq!(listed.commits.len(), history.commits.len());

    let page = ListBranchesRequest { repository_id: id, page: 1, page_size: 10 };
    let branches = service.git().list_branches(service.with_grant(id, page)).await.unwrap().into_inner().branches;
    assert_eq!((branches.len(), &branches[0].commit.as_ref().unwrap().id), (1, modes));
    let page = ListTagsRequest { repository_id: id, page: 1, page_size: 100 };
    let tags = service.data().list_tags(service.with_grant(id, page)).await.unwrap().into_inner().tags;
    assert_eq!(tags.len(), history.tags.len());
    for (index, (name, tag)) in history.tags.iter().enumerate() {
        let get = GetTagObjectRequest { repository_id: id, tag_id: tag.clone() };
        let found = service.data().get_tag_object(service.with_grant(id, get)).await.unwrap().into_inner();
        assert_eq!((found.message, &found.object_id), (format!("Tag {index}\n").into_bytes(), modes), "{name}");
        if let Some(odd) = ODD_LINES.get(index) {
            let tagger = found.tagger.unwrap();
            let shown = (tagger.name.as_slice(), tagger.email.as_slice(), tagger.time.unwrap().seconds);
            assert_eq!(shown, (odd.name.as_bytes(), odd.email.as_bytes(), odd.seconds), "{}", odd.line);
        }
        let get = GetCommitRequest { repository_id: id, revision: name.clone().into_bytes(), ..Default::default() };
        let commit = service.git().get_commit(service.with_grant(id, get)).await.unwrap().into_inner().commit.unwrap();
        assert_eq!(&commit.id, modes, "{name}");
    }

    let tree = GetTreeRequest { repository_id: id, tree_ish: b"main".to_vec(), is_recursive: true };
    let tree = service.data().get_tree(service.with_grant(id, tree)).await.unwrap().into_inner();
    let shown: Vec<_> = tree.items.iter().map(|item| (String::from_utf8_lossy(&item.path), item.mode)).collect();
    let expected = [
        ("f", 0o100_644),
        ("group", 0o100_644),
        ("padded", 0o040_000),
        ("padded/f", 0o100_644),
        ("run", 0o100_755),
        ("to", 0o120_000),
    ];
    assert_eq!(shown, expected.map(|(path, mode)| (path.into(), mode)));
    let get = GetContentsRequest { repository_id: id, revision: b"t00".to_vec(), path: Vec::new() };
    let root = service.git().get_contents(service.with_grant(id, get)).await.unwrap().into_inner().contents;
    assert!(matches!(root, Some(Contents::Directory(root)) if root.entries.len() == 5));
    for revision in &history.commits {
        assert!(!bytes(service, id, RAW, &format!("raw?path={revision}/f")).await.is_empty());
        for format in ["zip", "tar.gz"] {
            let path = format!("archive?revision={revision}&format={format}&prefix=x");
            assert!(bytes(service, id, ARCHIVE, &path).await.len() > 50, "{revision}");
        }
    }
    let update = |old: &str, new: &str| UpdateToDescribe {
        name: b"refs/heads/main".to_vec(),
        old_id: old.to_owned(),
        new_id: new.to_owned(),
    };
    let pairs = history.commits.windows(2).map(|pair| update(&pair[0], &pair[1]));
    let described = DescribeUpdatesRequest {
        repository_id: id,
        updates: pairs.collect(),
        commit_limit: 20,
        path_limit: 300,
        message_bytes_limit: 1024,
        with_head: true,
    };
    let mut hooks = StorageServiceClient::new(service.channel_of(ServiceRole::HookSvc));
    let described = hooks.describe_updates(described).await.unwrap().into_inner();
    for (update, commit) in described.updates.iter().zip(&history.commits[1..]) {
        assert_eq!((update.commits.len(), &update.commits[0].id), (1, commit));
        assert_eq!(update.commits[0].message.as_bytes(), find(commit).message);
    }
    let mut issues = StorageServiceClient::new(service.channel_of(ServiceRole::IssueSvc));
    let pushed = ListPushedCommitsRequest {
        repository_id: id,
        old_id: history.commits[0].clone(),
        new_id: history.tip().to_owned(),
        limit: 1000,
    };
    let pushed = issues.list_pushed_commits(pushed).await.unwrap().into_inner().commits;
    assert_eq!(pushed.len(), history.commits.len() - 1);
    assert!(pushed.iter().any(|commit| commit.message == "Müller, fixes #1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_taken_from_a_push_and_nothing_stumbles_over_it() {
    let gateway = Gateway::start().await;
    let service = &gateway.service;
    let (id, w) = (service.create().await, Workshop::new().await);
    let history = odd_history(&w);
    history.assert_odd(&w);
    // One by one, each on top of the existing ones.
    let remote = gateway.remote(id);
    for commit in &history.commits {
        let (is_done, text) = try_git(w.path(), &["push", &remote, &format!("{commit}:refs/heads/main")]).await;
        assert!(is_done, "{commit}: {text}");
    }
    push_all(&w, &gateway, id).await;
    assert_readable(service, id, &history).await;

    let made = service.put(id, "padded/g", b"on top").await;
    let get = GetBranchRequest { repository_id: id, name: b"main".to_vec() };
    let branch = service.git().get_branch(service.with_grant(id, get)).await.unwrap().into_inner().branch.unwrap();
    let commit = branch.commit.unwrap();
    assert_eq!((&commit.id, commit.parent_ids), (&made, vec![history.tip().to_owned()]));
    let copy = tempfile::tempdir().unwrap();
    git(copy.path(), &["clone", "-q", "--mirror", &remote, "copy"]).await;
    let copy = copy.path().join("copy");
    assert_eq!(git(&copy, &["rev-list", "--count", "main"]).await, (history.commits.len() + 1).to_string());
    git(&copy, &["fsck", "--connectivity-only"]).await;

    let source = CreateRepositoryRequest {
        repository_id: 900,
        store: "s1".into(),
        epoch: 1,
        default_branch: "main".into(),
        source_repository_id: id,
        user_id: 7,
        ..CreateRepositoryRequest::default()
    };
    service.storage().create_repository(source).await.unwrap();
    assert_eq!(
        git(&copy, &["ls-remote", "--refs", &gateway.remote(900)]).await,
        git(&copy, &["ls-remote", "--refs", &remote]).await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_forbids_force_pushes_follows_old_history() {
    let gateway = Gateway::start().await;
    let service = &gateway.service;
    let (id, w) = (service.create().await, Workshop::new().await);
    let history = odd_history(&w);
    let remote = gateway.remote(id);
    protect(service, rule(id, "main")).await;
    for commit in &history.commits {
        let (is_done, text) = try_git(w.path(), &["push", &remote, &format!("{commit}:refs/heads/main")]).await;
        assert!(is_done, "{commit}: {text}");
    }
    let back = format!("+{}:refs/heads/main", history.commits[3]);
    let (is_done, text) = try_git(w.path(), &["push", &remote, &back]).await;
    assert!(!is_done && text.contains("protected branch: "), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_takes_what_a_push_does() {
    let remote = Remote::start().await;
    let w = Workshop::new().await;
    let history = odd_history(&w);
    let source = remote.repository("odd.git").0.path().to_owned();
    git(w.path(), &["push", "-q", source.to_str().unwrap(), "refs/heads/*", "refs/tags/*"]).await;
    remote.repository("odd.git").0.set_head("refs/heads/main").unwrap();
    let service = service_for(&remote, &[]).await;
    service.imports().start_migration(request(60, &remote.url("open", "odd.git"))).await.unwrap();
    let (state, _) = end(&service, 60).await;
    assert_eq!((state.phase(), state.error.as_str()), (MigrationPhase::Done, ""));
    assert_readable(&service, 60, &history).await;
    let put = service.with_grant(60, put_request(60, "new", b"x"));
    service.git().put_contents(put).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_refused_names_object_and_finding() {
    let remote = Remote::start().await;
    let service = service_for(&remote, &[]).await;
    let w = Workshop::new().await;
    let modules = b"[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n";
    let (dot_git, blob) = (w.tree(&[("40000", b".git", &w.tree(&[]))]), w.object("blob", modules));
    let cases = [
        ("a.git", w.commit(&dot_git), format!("`hasDotgit` in object {dot_git}")),
        ("b.git", w.file("100644", b".gitmodules", modules), format!("`gitmodulesUrl` in object {blob}")),
    ];
    for (number, (name, commit, finding)) in (70..).zip(cases) {
        let source = remote.repository(name).0.path().to_owned();
        git(w.path(), &["push", "-q", source.to_str().unwrap(), &format!("{commit}:refs/heads/main")]).await;
        service.imports().start_migration(request(number, &remote.url("open", name))).await.unwrap();
        let (state, _) = end(&service, number).await;
        assert_eq!(state.phase(), MigrationPhase::Failed);
        assert_eq!(state.error, format!("the repository has invalid objects: {finding}"));
    }
}
