//! Comparisons and diffs over a real socket, and their text over plain HTTP.

use std::process::Command;

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::{
    git::{
        ChangeStatus, Changes, CompareRequest, CompareResponse, GetCommitRequest, GetDiffRequest, LineKind,
        ListCommitsRequest, Whitespace,
    },
    grant::Grant,
    operation::{COMPARE, DIFF},
};
use git2::{Oid, Repository, Signature, Time};
use http::{HeaderMap, Method, StatusCode};
use tonic::{Code, Status};

use crate::{
    bodies::{request, send},
    harness::{Service, reason, with_token},
};

fn commit(repo: &Repository, files: &[(&str, &[u8])], parents: &[Oid], seconds: i64) -> Oid {
    let mut tree = repo.treebuilder(None).unwrap();
    for (name, content) in files {
        tree.insert(name, repo.blob(content).unwrap(), 0o100_644).unwrap();
    }
    let tree = repo.find_tree(tree.write().unwrap()).unwrap();
    let who = Signature::new("Ada", "ada@example.com", &Time::new(seconds, 0)).unwrap();
    let parents: Vec<_> = parents.iter().map(|id| repo.find_commit(*id).unwrap()).collect();
    repo.commit(None, &who, &who, "m\n", &tree, &parents.iter().collect::<Vec<_>>()).unwrap()
}

/// A repository with two branches: `root` ← `main`, and `root` ← `first` ← `topic`.
struct Parted {
    service: Service,
    id: i64,
    root: Oid,
    main: Oid,
    first: Oid,
    topic: Oid,
    alone: Oid,
}

async fn parted() -> Parted {
    let service = Service::start().await;
    let id = service.create().await;
    let repo = service.on_disk(id);
    let long = "one\ntwo\nthree\nfour\nfive\n".repeat(4).into_bytes();
    let longer = [&long[..], b"end"].concat();
    let root = commit(&repo, &[("a", b"1\n"), ("long", &long)], &[], 10);
    let main = commit(&repo, &[("a", b"2\n"), ("long", &long)], &[root], 20);
    let first = commit(&repo, &[("a", b"1\n"), ("long", &long), ("b", b"x\n")], &[root], 30);
    let topic = commit(&repo, &[("a", b"1\n"), ("moved", &longer), ("b", b"x\n\0")], &[first], 40);
    let alone = commit(&repo, &[("z", b"z\n")], &[], 50);
    drop(repo);
    Parted { service, id, root, main, first, topic, alone }
}

fn revision(id: Oid) -> Vec<u8> {
    id.to_string().into_bytes()
}

impl Parted {
    fn request(&self, base: Oid, head: Oid) -> CompareRequest {
        let (base, head) = (revision(base), revision(head));
        CompareRequest { repository_id: self.id, base, head, page: 1, page_size: 10, ..CompareRequest::default() }
    }

    async fn compare(&self, request: CompareRequest) -> Result<CompareResponse, Status> {
        let request = self.service.with_grant(self.id, request);
        self.service.diffs().compare(request).await.map(tonic::Response::into_inner)
    }

    async fn text(&self, method: Method, query: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Bytes) {
        let mut builder = request(&self.service, method, &format!("/git/{}/diff?{query}", self.id), DIFF, self.id);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        send(&self.service, builder.body(Body::empty()).unwrap()).await
    }

    /// What git prints in the repository.
    fn plain(&self, arguments: &[&str]) -> Vec<u8> {
        let path = self.service.on_disk(self.id).path().to_owned();
        let mut command = Command::new("git");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = command.arg("-C").arg(path).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }
}

fn shown(changes: &Changes) -> Vec<String> {
    let file = |file: &ferrite_proto::git::ChangedFile| {
        let letter = match file.status() {
            ChangeStatus::Added => 'A',
            ChangeStatus::Changed => 'M',
            ChangeStatus::Deleted => 'D',
            ChangeStatus::Renamed => 'R',
            other => panic!("{other:?}"),
        };
        let path = String::from_utf8_lossy(&file.path).into_owned();
        format!("{letter} {path} {} {}", file.additions, file.deletions)
    };
    changes.files.iter().map(file).collect()
}

