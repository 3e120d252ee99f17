//! RPCs of history, refs and objects, over a real socket.

use ferrite_proto::{
    git::{
        GetBlobRequest, GetRefRequest, GetTagObjectRequest, GetTreeRequest, ListCommitsRequest, ListRefsRequest,
        ListTagsRequest, ObjectType,
    },
    grant::Grant,
    operation,
};
use git2::{Oid, Signature, Time};
use tonic::Code;

use crate::harness::{Service, reason, with_token};

fn commits(id: i64, revision: &str, path: &str, page: i32) -> ListCommitsRequest {
    let (revision, path) = (revision.as_bytes().to_vec(), path.as_bytes().to_vec());
    ListCommitsRequest { repository_id: id, revision, path, page, page_size: 2, ..ListCommitsRequest::default() }
}

async fn listed(service: &Service, request: ListCommitsRequest) -> (Vec<String>, bool, Option<i64>) {
    let id = request.repository_id;
    let found = service.data().list_commits(service.with_grant(id, request)).await.unwrap().into_inner();
    (found.commits.into_iter().map(|commit| commit.id).collect(), found.has_more, found.total_count)
}

fn who() -> Signature<'static> {
    Signature::new("Ada", "ada@example.com", &Time::new(1_000, 0)).unwrap()
}

#[tokio::test]
async fn history_comes_in_pages_of_all_commits_or_of_a_path() {
    let service = Service::start().await;
    let id = service.create().await;
    assert_eq!(listed(&service, commits(id, "", "", 1)).await, (vec![], false, Some(0)));
    let mut made = Vec::new();
    for (path, content) in [("a", "1"), ("dir/b", "1"), ("a", "2"), ("dir/b", "2"), ("a", "3")] {
        made.insert(0, service.put(id, path, content.as_bytes()).await);
    }
    assert_eq!(listed(&service, commits(id, "", "", 1)).await, (made[..2].to_vec(), true, None));
    assert_eq!(listed(&service, commits(id, "main", "", 3)).await, (made[4..].to_vec(), false, Some(5)));
    assert_eq!(listed(&service, commits(id, "HEAD", "", 9)).await, (vec![], false, Some(5)));
    let of_a = [made[0].clone(), made[2].clone()].to_vec();
    assert_eq!(listed(&service, commits(id, "", "a", 1)).await, (of_a, true, None));
    let of_b = [made[1].clone(), made[3].clone()].to_vec();
    assert_eq!(listed(&service, commits(id, &made[1], "/dir/", 1)).await, (of_b, false, Some(2)));
    assert_eq!(listed(&service, commits(id, "", "-none", 1)).await, (vec![], false, Some(0)));
}

/// The walk along a path stops after fewer commits than there are here, so `git rev-list` must find
/// them.
#[tokio::test]
async fn the_history_of_a_rare_path_is_found_by_git() {
    let service = Service::start().await;
    let id = service.create().await;
    let first = service.put(id, "-odd [*] name", b"x").await;
    let second = service.put(id, "b", b"x").await;
    {
        let repo = service.on_disk(id);
        let tree = repo.find_commit(Oid::from_str(&second).unwrap()).unwrap().tree().unwrap();
        let mut parent = repo.find_commit(Oid::from_str(&second).unwrap()).unwrap();
        let mut pack = repo.packbuilder().unwrap();
        let odb = repo.odb().unwrap();
        let pool = odb.add_new_mempack_backend(999).unwrap();
        for number in 0..10_500 {
            let made = repo.commit(None, &who(), &who(), &number.to_string(), &tree, &[&parent]).unwrap();
            parent = repo.find_commit(made).unwrap();
            pack.insert_commit(made).unwrap();
        }
        let mut bytes = git2::Buf::new();
        pool.dump(&repo, &mut bytes).unwrap();
        let mut writer = git2::Indexer::new(None, &repo.path().join("objects/pack"), 0o644, false).unwrap();
        std::io::Write::write_all(&mut writer, &bytes).unwrap();
        writer.commit().unwrap();
        repo.reference("refs/heads/long", parent.id(), false, "").unwrap();
    }
    for (path, wanted) in [("-odd [*] name", first), ("b", second)] {
        assert_eq!(listed(&service, commits(id, "long", path, 1)).await, (vec![wanted], false, Some(1)), "{path}");
    }
    assert_eq!(listed(&service, commits(id, "long", ":(top)b", 1)).await, (vec![], false, Some(0)));
    let error = service.data().list_commits(service.with_grant(id, commits(id, "long", "a\nb", 1))).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::Unavailable, "TIMED_OUT"));
    let (page, more, _) = listed(&service, commits(id, "long", "", i32::MAX)).await;
    assert_eq!((page.len(), more), (0, false));
}

