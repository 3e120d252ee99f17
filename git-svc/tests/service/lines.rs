//! Lines that comments are on: where they are now, and the hunks that show them.

use ferrite_proto::{
    ServiceRole,
    git::{
        DiffLines, FindLinesRequest, FollowLinesRequest, FollowedLines, FoundLines, PutContentsRequest,
        line_service_client::LineServiceClient,
    },
};
use tonic::{Code, Status};

use crate::{
    harness::{Service, put_request},
    merges::{check, put_on},
};

/// A branch `topic`, whose file `a` has another fifth line than that of `main`, and the commit after
/// that, which has two more lines above.
struct Edited {
    service: Service,
    id: i64,
    base: String,
    head: String,
    newer: String,
}

fn text(fifth: &str) -> String {
    (1..=10).map(|line| if line == 5 { format!("{fifth}\n") } else { format!("line {line}\n") }).collect()
}

impl Edited {
    async fn create() -> Self {
        let service = Service::start().await;
        let id = service.create().await;
        let base = service.put(id, "a", text("line 5").as_bytes()).await;
        let head = put_on(&service, "topic", put_request(id, "a", text("new").as_bytes())).await;
        let content = format!("x\ny\n{}", text("new"));
        let newer = PutContentsRequest { branch: "topic".into(), ..put_request(id, "a", content.as_bytes()) };
        let newer = put_on(&service, "newer", newer).await;
        Self { service, id, base, head, newer }
    }

    fn followed(
        &self,
        commit: &str,
        path: &str,
        is_old_side: bool,
        lines: std::ops::RangeInclusive<i32>,
    ) -> FollowedLines {
        FollowedLines {
            commit_id: commit.to_owned(),
            path: path.to_owned(),
            is_old_side,
            line: *lines.end(),
            line_count: lines.end() - lines.start() + 1,
        }
    }

    async fn follow(&self, lines: Vec<FollowedLines>) -> Result<Vec<i32>, Status> {
        let request = FollowLinesRequest {
            repository_id: self.id,
            head_id: self.newer.clone(),
            merge_base_id: self.base.clone(),
            lines,
        };
        self.send(request).await
    }

    async fn send(&self, request: FollowLinesRequest) -> Result<Vec<i32>, Status> {
        let mut client = LineServiceClient::new(self.service.channel());
        Ok(client.follow_lines(self.service.with_grant(self.id, request)).await?.into_inner().lines)
    }

    fn request(&self, lines: Vec<DiffLines>) -> FindLinesRequest {
        FindLinesRequest {
            repository_id: self.id,
            head_id: self.head.clone(),
            merge_base_id: self.base.clone(),
            lines,
            commit_id: String::new(),
            user_id: 7,
        }
    }

    async fn find(&self, request: FindLinesRequest) -> Result<Vec<FoundLines>, Status> {
        let mut client = LineServiceClient::new(self.service.channel_of(ServiceRole::IssueSvc));
        Ok(client.find_lines(request).await?.into_inner().lines)
    }
}

fn diff_lines(path: &str, is_old_side: bool, line: i32) -> DiffLines {
    DiffLines { path: path.to_owned(), is_old_side, line, line_count: 1 }
}