#[tokio::test]
async fn a_comparison_has_what_the_head_has_more() {
    let f = parted().await;
    let found = f.compare(f.request(f.main, f.topic)).await.unwrap();
    assert_eq!((found.merge_base_id, found.total_count, found.has_more), (f.root.to_string(), 2, false));
    assert_eq!((found.base_id, found.head_id), (f.main.to_string(), f.topic.to_string()));
    let ids: Vec<_> = found.commits.iter().map(|commit| commit.id.clone()).collect();
    assert_eq!(ids, [f.topic.to_string(), f.first.to_string()]);
    assert!(found.commits.iter().all(|commit| commit.changes.is_none()), "not requested");
    let changes = found.changes.unwrap();
    assert_eq!(shown(&changes), ["A b 0 0", "R moved 1 0"]);
    assert!(changes.files[0].is_binary && changes.files[0].old_id.is_empty());
    assert_eq!((changes.files[1].old_path.as_slice(), changes.file_count), (&b"long"[..], 2));
    // With the base itself, and a page of commits with their changes.
    let direct = CompareRequest {
        is_direct: true,
        page_size: 1,
        page: 2,
        with_stats: true,
        with_files: true,
        ..f.request(f.main, f.topic)
    };
    let found = f.compare(direct).await.unwrap();
    assert_eq!(shown(&found.changes.unwrap()), ["M a 1 1", "A b 0 0", "R moved 1 0"]);
    assert_eq!((found.total_count, found.has_more, found.commits[0].id.clone()), (2, false, f.first.to_string()));
    assert_eq!(shown(found.commits[0].changes.as_ref().unwrap()), ["A b 1 0"]);
    for (base, head) in [(f.topic, f.first), (f.topic, f.topic)] {
        let nothing = f.compare(f.request(base, head)).await.unwrap();
        assert_eq!((nothing.total_count, nothing.changes), (0, Some(Changes::default())));
    }
}

#[tokio::test]
async fn commits_without_common_history_are_compared_directly_only() {
    let f = parted().await;
    let error = f.compare(f.request(f.main, f.alone)).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::NotFound, "NO_COMMON_HISTORY"));
    let direct = CompareRequest { is_direct: true, with_files: true, ..f.request(f.main, f.alone) };
    let found = f.compare(direct).await.unwrap();
    assert_eq!((found.merge_base_id.as_str(), found.total_count), ("", 1));
    assert_eq!(shown(&found.changes.unwrap()), ["D a 0 1", "D long 0 20", "A z 1 0"]);
    assert_eq!(shown(found.commits[0].changes.as_ref().unwrap()), ["A z 0 0"], "lines were not requested");
    let (status, _, _) = f.text(Method::GET, &format!("base={}&head={}&format=diff", f.main, f.alone), &[]).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn bad_revisions_and_pages_are_refused_and_a_mirror_is_read() {
    let f = parted().await;
    for (base, head) in [("--all", "HEAD"), ("nope", "nope"), ("main~1", "nope")] {
        let request = CompareRequest { base: base.into(), head: head.into(), ..f.request(f.main, f.topic) };
        assert_eq!(reason(&f.compare(request).await.unwrap_err()), "REVISION_NOT_FOUND", "{base} {head}");
    }
    let page = CompareRequest { page_size: 1001, ..f.request(f.main, f.topic) };
    assert_eq!(ferrite_proto::error::violations(&f.compare(page).await.unwrap_err())[0].0, "page_size");
    let mirror = f.service.sign(Grant { is_mirror: true, ..f.service.grant(f.id, COMPARE) });
    f.service.diffs().compare(with_token(f.request(f.main, f.topic), &mirror)).await.unwrap();
}

#[tokio::test]
async fn commits_have_what_they_changed_if_that_is_requested() {
    let f = parted().await;
    let get = async |id: Oid, with_stats, with_files| {
        let request = GetCommitRequest { repository_id: f.id, revision: revision(id), with_stats, with_files };
        let found = f.service.git().get_commit(f.service.with_grant(f.id, request)).await.unwrap();
        found.into_inner().commit.unwrap().changes
    };
    assert_eq!(get(f.topic, false, false).await, None);
    assert_eq!(shown(&get(f.root, true, true).await.unwrap()), ["A a 1 0", "A long 20 0"]);
    let stats = get(f.root, true, false).await.unwrap();
    assert_eq!((stats.additions, stats.file_count, stats.files.len()), (21, 2, 0));
    assert_eq!(shown(&get(f.root, false, true).await.unwrap()), ["A a 0 0", "A long 0 0"]);
    let list = ListCommitsRequest {
        repository_id: f.id,
        revision: revision(f.topic),
        page: 1,
        page_size: 10,
        with_stats: true,
        with_files: true,
        ..ListCommitsRequest::default()
    };
    let found = f.service.data().list_commits(f.service.with_grant(f.id, list)).await.unwrap().into_inner();
    let all: Vec<_> = found.commits.iter().map(|commit| shown(commit.changes.as_ref().unwrap()).join(", ")).collect();
    assert_eq!(all, ["M b 0 0, R moved 1 0", "A b 1 0", "A a 1 0, A long 20 0"]);
}

