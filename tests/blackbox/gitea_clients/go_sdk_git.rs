//! Branches, tags, commits, files and statuses as programs with the Go client ask for them.

use super::go_sdk_git_types::{
    ANNOTATED_TAG, BLOB, BRANCH, COMBINED_STATUS, COMMIT, COMPARE, CONTENTS, FILE, REFERENCE, STATUS, TAG, TREE,
};
use super::go_sdk_types::PROTECTION;
use super::row::Caller::Reader;
use super::row::Check::{Empty, Entries, False, Filled, Has, Is, Null, Positive, Set, True};
use super::row::{Row, delete, delete_with, get, patch, post, put};
use super::shape::Type::{Many, One};

pub(super) static ROWS: &[Row] = &[
    get("/repos/{owner}/{repo}/branches?limit=0&page=1").by(Reader).decodes(Many(&BRANCH)).reads(&[
        ("/?/name", Is("feature/x")),
        ("/*/commit/id", Is("{head}")),
        ("/*/commit/url", Filled),
        ("/*/commit/timestamp", Set),
        ("/*/commit/author/name", Filled),
        ("/*/protected", False),
    ]),
    get("/repos/{owner}/{repo}/branches?limit=1&page=1").has_next(),
    get("/repos/{owner}/{repo}/branches/feature%2Fx").decodes(One(&BRANCH)).reads(&[("/name", Is("feature/x"))]),
    get("/repos/{owner}/{repo}/branches/none").is(&[404]).reads(&[("/message", Filled)]),
    post("/repos/{owner}/{repo}/branches", r#"{"new_branch_name":"topic/y","old_branch_name":"feature/x"}"#)
        .is(&[201])
        .decodes(One(&BRANCH))
        .reads(&[("/name", Is("topic/y")), ("/commit/id", Is("{head}"))]),
    post("/repos/{owner}/{repo}/branches", r#"{"new_branch_name":"topic/y","old_branch_name":""}"#)
        .is(&[409])
        .reads(&[("/message", Filled)]),
    post("/repos/{owner}/{repo}/branches", r#"{"new_branch_name":"z","old_branch_name":"none"}"#).is(&[404]),
    patch("/repos/{owner}/{repo}/branches/topic%2Fy", r#"{"name":"topic/z"}"#).is(&[204]),
    delete("/repos/{owner}/{repo}/branches/topic%2Fz").is(&[204]),
    delete("/repos/{owner}/{repo}/branches/topic%2Fz").is(&[404]),
    delete("/repos/{owner}/{repo}/branches/main").is(&[403]),
    get("/repos/{owner}/{repo}/tags?limit=0&page=1").decodes(Many(&TAG)).reads(&[
        ("/?/name", Is("v1.0.0")),
        ("/?/id", Is("{tag_object}")),
        ("/*/commit/sha", Is("{head}")),
        ("/*/commit/created", Set),
        ("/*/commit/url", Filled),
        ("/*/tarball_url", Filled),
        ("/*/zipball_url", Filled),
    ]),
    get("/repos/{owner}/{repo}/tags/v1.0.0").decodes(One(&TAG)).reads(&[
        ("/message", Has("One")),
        ("/id", Is("{tag_object}")),
        ("/commit/sha", Is("{head}")),
    ]),
    get("/repos/{owner}/{repo}/git/tags/{tag_object}").decodes(One(&ANNOTATED_TAG)).reads(&[
        ("/tag", Is("v1.0.0")),
        ("/object/sha", Is("{head}")),
        ("/object/type", Is("commit")),
        ("/tagger/date", Set),
    ]),
    post("/repos/{owner}/{repo}/tags", r#"{"tag_name":"v2","message":"","target":""}"#)
        .is(&[201])
        .decodes(One(&TAG))
        .reads(&[("/name", Is("v2")), ("/commit/sha", Is("{head}"))]),
    post("/repos/{owner}/{repo}/tags", r#"{"tag_name":"v2","message":"Two","target":"main"}"#).is(&[409]),
    delete("/repos/{owner}/{repo}/tags/v2").is(&[204]),
    get("/repos/{owner}/{repo}/tags/v2").is(&[404]),
    get("/repos/{owner}/{repo}/git/refs").decodes(Many(&REFERENCE)).reads(&[("/?/ref", Is("refs/tags/v1.0.0"))]),
    // The client takes one reference or a list.
    get("/repos/{owner}/{repo}/git/refs/heads").decodes(Many(&REFERENCE)).reads(&[
        ("/?/ref", Is("refs/heads/feature/x")),
        ("/*/object/sha", Filled),
        ("/*/object/type", Is("commit")),
    ]),
    get("/repos/{owner}/{repo}/git/commits/{head}").decodes(One(&COMMIT)).reads(&[
        ("/sha", Is("{head}")),
        ("/created", Set),
        ("/html_url", Filled),
        ("/commit/message", Has("Add files")),
        ("/commit/author/name", Filled),
        ("/commit/committer/date", Set),
        ("/author/login", Is("{owner}")),
        ("/parents/0/sha", Filled),
        ("/files/?/filename", Is("src/main.rs")),
        ("/stats/additions", Positive),
    ]),
    get("/repos/{owner}/{repo}/git/commits/feature%2Fx").decodes(One(&COMMIT)).reads(&[("/sha", Is("{head}"))]),
    get("/repos/{owner}/{repo}/git/commits/{head}.diff").by(Reader),
    get("/repos/{owner}/{repo}/git/commits/{head}.patch").by(Reader),
    get("/repos/{owner}/{repo}/commits?files=false&limit=1&page=1&sha=main&stat=false&verification=false")
        .decodes(Many(&COMMIT))
        .has_next()
        .reads(&[("/0/sha", Is("{head}")), ("/0/created", Set)])
        .keeps(&[("first_tree", "/0/commit/tree/sha"), ("parent", "/0/parents/0/sha")]),
    get("/repos/{owner}/{repo}/commits?files=true&limit=0&page=1&path=src%2Fmain.rs&stat=true&verification=true")
        .decodes(Many(&COMMIT))
        .reads(&[("/0/files/0/filename", Filled)]),
    get("/repos/{owner}/{repo}/compare/{parent}...main").decodes(One(&COMPARE)).reads(&[
        ("/total_commits", Is("1")),
        ("/commits/0/sha", Is("{head}")),
        ("/commits/0/files", Entries),
    ]),
    get("/repos/{owner}/{repo}/compare/v0.9.0...feature%2Fx")
        .decodes(One(&COMPARE))
        .reads(&[("/total_commits", Is("0")), ("/commits", Empty)]),
    get("/repos/{owner}/{repo}/git/trees/{first_tree}?limit=0&page=1&recursive=1")
        .decodes(One(&TREE))
        .reads(&[("/tree/?/path", Is("docs/a b.md")), ("/truncated", False)]),
    get("/repos/{owner}/{repo}/raw/src/main.rs?ref={head}").by(Reader).text("fn main() {}\n"),
    get("/repos/{owner}/{repo}/raw/docs/a%20b.md?ref=").text("# A\n"),
    get("/repos/{owner}/{repo}/raw/none.txt?ref=main").is(&[404]),
    get("/repos/{owner}/{repo}/media/src/main.rs?ref=feature%2Fx").text("fn main() {}\n"),
    get("/repos/{owner}/{repo}/contents/?ref=").decodes(Many(&CONTENTS)).reads(&[
        ("/?/name", Is("src")),
        ("/?/type", Is("dir")),
        ("/*/path", Filled),
        ("/*/sha", Filled),
    ]),
    get("/repos/{owner}/{repo}/contents/docs/a%20b.md?ref=main")
        .decodes(One(&CONTENTS))
        .reads(&[
            ("/type", Is("file")),
            ("/path", Is("docs/a b.md")),
            ("/content", Is("IyBBCg==")),
            ("/encoding", Is("base64")),
        ])
        .keeps(&[("blob", "/sha")]),
    get("/repos/{owner}/{repo}/git/blobs/{blob}").decodes(One(&BLOB)).reads(&[
        ("/encoding", Is("base64")),
        ("/content", Is("IyBBCg==")),
        ("/size", Is("4")),
    ]),
    get("/repos/{owner}/{repo}/contents/none.txt?ref=main").is(&[404]).reads(&[("/message", Filled)]),
    post(
        "/repos/{owner}/{repo}/contents/new/file.txt",
        r#"{"message":"","branch":"","new_branch":"",{blank_commit},"content":"b25lCg=="}"#,
    )
    .is(&[201])
    .decodes(One(&FILE))
    .reads(&[
        ("/content/path", Is("new/file.txt")),
        ("/commit/sha", Filled),
        ("/commit/author", Entries),
        ("/commit/committer", Entries),
        ("/commit/message", Filled),
        ("/verification/verified", False),
    ])
    .keeps(&[("file", "/content/sha")]),
    post(
        "/repos/{owner}/{repo}/contents/new/file.txt",
        r#"{"message":"","branch":"main","new_branch":"",{blank_commit},"content":"b25lCg=="}"#,
    )
    .is(&[422])
    .reads(&[("/message", Filled)]),
    put(
        "/repos/{owner}/{repo}/contents/moved.txt",
        r#"{"message":"Move it","branch":"main","new_branch":"",{blank_commit},"sha":"{file}","content":"dHdvCg==",
            "from_path":"new/file.txt"}"#,
    )
    .decodes(One(&FILE))
    .reads(&[("/content/path", Is("moved.txt")), ("/commit/message", Has("Move it"))])
    .keeps(&[("moved", "/content/sha")]),
    put(
        "/repos/{owner}/{repo}/contents/moved.txt",
        r#"{"message":"Change it","branch":"main","new_branch":"",{blank_commit},"sha":"{moved}",
            "content":"dGhyZWUK","from_path":""}"#,
    )
    .decodes(One(&FILE))
    .keeps(&[("moved", "/content/sha")]),
    // Only 200 and 204 are a success here.
    delete_with(
        "/repos/{owner}/{repo}/contents/moved.txt",
        r#"{"message":"","branch":"main","new_branch":"",{blank_commit},"sha":"{moved}"}"#,
    )
    .is(&[200, 204])
    .reads(&[("/content", Null), ("/commit/sha", Filled)]),
    post(
        "/repos/{owner}/{repo}/contents",
        r#"{"message":"Both","branch":"main","new_branch":"",{blank_commit},"files":[
            {"operation":"create","path":"a.txt","content":"YQo=","from_path":"","sha":""},
            {"operation":"create","path":"b.txt","content":"Ygo=","from_path":"","sha":""}]}"#,
    )
    .is(&[201])
    .decodes(One(&FILE))
    .reads(&[("/files/1/path", Is("b.txt")), ("/commit/sha", Filled)]),
    get("/repos/{owner}/{repo}/commits/{head}/status").decodes(One(&COMBINED_STATUS)),
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"state":"failure","target_url":"https://ci.example.com/1","description":"It broke","context":"ci/a"}"#,
    )
    .is(&[201])
    .decodes(One(&STATUS))
    .reads(&[
        ("/status", Is("failure")),
        ("/context", Is("ci/a")),
        ("/target_url", Is("https://ci.example.com/1")),
        ("/creator/login", Is("{owner}")),
        ("/created_at", Set),
        ("/url", Filled),
    ]),
    post(
        "/repos/{owner}/{repo}/statuses/{head}",
        r#"{"state":"skipped","target_url":"","description":"","context":""}"#,
    )
    .is(&[201])
    .reads(&[("/context", Is("default")), ("/status", Is("skipped"))]),
    get("/repos/{owner}/{repo}/commits/{head}/statuses?limit=0&page=0")
        .by(Reader)
        .decodes(Many(&STATUS))
        .reads(&[("/0/status", Is("skipped")), ("/1/status", Is("failure"))]),
    get("/repos/{owner}/{repo}/commits/{head}/status").decodes(One(&COMBINED_STATUS)).reads(&[
        ("/state", Is("failure")),
        ("/sha", Is("{head}")),
        ("/total_count", Is("2")),
        ("/statuses/*/id", Positive),
        ("/repository/full_name", Is("{owner}/{repo}")),
    ]),
    get("/repos/{owner}/{repo}/commits/none/status").is(&[404]),
    get("/repos/{owner}/{repo}/branch_protections?limit=0&page=0").decodes(Many(&PROTECTION)).reads(&[("", Empty)]),
    // `tea branches protect` sets only the name.
    post(
        "/repos/{owner}/{repo}/branch_protections",
        r#"{"branch_name":"old","rule_name":"old","enable_push":false,"enable_push_whitelist":false,
            "push_whitelist_usernames":null,"push_whitelist_teams":null,"push_whitelist_deploy_keys":false,
            "enable_merge_whitelist":false,"merge_whitelist_usernames":null,"merge_whitelist_teams":null,
            "enable_status_check":false,"status_check_contexts":null,"required_approvals":0,
            "enable_approvals_whitelist":false,"approvals_whitelist_username":null,"approvals_whitelist_teams":null,
            "block_on_rejected_reviews":false,"block_on_official_review_requests":false,
            "block_on_outdated_branch":false,"dismiss_stale_approvals":false,"require_signed_commits":false,
            "protected_file_patterns":"","unprotected_file_patterns":""}"#,
    )
    .is(&[201])
    .decodes(One(&PROTECTION))
    .reads(&[("/rule_name", Is("old")), ("/enable_push", False), ("/created_at", Set)]),
    get("/repos/{owner}/{repo}/branches/old").reads(&[("/protected", True)]),
    delete("/repos/{owner}/{repo}/branch_protections/old").is(&[204]),
    get("/repos/{owner}/{repo}/branches/old").reads(&[("/protected", False)]),
];
