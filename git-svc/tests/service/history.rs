//! Last commits of folders and files, and histories over renames, over a real socket.

use ferrite_proto::git::{
    BlameRange, EntryKind, GetBlameRequest, GetBlameResponse, GetTreeCommitsRequest, GetTreeCommitsResponse,
    ListCommitsRequest, history_service_client::HistoryServiceClient,
};
use git2::{Oid, Repository, Signature, Time};
use tonic::{Code, Status};

use crate::harness::{Service, reason};

fn commit(repo: &Repository, files: &[(&str, &str)], parent: Option<Oid>, seconds: i64) -> Oid {
    let mut tree = repo.treebuilder(None).unwrap();
    for (name, content) in files {
        tree.insert(name, repo.blob(content.as_bytes()).unwrap(), 0o100_644).unwrap();
    }
    let tree = repo.find_tree(tree.write().unwrap()).unwrap();
    let who = Signature::new("Ada", "ada@example.com", &Time::new(seconds, 0)).unwrap();
    let parent = parent.map(|id| repo.find_commit(id).unwrap());
    repo.commit(None, &who, &who, "m\n", &tree, &parent.iter().collect::<Vec<_>>()).unwrap()
}

async fn listed(service: &Service, id: i64, revision: &str, folder: &str) -> Result<GetTreeCommitsResponse, Status> {
    let (revision, folder) = (revision.as_bytes().to_vec(), folder.as_bytes().to_vec());
    let request = GetTreeCommitsRequest { repository_id: id, revision, folder };
    let mut client = HistoryServiceClient::new(service.channel());
    Ok(client.get_tree_commits(service.with_grant(id, request)).await?.into_inner())
}

async fn blamed(service: &Service, id: i64, revision: &str, file: &str) -> Result<GetBlameResponse, Status> {
    let (revision, file) = (revision.as_bytes().to_vec(), file.as_bytes().to_vec());
    let request = GetBlameRequest { repository_id: id, revision, file };
    let mut client = HistoryServiceClient::new(service.channel());
    Ok(client.get_blame(service.with_grant(id, request)).await?.into_inner())
}

/// Kind, name and last commit of each entry.
fn entries(response: &GetTreeCommitsResponse) -> Vec<(EntryKind, &str, &str)> {
    let text = std::str::from_utf8;
    let entries = response.entries.iter();
    entries.map(|entry| (entry.kind(), text(&entry.name).unwrap(), entry.last_commit_id.as_str())).collect()
}

#[tokio::test]
async fn entries_of_a_folder_have_their_last_commits() {
    let service = Service::start().await;
    let id = service.create().await;
    let empty = listed(&service, id, "", "").await.unwrap();
    assert_eq!(empty, GetTreeCommitsResponse { is_complete: true, ..GetTreeCommitsResponse::default() });
    assert_eq!(reason(&listed(&service, id, "", "dir").await.unwrap_err()), "PATH_NOT_FOUND");
    let a = service.put(id, "a", b"1").await;
    let first = service.put(id, "dir/b", b"1").await;
    let second = service.put(id, "dir/c/d", b"2").await;
    // The second time from the cache.
    for _ in 0..2 {
        let root = listed(&service, id, "main", "").await.unwrap();
        assert_eq!(
            entries(&root),
            [(EntryKind::Directory, "dir", second.as_str()), (EntryKind::File, "a", a.as_str())]
        );
        assert!(root.is_complete && !root.is_truncated);
        assert_eq!(root.commit.unwrap().id, second);
        let found = root.commits.iter().find(|commit| commit.id == a).unwrap();
        assert_eq!((root.commits.len(), found.subject.as_slice()), (2, &b"Write a"[..]));
        let dir = listed(&service, id, "", "/dir/").await.unwrap();
        let expected = [(EntryKind::Directory, "c", second.as_str()), (EntryKind::File, "b", first.as_str())];
        assert_eq!(entries(&dir), expected);
        assert_eq!((dir.entries[1].mode, dir.entries[1].size_bytes), (0o100_644, Some(1)));
    }
    let third = service.put(id, "dir/b", b"3").await;
    let dir = listed(&service, id, "main", "dir").await.unwrap();
    assert_eq!(dir.entries[1].last_commit_id, third);
    assert_eq!(listed(&service, id, &second, "dir").await.unwrap().entries[1].last_commit_id, first);
    for (revision, folder, expected) in
        [("none", "", "REVISION_NOT_FOUND"), ("", "none", "PATH_NOT_FOUND"), ("", "a", "PATH_NOT_FOUND")]
    {
        assert_eq!(reason(&listed(&service, id, revision, folder).await.unwrap_err()), expected, "{revision} {folder}");
    }
}