#[tokio::test]
async fn trees_blobs_tags_and_refs_are_returned() {
    let service = Service::start().await;
    let id = service.create().await;
    let commit = service.put(id, "dir/a.txt", b"hello\n").await;
    let annotated = {
        let repo = service.on_disk(id);
        let target = repo.find_object(Oid::from_str(&commit).unwrap(), None).unwrap();
        repo.reference("refs/tags/v1", target.id(), false, "").unwrap();
        let annotated = repo.tag("v2", &target, &who(), "two\n", false).unwrap().to_string();
        // A ref written directly to disk is noticed at once only in `packed-refs`; a loose one when
        // the ref table is read again.
        let packed = std::process::Command::new("git").arg("-C").arg(repo.path()).args(["pack-refs", "--all"]).status();
        assert!(packed.unwrap().success());
        annotated
    };
    let tree = GetTreeRequest { repository_id: id, tree_ish: b"v2".to_vec(), is_recursive: true };
    let tree = service.data().get_tree(service.with_grant(id, tree)).await.unwrap().into_inner();
    let file = &tree.items[1];
    assert_eq!(
        (file.path.as_slice(), file.mode, file.r#type()),
        (b"dir/a.txt".as_slice(), 0o100_644, ObjectType::Blob)
    );
    assert_eq!((file.size_bytes, tree.items[0].size_bytes, tree.is_truncated), (Some(6), None, false));
    let blob = GetBlobRequest { repository_id: id, blob_id: file.id.clone() };
    let blob = service.data().get_blob(service.with_grant(id, blob)).await.unwrap().into_inner();
    assert_eq!((&blob.content[..], blob.blob_id), (&b"hello\n"[..], file.id.clone()));
    let tags = ListTagsRequest { repository_id: id, page: 1, page_size: 1000 };
    let tags = service.data().list_tags(service.with_grant(id, tags)).await.unwrap().into_inner();
    let shown: Vec<_> = tags.tags.iter().map(|tag| (tag.name.as_slice(), tag.tag_id.as_str())).collect();
    assert_eq!(shown, [(b"v1".as_slice(), ""), (b"v2", annotated.as_str())]);
    assert!(tags.tags.iter().all(|tag| tag.commit.as_ref().unwrap().id == commit) && tags.total_count == 2);
    let tag = GetTagObjectRequest { repository_id: id, tag_id: annotated.clone() };
    let tag = service.data().get_tag_object(service.with_grant(id, tag)).await.unwrap().into_inner();
    assert_eq!(
        (tag.message.as_slice(), tag.object_type(), &tag.object_id),
        (&b"two\n"[..], ObjectType::Commit, &commit)
    );
    let refs = ListRefsRequest { repository_id: id, prefix: b"refs/tags/".to_vec(), page: 2, page_size: 1 };
    let refs = service.data().list_refs(service.with_grant(id, refs)).await.unwrap().into_inner();
    let last = &refs.references[0];
    assert_eq!(
        (last.name.as_slice(), last.object_type(), refs.total_count),
        (&b"refs/tags/v2"[..], ObjectType::Tag, 2)
    );
    let one = GetRefRequest { repository_id: id, name: b"refs/heads/main".to_vec() };
    let one = service.data().get_ref(service.with_grant(id, one)).await.unwrap().into_inner().reference.unwrap();
    assert_eq!((one.object_type(), one.object_id), (ObjectType::Commit, commit));
}

#[tokio::test]
async fn invalid_revisions_names_and_ids_are_not_found() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"x").await;
    for odd in ["--all", "-n1", "main~1", "main:a", "main@{1}", "../HEAD", "refs/heads/main\n", "\0", "nope"] {
        let bytes = odd.as_bytes().to_vec();
        let error = service.data().list_commits(service.with_grant(id, commits(id, odd, "", 1))).await.unwrap_err();
        assert_eq!((error.code(), reason(&error).as_str()), (Code::NotFound, "REVISION_NOT_FOUND"), "{odd:?}");
        let tree = GetTreeRequest { repository_id: id, tree_ish: bytes.clone(), is_recursive: false };
        let error = service.data().get_tree(service.with_grant(id, tree)).await.unwrap_err();
        assert_eq!(reason(&error), "REVISION_NOT_FOUND", "{odd:?}");
        let name = GetRefRequest { repository_id: id, name: bytes };
        let error = service.data().get_ref(service.with_grant(id, name)).await.unwrap_err();
        assert_eq!(reason(&error), "REF_NOT_FOUND", "{odd:?}");
        let blob = GetBlobRequest { repository_id: id, blob_id: odd.replace('\0', "0") };
        let error = service.data().get_blob(service.with_grant(id, blob)).await.unwrap_err();
        assert_eq!(reason(&error), "OBJECT_NOT_FOUND", "{odd:?}");
    }
}

#[tokio::test]
async fn bad_pages_and_paths_name_their_field() {
    let service = Service::start().await;
    let id = service.create().await;
    let page = ListCommitsRequest { page: 0, ..commits(id, "", "", 1) };
    let size = ListCommitsRequest { page_size: 1001, ..commits(id, "", "", 1) };
    let nul = commits(id, "", "a\0b", 1);
    let long = commits(id, "", &"a/".repeat(3000), 1);
    for (request, field) in [(page, "page"), (size, "page_size"), (nul, "path"), (long, "path")] {
        let error = service.data().list_commits(service.with_grant(id, request)).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(ferrite_proto::error::violations(&error)[0].0, field);
    }
    let tags = ListTagsRequest { repository_id: id, page: 1, page_size: -1 };
    let error = service.data().list_tags(service.with_grant(id, tags)).await.unwrap_err();
    assert_eq!(ferrite_proto::error::violations(&error)[0].0, "page_size");
}

#[tokio::test]
async fn a_mirror_is_readable_and_a_grant_for_another_operation_is_refused() {
    let service = Service::start().await;
    let id = service.create().await;
    let grant = |operation| Grant { is_mirror: true, ..service.grant(id, operation) };
    let mirror = service.sign(grant(operation::LIST_COMMITS));
    service.data().list_commits(with_token(commits(id, "", "", 1), &mirror)).await.unwrap();
    let other = service.sign(grant(operation::LIST_BRANCHES));
    let error = service.data().list_commits(with_token(commits(id, "", "", 1), &other)).await.unwrap_err();
    assert_eq!(reason(&error), "BAD_GRANT");
}
