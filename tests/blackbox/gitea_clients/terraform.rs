//! What the Terraform provider sends for repositories, with the Go client and the defaults of its
//! resources. What it does not read back as sent, it plans to change each time.

use super::go_sdk::GO_HEADERS;
use super::go_sdk_git_types::{BRANCH, COMMIT, CONTENTS, FILE};
use super::go_sdk_types::{DEPLOY_KEY, HOOK, LABEL, PERMISSION_OF_COLLABORATOR, PROTECTION, REPOSITORY, USER};
use super::replay::Program;
use super::row::Caller::Administrator;
use super::row::Check::{Empty, False, Filled, Has, Is, Set, True};
use super::row::{Row, delete, delete_with, get, patch, post, put};
use super::shape::Type::{Many, One};
use super::terraform_accounts;

pub(super) static PROGRAM: Program = Program {
    scheme: "token",
    headers: GO_HEADERS,
    tables: &[terraform_accounts::ROWS, REPOSITORIES, FILES, PROTECTIONS, HOOKS],
};

static REPOSITORIES: &[Row] = &[
    // The owner is a user if it is no organization.
    get("/orgs/{owner}").is(&[404]),
    get("/admin/users?limit=50&page=1").by(Administrator).decodes(Many(&USER)).reads(&[("/?/login", Is("{owner}"))]),
    post(
        "/admin/users/{owner}/repos",
        r#"{"name":"tf-{unique}","description":"","private":true,"issue_labels":"Default","auto_init":true,
            "template":false,"gitignores":"","license":"","readme":"","default_branch":"main",
            "trust_model":"default","object_format_name":""}"#,
    )
    .by(Administrator)
    .is(&[201])
    .decodes(One(&REPOSITORY))
    .reads(&[
        ("/owner/login", Is("{owner}")),
        ("/name", Is("tf-{unique}")),
        ("/private", True),
        ("/default_branch", Is("main")),
        ("/html_url", Filled),
        ("/ssh_url", Filled),
        ("/clone_url", Filled),
        ("/created_at", Set),
    ])
    .keeps(&[("made", "/id")]),
    get("/repos/{owner}/tf-{unique}/labels?limit=0&page=1").decodes(Many(&LABEL)).repeated().reads(&[
        ("/?/name", Is("bug")),
        ("/?/name", Is("help wanted")),
        ("/?/description", Is("Something is not working")),
    ]),
    get("/repositories/{made}").decodes(One(&REPOSITORY)).reads(&[
        ("/has_issues", True),
        ("/has_wiki", True),
        ("/archived", False),
        ("/website", Empty),
        ("/permissions/admin", True),
    ]),
    patch(
        "/repos/{owner}/tf-{unique}",
        r#"{"name":"tf-{unique}","description":"Planned","website":"https://example.com","private":true,
            "template":false,"has_issues":true,"has_wiki":false,"default_branch":"main","has_pull_requests":true,
            "has_projects":true,"ignore_whitespace_conflicts":true,"allow_fast_forward_only_merge":null,
            "allow_merge_commits":true,"allow_rebase":true,"allow_rebase_explicit":true,"allow_squash_merge":true,
            "archived":false,"allow_manual_merge":false,"autodetect_manual_merge":false,"projects_mode":null,
            "default_delete_branch_after_merge":null}"#,
    )
    .decodes(One(&REPOSITORY))
    .reads(&[
        ("/description", Is("Planned")),
        ("/has_wiki", False),
        ("/website", Is("https://example.com")),
        ("/has_pull_requests", True),
        ("/allow_merge_commits", True),
        ("/allow_squash_merge", True),
        ("/autodetect_manual_merge", False),
        ("/allow_manual_merge", False),
    ]),
    post(
        "/org/{org}/repos",
        r#"{"name":"tf-{unique}","description":"","private":true,"issue_labels":"Default","auto_init":true,
            "template":false,"gitignores":"","license":"","readme":"","default_branch":"main",
            "trust_model":"default","object_format_name":""}"#,
    )
    .is(&[201])
    .decodes(One(&REPOSITORY)),
    delete("/repos/{org}/tf-{unique}"),
    post(
        "/repos/migrate",
        r#"{"repo_name":"import-{unique}","repo_owner":"{owner}","uid":0,"clone_addr":"{source}","service":"git",
            "auth_username":"","auth_password":"","auth_token":"","mirror":false,"private":true,"description":"",
            "wiki":false,"milestones":false,"labels":false,"issues":false,"pull_requests":false,"releases":false,
            "mirror_interval":"8h0m0s","lfs":false,"lfs_endpoint":""}"#,
    )
    .is(&[201])
    .decodes(One(&REPOSITORY)),
    delete("/repos/{owner}/import-{unique}"),
    post("/repos/{owner}/{repo}/forks", r#"{"organization":"{org}","name":null}"#)
        .decodes(One(&REPOSITORY))
        .reads(&[("/fork", True)])
        .keeps(&[("fork", "/id")]),
    get("/repositories/{fork}").decodes(One(&REPOSITORY)).reads(&[("/parent/full_name", Is("{owner}/{repo}"))]),
    delete("/repos/{org}/{repo}"),
    // Nothing is signed here, which is a 404 to it.
    get("/repos/{owner}/{repo}/signing-key.gpg").is(&[404]),
    get("/repos/{owner}/{repo}/signing-key.pub").is(&[404]),
    put("/repos/{owner}/{repo}/collaborators/{reader}", r#"{"permission":"write"}"#),
    get("/repos/{owner}/{repo}/collaborators/{reader}").is(&[204]),
    get("/repos/{owner}/{repo}/collaborators/{reader}/permission")
        .decodes(One(&PERMISSION_OF_COLLABORATOR))
        .reads(&[("/permission", Is("write"))]),
    delete("/repos/{owner}/{repo}/collaborators/{reader}"),
    get("/repos/{owner}/{repo}/collaborators/{reader}").is(&[404]),
    post("/repos/{owner}/{repo}/keys", r#"{"title":"deploys","key":"{deploy_key}","read_only":true}"#)
        .decodes(One(&DEPLOY_KEY))
        .keeps(&[("key", "/id")]),
    get("/repos/{owner}/{repo}/keys/{key}").decodes(One(&DEPLOY_KEY)).reads(&[
        ("/key", Filled),
        ("/read_only", True),
        ("/title", Is("deploys")),
        ("/fingerprint", Has("SHA256:")),
    ]),
    delete("/repos/{owner}/{repo}/keys/{key}"),
    get("/repos/{owner}/{repo}/keys/{key}").is(&[404]),
    post("/repos/{owner}/{repo}/branches", r#"{"new_branch_name":"tf/topic","old_branch_name":""}"#)
        .is(&[201])
        .decodes(One(&BRANCH)),
    get("/repos/{owner}/{repo}/branches/tf%2Ftopic").decodes(One(&BRANCH)).reads(&[("/name", Is("tf/topic"))]),
    delete("/repos/{owner}/{repo}/branches/tf%2Ftopic").is(&[204]),
];

/// A file that exists is updated, and no message is given. The paths have the names in lower case.
static FILES: &[Row] = &[
    get("/repos/{owner}/tf-{unique}/contents/conf/a.txt?ref=main").is(&[404]),
    post(
        "/repos/{owner}/tf-{unique}/contents/conf/a.txt",
        r#"{"message":"","branch":"main","new_branch":"",{blank_commit},"content":"b25l"}"#,
    )
    .decodes(One(&FILE))
    .reads(&[("/content/sha", Filled), ("/commit/sha", Filled), ("/commit/message", Filled)]),
    get("/repos/{owner}/tf-{unique}/contents/conf/a.txt?ref=main")
        .decodes(One(&CONTENTS))
        .reads(&[("/content", Is("b25l")), ("/path", Is("conf/a.txt")), ("/download_url", Filled)])
        .keeps(&[("file", "/sha")]),
    put(
        "/repos/{owner}/tf-{unique}/contents/conf/a.txt",
        r#"{"message":"","branch":"main","new_branch":"",{blank_commit},"sha":"{file}",
            "content":"dHdv","from_path":""}"#,
    )
    .decodes(One(&FILE))
    .keeps(&[("file", "/content/sha"), ("commit", "/commit/sha")]),
    get("/repos/{owner}/tf-{unique}/git/commits/{commit}").decodes(One(&COMMIT)).reads(&[
        ("/commit/committer/date", Set),
        ("/commit/author/email", Filled),
        ("/commit/tree/sha", Filled),
    ]),
    delete_with(
        "/repos/{owner}/tf-{unique}/contents/conf/a.txt",
        r#"{"message":"","branch":"main","new_branch":"",{blank_commit},"sha":"{file}"}"#,
    )
    .is(&[200, 204]),
];

static PROTECTIONS: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/branch_protections",
        r#"{"branch_name":"main","rule_name":"main","enable_push":true,"enable_push_whitelist":true,
            "push_whitelist_usernames":["{owner}"],"push_whitelist_teams":[],"push_whitelist_deploy_keys":false,
            "enable_merge_whitelist":true,"merge_whitelist_usernames":["{owner}"],"merge_whitelist_teams":[],
            "enable_status_check":true,"status_check_contexts":["ci/*"],"required_approvals":2,
            "enable_approvals_whitelist":true,"approvals_whitelist_username":["{owner}"],"approvals_whitelist_teams":[],
            "block_on_rejected_reviews":true,"block_on_official_review_requests":true,
            "block_on_outdated_branch":true,"dismiss_stale_approvals":true,"require_signed_commits":false,
            "protected_file_patterns":"","unprotected_file_patterns":"","block_admin_merge_override":false}"#,
    )
    .is(&[201])
    .decodes(One(&PROTECTION))
    .reads(&[("/rule_name", Is("main"))]),
    get("/repos/{owner}/{repo}/branch_protections/main").decodes(One(&PROTECTION)).reads(&[
        ("/rule_name", Is("main")),
        ("/enable_push", True),
        ("/enable_push_whitelist", True),
        ("/push_whitelist_usernames/0", Is("{owner}")),
        ("/enable_status_check", True),
        ("/status_check_contexts/0", Is("ci/*")),
        ("/enable_merge_whitelist", True),
        ("/merge_whitelist_usernames/0", Is("{owner}")),
        ("/block_on_outdated_branch", True),
        ("/required_approvals", Is("2")),
        ("/enable_approvals_whitelist", True),
        ("/approvals_whitelist_username/0", Is("{owner}")),
        ("/block_on_rejected_reviews", True),
        ("/block_on_official_review_requests", True),
        ("/dismiss_stale_approvals", True),
        ("/updated_at", Set),
    ]),
    patch(
        "/repos/{owner}/{repo}/branch_protections/main",
        r#"{"enable_push":false,"enable_push_whitelist":false,"push_whitelist_usernames":[],"push_whitelist_teams":[],
            "push_whitelist_deploy_keys":false,"enable_merge_whitelist":false,"merge_whitelist_usernames":[],
            "merge_whitelist_teams":[],"enable_status_check":false,"status_check_contexts":[],"required_approvals":0,
            "enable_approvals_whitelist":false,"approvals_whitelist_username":[],"approvals_whitelist_teams":[],
            "block_on_rejected_reviews":false,"block_on_official_review_requests":false,
            "block_on_outdated_branch":false,"dismiss_stale_approvals":false,"require_signed_commits":false,
            "protected_file_patterns":"","unprotected_file_patterns":"","block_admin_merge_override":false}"#,
    )
    .decodes(One(&PROTECTION))
    .reads(&[
        ("/enable_push", False),
        ("/enable_status_check", False),
        ("/status_check_contexts", Empty),
        ("/enable_merge_whitelist", False),
        ("/merge_whitelist_usernames", Empty),
        ("/block_on_outdated_branch", False),
        ("/required_approvals", Is("0")),
        ("/enable_approvals_whitelist", False),
        ("/approvals_whitelist_username", Empty),
        ("/block_on_rejected_reviews", False),
        ("/block_on_official_review_requests", False),
        ("/dismiss_stale_approvals", False),
    ]),
    delete("/repos/{owner}/{repo}/branch_protections/main").is(&[204]),
    get("/repos/{owner}/{repo}/branch_protections/main").is(&[404]),
];