#[tokio::test]
async fn lines_are_followed_to_the_head_and_to_the_merge_base() {
    let e = Edited::create().await;
    let lines = vec![
        e.followed(&e.head, "a", false, 5..=5),
        e.followed(&e.base, "a", true, 5..=5),
        e.followed(&e.base, "a", false, 5..=5),
        e.followed(&e.base, "a", false, 6..=8),
        e.followed(&e.base, "a", false, 3..=6),
        e.followed(&e.head, "a", true, 1..=4),
        e.followed(&e.newer, "a", false, 12..=12),
        e.followed(&e.head, "none", false, 1..=1),
        e.followed(&"9".repeat(40), "a", false, 1..=1),
        e.followed(&e.head, "a", false, 11..=11),
    ];
    // The second answer is known.
    for _ in 0..2 {
        assert_eq!(e.follow(lines.clone()).await.unwrap(), [7, 5, 0, 10, 0, 4, 12, 0, 0, 0]);
    }
    assert!(e.follow(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_no_line_is_refused_by_its_field() {
    let e = Edited::create().await;
    let valid = || e.followed(&e.head, "a", false, 5..=5);
    for (bad, field) in [
        (FollowedLines { commit_id: "main".into(), ..valid() }, "lines[1].commit_id"),
        (FollowedLines { path: String::new(), ..valid() }, "lines[1].path"),
        (FollowedLines { path: "b/../a".into(), ..valid() }, "lines[1].path"),
        (FollowedLines { line: 0, ..valid() }, "lines[1].line"),
        (FollowedLines { line_count: 0, ..valid() }, "lines[1].line_count"),
        (FollowedLines { line_count: 6, ..valid() }, "lines[1].line_count"),
    ] {
        let status = e.follow(vec![valid(), bad]).await.unwrap_err();
        let found = ferrite_proto::error::violations(&status);
        assert_eq!((status.code(), found[0].0.as_str()), (Code::InvalidArgument, field));
    }
    let request = |head: &str, base: &str, count: usize| FollowLinesRequest {
        repository_id: e.id,
        head_id: head.to_owned(),
        merge_base_id: base.to_owned(),
        lines: vec![valid(); count],
    };
    for bad in [request("main", &e.base, 1), request(&e.head, "", 1), request(&e.head, &e.base, 1001)] {
        assert_eq!(e.send(bad).await.unwrap_err().code(), Code::InvalidArgument);
    }
    assert_eq!(e.send(request(&e.newer, &e.base, 1000)).await.unwrap(), vec![7; 1000]);
    for bad in [
        e.request(vec![diff_lines("", false, 1)]),
        e.request(vec![diff_lines("a", false, 1); 101]),
        FindLinesRequest { head_id: "main".into(), ..e.request(Vec::new()) },
        FindLinesRequest { merge_base_id: String::new(), ..e.request(Vec::new()) },
        FindLinesRequest { commit_id: "main".into(), ..e.request(Vec::new()) },
    ] {
        assert_eq!(e.find(bad).await.unwrap_err().code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn lines_of_a_diff_are_found_with_the_hunk_that_shows_them() {
    let e = Edited::create().await;
    let wanted = vec![
        diff_lines("a", false, 5),
        diff_lines("a", true, 5),
        diff_lines("a", false, 10),
        diff_lines("a", false, 11),
        diff_lines("none", false, 1),
    ];
    let found = |exists: bool, hunk: &str| FoundLines { exists, diff_hunk: hunk.to_owned(), is_file_missing: false };
    let before = " line 2\n line 3\n line 4\n-line 5";
    let expected = [
        found(true, &format!("@@ -2,4 +2,4 @@\n{before}\n+new")),
        found(true, &format!("@@ -2,4 +2,3 @@\n{before}")),
        found(true, ""),
        found(false, ""),
        FoundLines { is_file_missing: true, ..found(false, "") },
    ];
    assert_eq!(e.find(e.request(wanted.clone())).await.unwrap(), expected);
    // The commit counts, not the head.
    let of_commit = |commit: &str| FindLinesRequest {
        head_id: e.newer.clone(),
        commit_id: commit.to_owned(),
        ..e.request(wanted.clone())
    };
    assert_eq!(e.find(of_commit(&e.head)).await.unwrap(), expected);
    let of_newer = e.find(of_commit(&e.newer)).await.unwrap();
    assert_eq!(of_newer[3], found(true, ""));
    for outside in [e.base.clone(), "9".repeat(40)] {
        check(e.find(of_commit(&outside)).await, Code::NotFound, "COMMIT_NOT_FOUND");
    }
    for gone in [
        FindLinesRequest { head_id: "9".repeat(40), ..e.request(Vec::new()) },
        FindLinesRequest { merge_base_id: "9".repeat(40), ..e.request(Vec::new()) },
    ] {
        check(e.find(gone).await, Code::NotFound, "COMMIT_NOT_FOUND");
    }
    let other = FindLinesRequest { repository_id: 99, ..e.request(Vec::new()) };
    check(e.find(other).await, Code::NotFound, "REPOSITORY_NOT_FOUND");
}
