//! Reviews of pull requests as programs with the Go client send and read them.

use super::go_sdk_pulls::PULL;
use super::go_sdk_types::{TEAM, USER};
use super::row::Caller::Reader;
use super::row::Check::{Empty, Entries, False, Filled, Has, Is, Null, Positive, Set, True};
use super::row::{Row, delete, delete_with, get, post, post_nothing};
use super::shape::Shape;
use super::shape::Type::{Flag, Integer, Many, One, Text, Time, Word};

/// Every other text is an unknown state to the programs.
const STATES: &[&str] = &["APPROVED", "PENDING", "COMMENT", "REQUEST_CHANGES", "REQUEST_REVIEW"];

pub(super) static REVIEW: Shape = Shape::new(&[
    ("id", Integer),
    ("user", One(&USER)),
    ("team", One(&TEAM)),
    ("state", Word(STATES)),
    ("body", Text),
    ("commit_id", Text),
    ("stale", Flag),
    ("official", Flag),
    ("dismissed", Flag),
    ("comments_count", Integer),
    ("submitted_at", Time),
    ("html_url", Text),
    ("pull_request_url", Text),
]);

static REVIEW_COMMENT: Shape = Shape::new(&[
    ("id", Integer),
    ("body", Text),
    ("user", One(&USER)),
    ("pull_request_review_id", Integer),
    ("created_at", Time),
    ("updated_at", Time),
    ("path", Text),
    ("commit_id", Text),
    ("original_commit_id", Text),
    ("diff_hunk", Text),
    ("position", Integer),
    ("original_position", Integer),
    ("html_url", Text),
    ("pull_request_url", Text),
]);

/// About the pull request that [`super::go_sdk_pulls`] leaves open, which adds `two.txt`.
pub(super) static ROWS: &[Row] = &[
    get("/repos/{owner}/{repo}/pulls/{second_pull}/reviews?limit=0&page=1")
        .decodes(Many(&REVIEW))
        .reads(&[("", Empty)]),
    get("/repos/{owner}/{repo}/reviewers").decodes(Many(&USER)).reads(&[("/?/login", Is("{owner}"))]),
    get("/repos/{owner}/{repo}/assignees").decodes(Many(&USER)).reads(&[("/?/login", Is("{owner}"))]),
    post(
        "/repos/{owner}/{repo}/pulls/{second_pull}/requested_reviewers",
        r#"{"reviewers":["{reader}"],"team_reviewers":null}"#,
    )
    .is(&[201]),
    get("/repos/{owner}/{repo}/pulls/{second_pull}")
        .decodes(One(&PULL))
        .reads(&[("/requested_reviewers/0/login", Is("{reader}")), ("/requested_reviewers_teams", Empty)]),
    get("/repos/{owner}/{repo}/pulls/{second_pull}/reviews?limit=0&page=1").decodes(Many(&REVIEW)).reads(&[
        ("/0/state", Is("REQUEST_REVIEW")),
        ("/0/user/login", Is("{reader}")),
        ("/0/team", Null),
    ]),
    delete_with(
        "/repos/{owner}/{repo}/pulls/{second_pull}/requested_reviewers",
        r#"{"reviewers":["{reader}"],"team_reviewers":[]}"#,
    )
    .is(&[204]),
    // One that is written in two steps.
    post(
        "/repos/{owner}/{repo}/pulls/{second_pull}/reviews",
        r#"{"event":"PENDING","body":"","commit_id":"","comments":[
            {"path":"two.txt","body":"Why two?","old_position":0,"new_position":1}]}"#,
    )
    .by(Reader)
    .decodes(One(&REVIEW))
    .reads(&[("/id", Positive), ("/state", Is("PENDING")), ("/comments_count", Is("1")), ("/official", False)])
    .keeps(&[("review", "/id"), ("review_head", "/commit_id")]),
    get("/repos/{owner}/{repo}/pulls/{second_pull}/reviews/{review}").is(&[404]),
    post(
        "/repos/{owner}/{repo}/pulls/{second_pull}/reviews/{review}",
        r#"{"event":"REQUEST_CHANGES","body":"Please"}"#,
    )
    .by(Reader)
    .decodes(One(&REVIEW))
    .reads(&[("/id", Is("{review}")), ("/state", Is("REQUEST_CHANGES")), ("/submitted_at", Set)]),
    get("/repos/{owner}/{repo}/pulls/{second_pull}/reviews/{review}").decodes(One(&REVIEW)).reads(&[
        ("/user/login", Is("{reader}")),
        ("/body", Is("Please")),
        ("/stale", False),
        ("/dismissed", False),
        ("/html_url", Has("/{owner}/{repo}/pulls/")),
        ("/pull_request_url", Has("/{owner}/{repo}/pulls/")),
    ]),
    get("/repos/{owner}/{repo}/pulls/{second_pull}/reviews/{review}/comments").decodes(Many(&REVIEW_COMMENT)).reads(&[
        ("", Entries),
        ("/0/pull_request_review_id", Is("{review}")),
        ("/0/user/login", Is("{reader}")),
        ("/0/body", Is("Why two?")),
        ("/0/path", Is("two.txt")),
        ("/0/position", Is("1")),
        ("/0/original_commit_id", Is("{review_head}")),
        ("/0/diff_hunk", Filled),
        ("/0/created_at", Set),
    ]),
    post(
        "/repos/{owner}/{repo}/pulls/{second_pull}/reviews/{review}/dismissals",
        r#"{"message":"Done","priors":false}"#,
    )
    .decodes(One(&REVIEW))
    .reads(&[("/dismissed", True)]),
    post_nothing("/repos/{owner}/{repo}/pulls/{second_pull}/reviews/{review}/undismissals")
        .decodes(One(&REVIEW))
        .reads(&[("/dismissed", False)]),
    delete("/repos/{owner}/{repo}/pulls/{second_pull}/reviews/{review}").by(Reader).is(&[204]),
    // One at once. What the caller does not set is empty.
    post(
        "/repos/{owner}/{repo}/pulls/{second_pull}/reviews",
        r#"{"event":"APPROVED","body":"","commit_id":"","comments":null}"#,
    )
    .by(Reader)
    .decodes(One(&REVIEW))
    .reads(&[("/state", Is("APPROVED")), ("/body", Empty), ("/commit_id", Is("{review_head}"))]),
    post(
        "/repos/{owner}/{repo}/pulls/{second_pull}/reviews",
        r#"{"event":"APPROVED","body":"","commit_id":"","comments":null}"#,
    )
    .is(&[422]),
];