#[tokio::test]
async fn a_diff_has_the_lines_of_each_file() {
    let f = parted().await;
    let get = async |base: Vec<u8>, head: Oid, is_direct| {
        let head = revision(head);
        let request = GetDiffRequest { repository_id: f.id, base, head, is_direct, ..GetDiffRequest::default() };
        f.service.diffs().get_diff(f.service.with_grant(f.id, request)).await.map(tonic::Response::into_inner)
    };
    let found = get(Vec::new(), f.topic, false).await.unwrap();
    assert_eq!((found.old_id, found.new_id), (f.first.to_string(), f.topic.to_string()));
    assert_eq!(shown(&found.changes.unwrap()), ["M b 0 0", "R moved 1 0"]);
    assert!(found.patches[0].hunks.is_empty(), "a binary file");
    let hunk = &found.patches[1].hunks[0];
    assert_eq!((hunk.old_start, hunk.old_line_count, hunk.new_start, hunk.new_line_count), (18, 3, 18, 4));
    let last = hunk.lines.last().unwrap();
    assert_eq!((last.kind(), last.text.as_slice(), last.is_without_newline), (LineKind::Added, &b"end"[..], true));
    let found = get(revision(f.main), f.topic, false).await.unwrap();
    assert_eq!((found.old_id, found.patches.len()), (f.root.to_string(), 2));
    let found = get(revision(f.main), f.topic, true).await.unwrap();
    assert_eq!((found.old_id, found.patches.len()), (f.main.to_string(), 3));
    assert_eq!(get(Vec::new(), f.root, false).await.unwrap().old_id, "");
    assert_eq!(reason(&get(revision(f.main), f.alone, false).await.unwrap_err()), "NO_COMMON_HISTORY");
}