static HOOKS: &[Row] = &[
    post(
        "/repos/{owner}/{repo}/hooks",
        r#"{"type":"gitea","config":{"content_type":"json","url":"https://example.com/hook"},"events":["push"],
            "branch_filter":"*","active":true,"authorization_header":""}"#,
    )
    .is(&[201])
    .decodes(One(&HOOK))
    .keeps(&[("hook", "/id")]),
    get("/repos/{owner}/{repo}/hooks/{hook}").decodes(One(&HOOK)).reads(&[
        ("/type", Is("gitea")),
        ("/config/url", Is("https://example.com/hook")),
        ("/config/content_type", Is("json")),
        ("/events/0", Is("push")),
        ("/branch_filter", Is("*")),
        ("/active", True),
    ]),
    patch(
        "/repos/{owner}/{repo}/hooks/{hook}",
        r#"{"config":{"content_type":"form","url":"https://example.com/other"},"events":["push","release"],
            "branch_filter":"main","active":false,"authorization_header":"Bearer hush"}"#,
    ),
    get("/repos/{owner}/{repo}/hooks/{hook}").decodes(One(&HOOK)).reads(&[
        ("/config/url", Is("https://example.com/other")),
        ("/config/content_type", Is("form")),
        ("/branch_filter", Is("main")),
        ("/active", False),
    ]),
    delete("/repos/{owner}/{repo}/hooks/{hook}"),
    delete("/repos/{owner}/tf-{unique}"),
    get("/repositories/{made}").is(&[404]),
];