#[tokio::test]
async fn lines_of_a_file_have_their_last_commits() {
    let service = Service::start().await;
    let id = service.create().await;
    let (first, second) = {
        let repo = service.on_disk(id);
        let first = commit(&repo, &[("old", "one\ntwo\nthree\nfour\n")], None, 10);
        (first, commit(&repo, &[("-new", "one\n2\nthree\nfour\n"), ("binary", "\0")], Some(first), 20))
    };
    let blame = blamed(&service, id, &second.to_string(), "./-new").await.unwrap();
    assert_eq!((blame.commit_id, blame.path.as_slice(), blame.line_count), (second.to_string(), &b"-new"[..], 4));
    let old = |start, line_count| BlameRange {
        start,
        line_count,
        commit_id: first.to_string(),
        original_path: b"old".to_vec(),
        original_start: start,
        ..BlameRange::default()
    };
    let changed = BlameRange {
        start: 2,
        line_count: 1,
        commit_id: second.to_string(),
        original_path: b"-new".to_vec(),
        original_start: 2,
        previous_id: first.to_string(),
        previous_path: b"old".to_vec(),
    };
    assert_eq!(blame.ranges, [old(1, 1), changed, old(3, 2)]);
    let mut ids: Vec<_> = blame.commits.iter().map(|commit| commit.id.clone()).collect();
    ids.sort_unstable();
    let mut expected = [first.to_string(), second.to_string()];
    expected.sort_unstable();
    assert_eq!(ids, expected);
    let error = blamed(&service, id, &second.to_string(), "binary").await.unwrap_err();
    assert_eq!((error.code(), ferrite_proto::error::violations(&error)[0].0.as_str()), (Code::InvalidArgument, "file"));
    for (revision, file, expected) in
        [("none", "old", "REVISION_NOT_FOUND"), (second.to_string().as_str(), "old", "PATH_NOT_FOUND")]
    {
        assert_eq!(reason(&blamed(&service, id, revision, file).await.unwrap_err()), expected, "{file}");
    }
}

#[tokio::test]
async fn the_history_of_a_file_goes_on_under_its_former_names() {
    let service = Service::start().await;
    let id = service.create().await;
    let ids: Vec<String> = {
        let repo = service.on_disk(id);
        let first = commit(&repo, &[("old", "one\ntwo\nthree\n")], None, 10);
        let second = commit(&repo, &[("old", "one\ntwo\n3\n")], Some(first), 20);
        let other = commit(&repo, &[("old", "one\ntwo\n3\n"), ("other", "x")], Some(second), 30);
        let moved = commit(&repo, &[("[new]", "one\ntwo\n3\n"), ("other", "x")], Some(other), 40);
        let last = commit(&repo, &[("[new]", "1\ntwo\n3\n"), ("other", "x")], Some(moved), 50);
        [last, moved, second, first].map(|id| id.to_string()).to_vec()
    };
    let list = async |follows_renames, page| {
        let request = ListCommitsRequest {
            repository_id: id,
            revision: ids[0].clone().into_bytes(),
            path: b"/[new]".to_vec(),
            page,
            page_size: 3,
            with_files: true,
            follows_renames,
            ..ListCommitsRequest::default()
        };
        let found = service.data().list_commits(service.with_grant(id, request)).await.unwrap().into_inner();
        assert!(found.commits.iter().all(|commit| commit.changes.is_some()));
        (found.commits.into_iter().map(|commit| commit.id).collect::<Vec<_>>(), found.has_more, found.total_count)
    };
    assert_eq!(list(false, 1).await, (ids[..2].to_vec(), false, Some(2)));
    // The second time from the cache.
    for _ in 0..2 {
        assert_eq!(list(true, 1).await, (ids[..3].to_vec(), true, None));
        assert_eq!(list(true, 2).await, (ids[3..].to_vec(), false, Some(4)));
    }
    assert_eq!(list(true, 10_000).await, (Vec::new(), false, None));
    assert_eq!(list(false, 1).await.0.len(), 2);
}
