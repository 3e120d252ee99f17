//! Rules of branches: who may push and merge, and what a merge needs.

use ferrite_core::timestamp;
use ferrite_proto::error::{self, FieldViolation, Kind, ServiceError};
use ferrite_proto::git;
use serde_json::{Value, json};

use super::git_data::Case;

const RULES: &str = "ferrite.git.v1.ProtectionService";
const WHITELIST: &str = "push_whitelist_usernames";

/// An error of git-svc that names these fields.
#[derive(Debug, thiserror::Error)]
#[error("fields are wrong")]
struct Refused(Vec<FieldViolation>);

impl ServiceError for Refused {
    fn classify(&self) -> (Kind, &'static str) {
        (Kind::InvalidArgument, "INVALID_FIELDS")
    }

    fn domain(&self) -> &'static str {
        "git"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        self.0.clone()
    }
}

#[tokio::test]
async fn rules_have_names_of_accounts_and_are_stored_by_ids() {
    let case = Case::new().await;
    let rpc = format!("{RULES}/SetProtection");
    let rule = |push_user_ids| git::Protection {
        id: 1,
        pattern: "release/*".into(),
        allow_force: true,
        push_user_ids,
        created_time: Some(timestamp(0)),
        updated_time: Some(timestamp(1_000_000)),
        requires_checks: true,
        required_contexts: vec!["ci/*".into()],
        ..Default::default()
    };
    let set = git::SetProtectionRequest {
        repository_id: 7,
        pattern: "release/*".into(),
        allow_force: true,
        push_user_ids: vec![3],
        ..Default::default()
    };
    let shown = |users: &[&str]| {
        json!({"pattern": "release/*", "rule_name": "release/*", "allow_force": true, "allow_delete": false,
               "push_users": users, "push_whitelist_usernames": users, "created_at": "1970-01-01T00:00:00Z",
               "updated_at": "1970-01-01T00:00:01Z", "enable_force_push": true, "enable_push": true,
               "enable_push_whitelist": !users.is_empty(), "enable_status_check": true,
               "status_check_contexts": ["ci/*"], "enable_merge_whitelist": false, "merge_whitelist_usernames": [],
               "block_on_outdated_branch": false, "required_approvals": 0, "enable_approvals_whitelist": false,
               "approvals_whitelist_username": [], "block_on_rejected_reviews": false,
               "block_on_official_review_requests": false, "dismiss_stale_approvals": false,
               "ignore_stale_approvals": false})
    };
    for (method, path, is_new, expected) in [
        ("POST", "/branch_protections", true, 201),
        ("PUT", "/branch_protections/release/*", false, 200),
        ("PUT", "/branch_protections/release%2F%2A", true, 201),
    ] {
        case.script.respond(&rpc, &git::SetProtectionResponse { protection: Some(rule(vec![3])), is_new });
        let mut body = json!({"allow_force": true, "push_users": ["bOB"]});
        if method == "POST" {
            body["pattern"] = "release/*".into();
        }
        let response = case.send(method, path, &body).await;
        assert_eq!((response.0, response.1), (expected, shown(&["Bob"])), "{method} {path}");
        case.check_request(&rpc, set.clone());
    }
    // Under Gitea's names.
    for body in [
        json!({"rule_name": "release/*", "allow_force": true, "push_whitelist_usernames": ["bob"]}),
        json!({"pattern": "release/*", "rule_name": "release/*", "allow_force": true, "push_users": ["bob"],
               "push_whitelist_usernames": ["bob"]}),
        json!({"pattern": "release/*", "rule_name": "", "allow_force": true, "push_users": ["bob"]}),
    ] {
        assert_eq!(case.send("POST", "/branch_protections", &body).await.0, 201, "{body}");
        case.check_request(&rpc, set.clone());
        assert_eq!(case.send("PUT", "/branch_protections/release/*", &body).await.0, 201, "{body}");
        case.check_request(&rpc, set.clone());
    }
    // A field and its other name.
    let two_users = json!({"pattern": "x", "push_users": ["bob"], "push_whitelist_usernames": ["eve"]});
    for (method, path, body, fields) in [
        ("POST", "/branch_protections", two_users.clone(), &["push_whitelist_usernames"][..]),
        ("PUT", "/branch_protections/x", two_users, &["push_whitelist_usernames"]),
        ("POST", "/branch_protections", json!({"pattern": "x", "rule_name": "y"}), &["rule_name"]),
        ("POST", "/branch_protections", json!({"pattern": "x", "rule_name": 7}), &["rule_name"]),
        ("PUT", "/branch_protections/x", json!({"rule_name": "y"}), &["rule_name"]),
        ("PUT", "/branch_protections/x", json!({"pattern": "y", "rule_name": "y"}), &["pattern", "rule_name"]),
        // In Gitea nobody can push then; here everyone can.
        ("POST", "/branch_protections", json!({"pattern": "x", "enable_push_whitelist": true}), &[WHITELIST]),
        ("PUT", "/branch_protections/x", json!({"enable_push_whitelist": true, "push_users": []}), &[WHITELIST]),
        (
            "PATCH",
            "/branch_protections/x",
            json!({"enable_push_whitelist": true, "push_whitelist_usernames": []}),
            &[WHITELIST],
        ),
    ] {
        let (status, refused, _) = case.send(method, path, &body).await;
        let errors = refused["errors"].as_array().unwrap();
        let named: Vec<_> = errors.iter().map(|error| error["field"].as_str().unwrap()).collect();
        assert_eq!((status, named.as_slice()), (422, fields), "{method} {body}");
        assert!(case.script.take_request::<git::SetProtectionRequest>(&rpc).is_none());
    }
    // git-svc refuses the id zero, and names all other wrong fields too.
    let violations = ["pattern", "push_user_ids"].map(|field| FieldViolation::new(field, "invalid", "is wrong"));
    case.script.fail(&rpc, error::to_status(&Refused(violations.to_vec())));
    let body = json!({"pattern": "x", "push_users": ["bob", "eve"]});
    let (status, refused, _) = case.send("POST", "/branch_protections", &body).await;
    let errors = [0_usize, 1].map(|at| (&refused["errors"][at]["field"], &refused["errors"][at]["code"]));
    let expected = [("pattern", "invalid"), ("push_users", "unknown")].map(|(field, code)| (json!(field), json!(code)));
    assert_eq!((status, errors), (422, [(&expected[0].0, &expected[0].1), (&expected[1].0, &expected[1].1)]));
    assert_eq!(case.script.take_request::<git::SetProtectionRequest>(&rpc).unwrap().push_user_ids, [3, 0]);

    let rpc = format!("{RULES}/ListProtections");
    case.script.respond(&rpc, &git::ListProtectionsResponse { protections: vec![rule(vec![3, 9])] });
    assert_eq!(case.send("GET", "/branch_protections", &Value::Null).await.1, json!([shown(&["Bob", "ghost"])]));
    case.check_request(&rpc, git::ListProtectionsRequest { repository_id: 7 });
    let rpc = format!("{RULES}/GetProtection");
    case.script.respond(&rpc, &git::GetProtectionResponse { protection: Some(rule(Vec::new())) });
    assert_eq!(case.send("GET", "/branch_protections/release/*", &Value::Null).await.1, shown(&[]));
    let pattern = "release/*".to_owned();
    case.check_request(
        &rpc,
        git::GetProtectionRequest { repository_id: 7, protection_id: 0, pattern: pattern.clone() },
    );
    let rpc = format!("{RULES}/DeleteProtection");
    case.script.respond(&rpc, &git::DeleteProtectionResponse {});
    assert_eq!(case.send("DELETE", "/branch_protections/release/*", &Value::Null).await.0, 204);
    case.check_request(&rpc, git::DeleteProtectionRequest { repository_id: 7, protection_id: 0, pattern });
}

