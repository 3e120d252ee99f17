//! Go clients send every field of a request: what their user did not set is `""`, `0`, `false`,
//! `null` or a time in year 1. The bodies are those of Gitea's Go SDK (`code.gitea.io/sdk/gitea`).

use ferrite_proto::{operation, repo};
use serde_json::{Value, json};

use super::tracker::{Tracker, bob};

const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// A body with the fields that the operation requires, and what the client adds to it.
struct Case {
    method: &'static str,
    path: &'static str,
    rpc: &'static str,
    required: Value,
    unset: Value,
}

impl Case {
    /// Checks that the service gets the same request with and without the unset fields.
    async fn check(self, tracker: &Tracker) {
        let Self { method, path, rpc, required, unset } = self;
        let mut whole = required.clone();
        whole.as_object_mut().unwrap().extend(unset.as_object().unwrap().clone());
        let mut received = Vec::new();
        for body in [required, whole] {
            let (_, response) = tracker.send(method, path, &body.to_string()).await;
            let request = tracker.script.take_bytes(rpc);
            received.push(request.unwrap_or_else(|| panic!("{method} {path} {body}: {response}")));
        }
        assert_eq!(received[0], received[1], "{method} {path} {unset}");
    }
}

async fn check(cases: impl IntoIterator<Item = Case>) {
    let tracker = Tracker::new().await;
    let repository = repo::Repository { id: 7, owner: Some(bob()), name: "Demo".into(), ..Default::default() };
    let response = repo::GetRepositoryResponse { repository: Some(repository) };
    tracker.script.respond(operation::GET_REPOSITORY, &response);
    for case in cases {
        case.check(&tracker).await;
    }
}

#[tokio::test]
async fn unset_fields_of_a_repository_are_absent() {
    let no_one = || json!({"name": "", "email": ""});
    check([
        Case {
            method: "POST",
            path: "/user/repos",
            rpc: operation::CREATE_REPOSITORY,
            required: json!({"name": "demo"}),
            unset: json!({
                "description": "", "private": false, "issue_labels": "", "auto_init": false, "template": false,
                "gitignores": "", "license": "", "readme": "", "default_branch": "", "trust_model": "",
                "object_format_name": "",
            }),
        },
        Case {
            method: "PATCH",
            path: "/repos/bob/demo",
            rpc: operation::UPDATE_REPOSITORY,
            required: json!({}),
            unset: json!({
                "allow_fast_forward_only_merge": null, "projects_mode": null,
                "default_delete_branch_after_merge": null,
            }),
        },
        Case {
            method: "PUT",
            path: "/repos/bob/demo/contents/a",
            rpc: operation::PUT_CONTENTS,
            // Without a name and an address, each is the caller.
            required: json!({"message": "m", "content": "eA==", "author": {}, "committer": {}}),
            unset: json!({
                "branch": "", "new_branch": "", "author": no_one(), "committer": no_one(),
                "dates": {"author": NO_TIME, "committer": NO_TIME}, "signoff": false, "sha": "", "from_path": "",
            }),
        },
        Case {
            method: "POST",
            path: "/repos/bob/demo/releases",
            rpc: operation::CREATE_RELEASE,
            required: json!({"tag_name": "v1"}),
            unset: json!({
                "tag_message": "", "target_commitish": "", "name": "", "body": "", "draft": false,
                "prerelease": false,
            }),
        },
        Case {
            method: "PATCH",
            path: "/repos/bob/demo/releases/3",
            rpc: operation::UPDATE_RELEASE,
            required: json!({}),
            unset: json!({
                "tag_name": "", "target_commitish": "", "name": "", "body": "", "draft": null, "prerelease": null,
            }),
        },
    ])
    .await;
}