#[tokio::test]
async fn the_text_is_gits_own_and_is_not_sent_again() {
    let f = parted().await;
    let (root, first, topic, main) = (f.root, f.first, f.topic, f.main);
    let ids = [root, first, topic, main].map(|id| id.to_string());
    let [root_id, first_id, topic_id, main_id] = ids.each_ref().map(String::as_str);
    let empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let (patch, range) = (["format-patch", "--stdout", "--no-signature"], format!("{main_id}..{topic_id}"));
    for (query, arguments) in [
        (format!("head={topic_id}&format=diff"), vec!["diff", first_id, topic_id]),
        (format!("head={root_id}&format=diff"), vec!["diff", empty, root_id]),
        (format!("head={topic_id}&base={main_id}&format=diff"), vec!["diff", root_id, topic_id]),
        (format!("head={topic_id}&format=patch"), [&patch[..], &["-1", topic_id]].concat()),
        (format!("head={topic_id}&base={main_id}&format=patch"), [&patch[..], &[&range]].concat()),
    ] {
        let (status, headers, text) = f.text(Method::GET, &query, &[]).await;
        assert_eq!(status, StatusCode::OK, "{query}");
        assert_eq!(headers["content-length"].to_str().unwrap(), text.len().to_string());
        assert!(text == f.plain(&arguments), "{query}: {}", text.escape_ascii());
        let etag = headers["etag"].to_str().unwrap();
        assert!(etag.starts_with("W/\""), "abbreviated ids may become longer: {etag}");
        let (status, again, text) = f.text(Method::GET, &query, &[("if-none-match", etag)]).await;
        assert_eq!((status, text.len(), &again["etag"]), (StatusCode::NOT_MODIFIED, 0, &headers["etag"]));
        let (status, head, _) = f.text(Method::HEAD, &query, &[]).await;
        assert_eq!((status, &head["content-length"]), (StatusCode::OK, &headers["content-length"]), "it is cached");
    }
    for (query, status) in [
        (format!("head={topic_id}"), StatusCode::BAD_REQUEST),
        ("format=diff".to_owned(), StatusCode::BAD_REQUEST),
        (format!("head={topic_id}&format=html"), StatusCode::BAD_REQUEST),
        ("head=--all&format=diff".to_owned(), StatusCode::NOT_FOUND),
        (format!("head={topic_id}&base=nope&format=diff"), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(f.text(Method::GET, &query, &[]).await.0, status, "{query}");
    }
}

#[tokio::test]
async fn changes_of_whitespace_count_unless_they_are_ignored() {
    let f = parted().await;
    let spaced = {
        let repo = f.service.on_disk(f.id);
        commit(&repo, &[("a", b"1 \n"), ("long", b"one\n"), ("b", b"x\n")], &[f.first], 40)
    };
    let compare = async |whitespace: i32| {
        let request = CompareRequest { whitespace, with_files: true, ..f.request(f.first, spaced) };
        let found = f.compare(request).await.unwrap();
        assert_eq!(shown(found.commits[0].changes.as_ref().unwrap()).len(), 2, "commits have all");
        shown(&found.changes.unwrap())
    };
    for show_all in [Whitespace::Unspecified.into(), Whitespace::ShowAll.into(), 99] {
        assert_eq!(compare(show_all).await, ["M a 1 1", "M long 0 19"]);
    }
    assert_eq!(compare(Whitespace::IgnoreEol.into()).await, ["M long 0 19"]);
    let whitespace = Whitespace::IgnoreAll.into();
    let request = GetDiffRequest { repository_id: f.id, head: revision(spaced), whitespace, ..Default::default() };
    let found = f.service.diffs().get_diff(f.service.with_grant(f.id, request)).await.unwrap().into_inner();
    assert_eq!((shown(&found.changes.unwrap()), found.patches.len()), (vec!["M long 0 19".to_owned()], 1));

    let (first, spaced) = (f.first.to_string(), spaced.to_string());
    let mut tags = Vec::new();
    for (mode, flags) in [("SHOW_ALL", &[][..]), ("IGNORE_ALL", &["-w"][..]), ("IGNORE_CHANGE", &["-b"][..])] {
        let query = format!("head={spaced}&format=diff&whitespace=WHITESPACE_{mode}");
        let (status, headers, text) = f.text(Method::GET, &query, &[]).await;
        assert_eq!(status, StatusCode::OK, "{query}");
        let plain = f.plain(&[&["diff"][..], flags, &[first.as_str(), spaced.as_str()]].concat());
        assert!(text == plain, "{query}: {}", text.escape_ascii());
        tags.push(headers["etag"].clone());
    }
    assert!(tags[0] != tags[1] && tags[1] != tags[2], "each is kept for itself");
    let patch = async |rest: &str| f.text(Method::GET, &format!("head={spaced}&format=patch{rest}"), &[]).await.2;
    assert_eq!(patch("&whitespace=WHITESPACE_IGNORE_ALL").await, patch("").await, "a patch has all");
    let unknown = format!("head={spaced}&format=diff&whitespace=ignore-all");
    assert_eq!(f.text(Method::GET, &unknown, &[]).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_text_above_the_limit_is_refused_before_its_first_byte() {
    let f = parted().await;
    let (large, small) = {
        let repo = f.service.on_disk(f.id);
        let content = b"0123456789abcdef\n".repeat((4 << 20) / 17);
        let names: Vec<_> = (0..14).map(|n| format!("f{n}")).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), content.as_slice())).collect();
        (commit(&repo, &files, &[], 1), commit(&repo, &files[..2], &[], 1))
    };
    let (status, headers, body) = f.text(Method::GET, &format!("head={large}&format=diff"), &[]).await;
    assert_eq!((status, headers["ferrite-reason"].as_bytes()), (StatusCode::PAYLOAD_TOO_LARGE, &b"TOO_LARGE"[..]));
    assert!(body.starts_with(b"the diff exceeds the limit of 52428800"), "{}", body.escape_ascii());
    let (status, _, text) = f.text(Method::GET, &format!("head={small}&format=diff"), &[]).await;
    assert!(status == StatusCode::OK && text.len() > 8 << 20);
}