#[tokio::test]
async fn rules_say_who_merges_and_whether_the_head_must_be_current() {
    let case = Case::new().await;
    let rpc = format!("{RULES}/SetProtection");
    let rule = git::Protection {
        pattern: "main".into(),
        created_time: Some(timestamp(0)),
        updated_time: Some(timestamp(0)),
        merge_user_ids: vec![3],
        requires_current_head: true,
        ..Default::default()
    };
    case.script.respond(&rpc, &git::SetProtectionResponse { protection: Some(rule.clone()), is_new: true });
    let body = json!({"rule_name": "main", "enable_merge_whitelist": true, "merge_whitelist_usernames": ["bOB"],
                      "block_on_outdated_branch": true});
    let (status, shown, _) = case.send("POST", "/branch_protections", &body).await;
    let seen = ["enable_merge_whitelist", "merge_whitelist_usernames", "block_on_outdated_branch", "push_users"]
        .map(|name| shown[name].clone());
    assert_eq!((status, json!(seen)), (201, json!([true, ["Bob"], true, []])));
    let expected = git::SetProtectionRequest {
        repository_id: 7,
        pattern: "main".into(),
        merge_user_ids: vec![3],
        requires_current_head: true,
        ..Default::default()
    };
    case.check_request(&rpc, expected);

    let rpc = format!("{RULES}/UpdateProtection");
    case.script.respond(&rpc, &git::UpdateProtectionResponse { protection: Some(rule) });
    let change =
        |merge_user_ids: Option<&[i64]>, requires_merge_users, keeps_merge_users| git::UpdateProtectionRequest {
            repository_id: 7,
            pattern: "main".into(),
            merge_user_ids: merge_user_ids.map(|ids| git::UserIds { ids: ids.to_vec() }),
            requires_merge_users,
            keeps_merge_users,
            ..Default::default()
        };
    for (body, expected) in [
        (json!({"merge_whitelist_teams": [], "merge_whitelist_usernames": null}), change(None, false, false)),
        (json!({"enable_merge_whitelist": true}), change(None, true, false)),
        (json!({"merge_whitelist_usernames": ["bob"]}), change(Some(&[3]), false, false)),
        // In Gitea nobody can merge then; here everyone can.
        (json!({"merge_whitelist_usernames": []}), change(Some(&[]), false, true)),
        (json!({"enable_merge_whitelist": false}), change(Some(&[]), false, false)),
    ] {
        assert_eq!(case.send("PATCH", "/branch_protections/main", &body).await.0, 200, "{body}");
        case.check_request(&rpc, expected);
    }
    for (body, field) in [
        (json!({"enable_merge_whitelist": true, "merge_whitelist_usernames": []}), "merge_whitelist_usernames"),
        (json!({"enable_merge_whitelist": false, "merge_whitelist_usernames": ["bob"]}), "enable_merge_whitelist"),
        (json!({"merge_whitelist_usernames": ["eve"]}), "merge_whitelist_usernames"),
        (json!({"merge_whitelist_teams": ["devs"]}), "merge_whitelist_teams"),
        (json!({"require_signed_commits": true}), "require_signed_commits"),
    ] {
        let (status, refused, _) = case.send("PATCH", "/branch_protections/main", &body).await;
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
}

#[tokio::test]
async fn rules_say_which_reviews_a_merge_needs() {
    let case = Case::new().await;
    let rpc = format!("{RULES}/SetProtection");
    let rule = git::Protection {
        pattern: "main".into(),
        created_time: Some(timestamp(0)),
        updated_time: Some(timestamp(0)),
        required_approvals: 2,
        approver_ids: vec![3],
        dismisses_stale_approvals: true,
        blocks_on_requests: true,
        ..Default::default()
    };
    case.script.respond(&rpc, &git::SetProtectionResponse { protection: Some(rule.clone()), is_new: true });
    let settings = json!({"required_approvals": 2, "enable_approvals_whitelist": true,
                          "approvals_whitelist_username": ["Bob"], "block_on_rejected_reviews": false,
                          "block_on_official_review_requests": true, "dismiss_stale_approvals": true,
                          "ignore_stale_approvals": false});
    let mut body = settings.clone();
    body["rule_name"] = "main".into();
    let (status, shown, _) = case.send("POST", "/branch_protections", &body).await;
    assert_eq!(status, 201);
    for (name, value) in settings.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    let expected = git::SetProtectionRequest {
        repository_id: 7,
        pattern: "main".into(),
        required_approvals: 2,
        approver_ids: vec![3],
        dismisses_stale_approvals: true,
        blocks_on_requests: true,
        ..Default::default()
    };
    case.check_request(&rpc, expected);

    let rpc = format!("{RULES}/UpdateProtection");
    case.script.respond(&rpc, &git::UpdateProtectionResponse { protection: Some(rule) });
    let change = |approver_ids: Option<&[i64]>, requires_approvers, keeps_approvers| git::UpdateProtectionRequest {
        repository_id: 7,
        pattern: "main".into(),
        approver_ids: approver_ids.map(|ids| git::UserIds { ids: ids.to_vec() }),
        requires_approvers,
        keeps_approvers,
        ..Default::default()
    };
    let swapped = git::UpdateProtectionRequest {
        required_approvals: Some(0),
        ignores_stale_approvals: Some(true),
        blocks_on_rejection: Some(true),
        ..change(None, false, false)
    };
    let too_many = git::UpdateProtectionRequest { required_approvals: Some(i32::MAX), ..change(None, false, false) };
    for (body, expected) in [
        (json!({"required_approvals": 0, "ignore_stale_approvals": true, "block_on_rejected_reviews": true}), swapped),
        (json!({"required_approvals": null, "approvals_whitelist_teams": []}), change(None, false, false)),
        (json!({"required_approvals": 5_000_000_000_i64}), too_many),
        (json!({"enable_approvals_whitelist": true}), change(None, true, false)),
        (json!({"approvals_whitelist_username": ["bob"]}), change(Some(&[3]), false, false)),
        // Nobody's approval counts in Gitea, and everyone's here.
        (json!({"approvals_whitelist_username": []}), change(Some(&[]), false, true)),
        (json!({"enable_approvals_whitelist": false}), change(Some(&[]), false, false)),
    ] {
        assert_eq!(case.send("PATCH", "/branch_protections/main", &body).await.0, 200, "{body}");
        case.check_request(&rpc, expected);
    }
    let (list, switch) = ("approvals_whitelist_username", "enable_approvals_whitelist");
    for (body, field) in [
        (json!({switch: true, list: []}), list),
        (json!({switch: false, list: ["bob"]}), switch),
        (json!({list: ["eve"]}), list),
        (json!({"required_approvals": "2"}), "required_approvals"),
        (json!({"approvals_whitelist_teams": ["devs"]}), "approvals_whitelist_teams"),
    ] {
        let (status, refused, _) = case.send("PATCH", "/branch_protections/main", &body).await;
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
}