#[tokio::test]
async fn unset_fields_of_the_issue_tracker_are_absent() {
    check([
        Case {
            method: "POST",
            path: "/repos/bob/demo/issues",
            rpc: operation::CREATE_ISSUE,
            required: json!({"title": "t"}),
            unset: json!({
                "body": "", "ref": "", "assignee": "", "assignees": null, "due_date": null, "milestone": 0,
                "labels": null, "closed": false,
            }),
        },
        Case {
            method: "PATCH",
            path: "/repos/bob/demo/issues/2",
            rpc: operation::UPDATE_ISSUE,
            required: json!({}),
            unset: json!({
                "title": "", "body": null, "ref": null, "assignee": null, "assignees": null, "milestone": null,
                "state": null, "due_date": null, "unset_due_date": null,
            }),
        },
        Case {
            method: "POST",
            path: "/repos/bob/demo/pulls",
            rpc: operation::CREATE_PULL,
            required: json!({"head": "topic", "base": "main", "title": "t"}),
            unset: json!({
                "body": "", "assignee": "", "assignees": null, "reviewers": null, "team_reviewers": null,
                "milestone": 0, "labels": null, "due_date": null,
            }),
        },
        Case {
            method: "PATCH",
            path: "/repos/bob/demo/pulls/2",
            rpc: operation::UPDATE_PULL,
            required: json!({}),
            unset: json!({
                "title": "", "body": null, "base": "", "assignee": "", "assignees": null, "milestone": 0,
                "labels": null, "state": null, "due_date": null, "unset_due_date": null,
                "allow_maintainer_edit": null,
            }),
        },
        Case {
            method: "POST",
            path: "/repos/bob/demo/pulls/2/reviews",
            rpc: operation::CREATE_REVIEW,
            required: json!({}),
            unset: json!({"event": "", "body": "", "commit_id": "", "comments": null}),
        },
        Case {
            method: "POST",
            path: "/repos/bob/demo/pulls/2/reviews/12",
            rpc: operation::SUBMIT_REVIEW,
            required: json!({"event": "APPROVED"}),
            unset: json!({"body": ""}),
        },
        Case {
            method: "POST",
            path: "/repos/bob/demo/pulls/2/requested_reviewers",
            rpc: operation::REQUEST_REVIEWS,
            required: json!({"reviewers": ["eve"]}),
            unset: json!({"team_reviewers": null}),
        },
        Case {
            method: "POST",
            path: "/repos/bob/demo/labels",
            rpc: operation::CREATE_LABEL,
            required: json!({"name": "bug", "color": "#e11d21"}),
            unset: json!({"description": "", "exclusive": false, "is_archived": false}),
        },
        Case {
            method: "PATCH",
            path: "/repos/bob/demo/labels/5",
            rpc: operation::UPDATE_LABEL,
            required: json!({}),
            unset: json!({"name": null, "color": null, "description": null, "exclusive": null, "is_archived": null}),
        },
        Case {
            method: "POST",
            path: "/repos/bob/demo/milestones",
            rpc: operation::CREATE_MILESTONE,
            required: json!({"title": "v1"}),
            unset: json!({"description": "", "state": "", "due_on": null}),
        },
        Case {
            method: "PATCH",
            path: "/repos/bob/demo/milestones/9",
            rpc: operation::UPDATE_MILESTONE,
            required: json!({}),
            unset: json!({"title": "", "description": null, "state": null, "due_on": null}),
        },
    ])
    .await;
}

#[tokio::test]
async fn unset_fields_of_access_and_webhooks_are_absent() {
    check([
        Case {
            method: "POST",
            path: "/repos/bob/demo/hooks",
            rpc: operation::CREATE_HOOK,
            required: json!({"type": "gitea", "config": {"url": "https://ci.example.com", "content_type": "json"}}),
            unset: json!({"events": null, "branch_filter": "", "active": false, "authorization_header": ""}),
        },
        Case {
            method: "PATCH",
            path: "/repos/bob/demo/hooks/3",
            rpc: operation::UPDATE_HOOK,
            required: json!({}),
            unset: json!({
                "config": null, "events": null, "branch_filter": "", "active": null, "authorization_header": "",
            }),
        },
        Case {
            method: "POST",
            path: "/user/keys",
            rpc: operation::CREATE_PUBLIC_KEY,
            required: json!({"title": "t", "key": "k"}),
            unset: json!({"read_only": false}),
        },
        Case {
            method: "PUT",
            path: "/repos/bob/demo/collaborators/eve",
            rpc: operation::SET_COLLABORATOR,
            required: json!({}),
            unset: json!({"permission": ""}),
        },
        Case {
            method: "POST",
            path: "/user/orgs",
            rpc: operation::CREATE_ORGANIZATION,
            required: json!({"username": "acme"}),
            unset: json!({
                "full_name": "", "description": "", "website": "", "location": "", "visibility": "",
                "repo_admin_change_team_access": false,
            }),
        },
        Case {
            method: "POST",
            path: "/admin/users",
            rpc: operation::CREATE_USER,
            required: json!({"username": "eve", "email": "e@example.com", "password": "long enough"}),
            unset: json!({
                "source_id": 0, "login_name": "", "full_name": "", "must_change_password": null, "send_notify": false,
                "visibility": null,
            }),
        },
        Case {
            method: "PATCH",
            path: "/admin/users/bob",
            rpc: operation::UPDATE_USER,
            required: json!({}),
            unset: json!({
                "source_id": 0, "login_name": "", "email": null, "full_name": null, "password": "",
                "description": null, "must_change_password": null, "website": null, "location": null, "active": null,
                "admin": null, "allow_git_hook": null, "allow_import_local": null, "max_repo_creation": null,
                "prohibit_login": null, "allow_create_organization": null, "restricted": null, "visibility": null,
            }),
        },
        Case {
            method: "POST",
            path: "/orgs/acme/teams",
            rpc: operation::CREATE_TEAM,
            required: json!({"name": "devs"}),
            unset: json!({
                "description": "", "permission": "", "can_create_org_repo": false,
                "includes_all_repositories": false, "units": null, "units_map": null,
            }),
        },
        Case {
            method: "PATCH",
            path: "/teams/7",
            rpc: operation::UPDATE_TEAM,
            required: json!({}),
            unset: json!({
                "name": "", "description": null, "permission": "", "can_create_org_repo": null,
                "includes_all_repositories": null, "units": null, "units_map": null,
            }),
        },
    ])
    .await;
}
