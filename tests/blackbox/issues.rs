//! Issues: creation and reading, their fields, the count of open ones, and deletion with the
//! repository.

use serde_json::{Value, json};

use crate::harness::{Cluster, Response};

on_profiles! {
    both {
        post_issues_responds_with_the_issue_as_it_is_read
        post_issues_takes_assignee_milestone_and_labels_from_writers
        open_issues_count_is_true_at_the_next_read
        deleting_a_repository_removes_its_issues
    }
    embedded {
        post_issues_is_open_to_readers_and_drops_what_only_writers_set
        post_issues_names_the_field_that_is_wrong
        post_issues_refuses_what_is_unknown_or_of_another_repository
        post_issues_assigns_only_users_who_may_read
        post_issues_refuses_without_using_a_number
        titles_are_one_trimmed_line
        bodies_have_at_most_a_mebibyte_however_they_are_written
        get_issues_index_finds_numbers_alone
        issues_cannot_be_deleted
        issues_of_a_deleted_account_stay
    }
}

async fn post_issues_responds_with_the_issue_as_it_is_read(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let body = json!({
        "title": "It breaks", "body": "Badly.", "assignee": "", "milestone": 0, "labels": null, "closed": false,
        "state": "closed", "number": 7, "unknown": {"a": [1]},
    });
    let issue = ada.post(&format!("{repo}/issues"), &body).await.expect(201).json();
    let expected = json!({
        "id": issue["id"], "number": 1, "user": ada.profile().await, "title": "It breaks",
        "body": "Badly.", "labels": [], "milestone": null, "assignee": null, "assignees": [], "state": "open", "comments": 0,
        "created_at": issue["created_at"], "updated_at": issue["created_at"], "closed_at": null,
        "due_date": null,
        "html_url": format!("{}/{}/tracker/issues/1", cluster.url, ada.name), "repository": issue["repository"],
    });
    assert_eq!(issue, expected);
    assert_eq!(issue["repository"]["full_name"], format!("{}/tracker", ada.name));
    assert_eq!(ada.issue(&repo, 1).await, issue);
    assert_eq!(ada.issue(&repo.replace("tracker", "TRACKER"), 1).await, issue);
    assert_eq!(ada.get(&format!("{repo}/issues")).await.expect(200).json(), json!([issue]));
    let closed = ada.new_issue(&repo, "Done", json!({"closed": true})).await;
    assert_eq!((&closed["number"], &closed["state"]), (&json!(2), &json!("closed")));
    assert_eq!(closed["closed_at"], closed["created_at"]);
    assert!(closed["id"].as_i64() > issue["id"].as_i64());
}

async fn post_issues_takes_assignee_milestone_and_labels_from_writers(cluster: &Cluster) {
    let (ada, bob, cy) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("cy").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.share(&repo, &bob, "write").await;
    ada.share(&repo, &cy, "read").await;
    let (slow, bug) = (ada.new_label(&repo, "slow").await, ada.new_label(&repo, "bug").await);
    let milestone = ada.new_milestone(&repo, "One").await;
    let more = json!({"assignee": cy.name.to_uppercase(), "milestone": milestone, "labels": [slow, bug, slow]});
    let issue = bob.new_issue(&repo, "Whole", more).await;
    assert_eq!(issue["assignee"], cy.profile().await);
    assert_eq!(issue["milestone"], ada.get(&format!("{repo}/milestones/{milestone}")).await.expect(200).json());
    assert_eq!((&issue["milestone"]["open_issues"], &issue["milestone"]["closed_issues"]), (&json!(1), &json!(0)));
    assert_eq!(issue["labels"], ada.get(&format!("{repo}/labels")).await.expect(200).json(), "by name, each once");
    assert_eq!(ada.issue(&repo, 1).await, issue);
    assert_eq!(ada.get(&format!("{repo}/issues")).await.expect(200).json(), json!([issue]));
    let closed = json!({"closed": true, "milestone": milestone});
    let closed = bob.new_issue(&repo, "Closed", closed).await;
    assert_eq!(
        (&closed["milestone"]["open_issues"], &closed["milestone"]["closed_issues"]),
        (&json!(1), &json!(1)),
        "{closed}"
    );
}

async fn post_issues_is_open_to_readers_and_drops_what_only_writers_set(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let open = ada.new_tracker("open", json!({})).await;
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    let (label, milestone) = (ada.new_label(&open, "bug").await, ada.new_milestone(&open, "One").await);
    for (assignee, milestone, labels) in
        [("no-such-user", 77, vec![5]), (ada.name.as_str(), milestone, vec![label]), (&ada.name, -1, vec![0, -1])]
    {
        let more = json!({"assignee": assignee, "milestone": milestone, "labels": labels, "closed": true});
        let made = bob.new_issue(&open, "Hello", more).await;
        assert_eq!((&made["state"], &made["user"]["username"]), (&json!("closed"), &json!(bob.name)));
        assert_eq!((&made["assignee"], &made["milestone"], &made["labels"]), (&Value::Null, &Value::Null, &json!([])));
    }
    bob.post(&format!("{hidden}/issues"), &json!({"title": "x"})).await.refused(404);
    bob.get(&format!("{hidden}/issues")).await.refused(404);
    cluster.anonymous().post(&format!("{open}/issues"), &json!({"title": "x"})).await.refused(401);
    cluster.anonymous().get(&format!("{open}/issues/1")).await.expect(200);
    cluster.anonymous().get(&format!("{hidden}/issues")).await.refused(404);
    assert_eq!(ada.open_issues(&open).await, 0);
    // Any level below write in a private repository can only read.
    ada.share(&hidden, &bob, "read").await;
    let made = bob.new_issue(&hidden, "Mine", json!({"assignee": bob.name})).await;
    assert_eq!(made["assignee"], Value::Null);
}

async fn post_issues_names_the_field_that_is_wrong(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/issues");
    for user in [&ada, &bob] {
        user.post(&path, &json!({})).await.refused_fields(&[("title", "required")]);
        user.post(&path, &json!({"title": ""})).await.refused_fields(&[("title", "required")]);
        user.post(&path, &json!({"title": null})).await.refused_fields(&[("title", "required")]);
        user.post(&path, &json!({"title": " \t "})).await.refused_field("title");
        user.post(&path, &json!({"title": "t".repeat(256)})).await.refused_fields(&[("title", "too_long")]);
        user.post(&path, &json!({"title": 1, "body": []})).await.refused_fields(&[("title", "type"), ("body", "type")]);
        for (field, wrong) in [
            ("labels", json!(["bug"])),
            ("labels", json!(1)),
            ("labels", json!([1.5])),
            ("milestone", json!("1")),
            ("assignee", json!(1)),
            ("closed", json!("no")),
        ] {
            let mut body = json!({"title": "x"});
            body[field] = wrong;
            user.post(&path, &body).await.refused_fields(&[(field, "type")]);
        }
    }
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
}

async fn post_issues_refuses_what_is_unknown_or_of_another_repository(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (repo, other) = (ada.new_tracker("tracker", json!({})).await, ada.new_tracker("other", json!({})).await);
    let path = format!("{repo}/issues");
    let label = ada.new_label(&repo, "bug").await;
    let (foreign, milestone) = (ada.new_label(&other, "bug").await, ada.new_milestone(&other, "One").await);
    for wrong in [json!([999_999_999]), json!([label, 999_999_999]), json!([foreign]), json!([0]), json!([-1])] {
        ada.post(&path, &json!({"title": "x", "labels": wrong})).await.refused_field("labels");
    }
    for wrong in [999_999_999, milestone, -1, i64::MAX] {
        ada.post(&path, &json!({"title": "x", "milestone": wrong})).await.refused_field("milestone");
    }
    let many: Vec<_> = (1..=101).map(|number| 900_000_000 + number).collect();
    ada.post(&path, &json!({"title": "x", "labels": many})).await.refused_field("labels");
    ada.post(&path, &json!({"title": "x", "assignee": "no-such-user"})).await.refused_field("assignee");
    // All at once.
    let unknown = json!({"assignee": "no-such-user", "milestone": milestone, "labels": [foreign]});
    let fields = [("title", "required"), ("assignee", "unknown"), ("milestone", "unknown"), ("labels", "unknown")];
    let refused = ada.post(&path, &unknown).await.refused_fields(&fields);
    assert_eq!(refused.json()["message"], "`title`: must not be blank");
    let mut titled = unknown;
    titled["title"] = json!("x");
    ada.post(&path, &titled).await.refused_fields(&fields[1..]);
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
}

async fn post_issues_assigns_only_users_who_may_read(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (open, hidden) =
        (ada.new_tracker("open", json!({})).await, ada.new_tracker("hidden", json!({"private": true})).await);
    let organization = ada.new_organization("acme").await;
    let assign = async |repo: &str, name: &str| {
        ada.post(&format!("{repo}/issues"), &json!({"title": "x", "assignee": name})).await
    };
    for wrong in [organization.as_str(), "no-such-user", "a b", "\u{fc}", "../x"] {
        assign(&open, wrong).await.refused_field("assignee");
    }
    assign(&hidden, &bob.name).await.refused_field("assignee");
    assert_eq!(assign(&open, &bob.name).await.expect(201).json()["assignee"]["username"], bob.name);
    ada.share(&hidden, &bob, "read").await;
    assert_eq!(assign(&hidden, &bob.name).await.expect(201).json()["assignee"]["username"], bob.name);
    ada.delete(&format!("{hidden}/collaborators/{}", bob.name)).await.expect(204);
    assign(&hidden, &bob.name).await.refused_field("assignee");
    // In an organization's repository, its members.
    ada.new_repository_of(&organization, "crewed", true).await;
    let crewed = format!("/repos/{organization}/crewed");
    assign(&crewed, &bob.name).await.refused_field("assignee");
    let team = ada.new_team(&organization, "crew", "read").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.expect(204);
    ada.put_nothing(&format!("{team}/repos/crewed")).await.expect(204);
    assign(&crewed, &bob.name).await.expect(201);
    assign(&crewed, &organization).await.refused_field("assignee");
}

async fn post_issues_refuses_without_using_a_number(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    for body in [
        json!({}),
        json!({"title": "x", "labels": [9]}),
        json!({"title": "x", "milestone": 9}),
        json!({"title": "x", "assignee": "no-such-user"}),
        json!({"title": "x", "body": "\u{0}"}),
    ] {
        ada.post(&format!("{repo}/issues"), &body).await.refused(422);
    }
    assert_eq!(ada.new_issue(&repo, "First", json!({})).await["number"], 1);
}

async fn titles_are_one_trimmed_line(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.new_issue(&repo, "Edited", json!({})).await;
    for (given, kept) in [
        ("  both sides \t", "both sides"),
        ("\r\na\tb\n", "a b"),
        ("a\nb", "a b"),
        ("a\rb", "a b"),
        ("a  b", "a  b"),
        ("\u{e4}\u{1f600} <b>&\"", "\u{e4}\u{1f600} <b>&\""),
        (&format!(" {} ", "\u{e4}".repeat(255)), &"\u{e4}".repeat(255)),
    ] {
        assert_eq!(ada.new_issue(&repo, given, json!({})).await["title"], kept, "{given:?}");
        assert_eq!(ada.edit_issue(&repo, 1, json!({ "title": given })).await["title"], kept, "{given:?}");
    }
    for wrong in ["a\u{0}b", "a\u{1}b", "a\u{1b}[31mb", "a\u{7f}b", &"\u{e4}".repeat(256)] {
        ada.post(&format!("{repo}/issues"), &json!({ "title": wrong })).await.refused_field("title");
        ada.patch(&format!("{repo}/issues/1"), &json!({ "title": wrong })).await.refused_field("title");
    }
    assert_eq!(ada.issue(&repo, 1).await["title"], "\u{e4}".repeat(255));
}

async fn bodies_have_at_most_a_mebibyte_however_they_are_written(cluster: &Cluster) {
    const MAX_BODY_BYTES: usize = 1 << 20;
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/issues");
    // Six bytes of JSON per character, and two.
    for (number, body) in ["\u{1}".repeat(MAX_BODY_BYTES), "\u{e4}".repeat(MAX_BODY_BYTES / 2)].iter().enumerate() {
        ada.post(&path, &json!({"title": "x", "body": body})).await.expect(201);
        let edited = ada.edit_issue(&repo, 1, json!({ "body": body })).await;
        assert_eq!(edited["body"].as_str(), Some(body.as_str()), "{number}");
        ada.post(&format!("{path}/1/comments"), &json!({ "body": body })).await.expect(201);
        let over = format!("{body}x");
        ada.post(&path, &json!({"title": "x", "body": over})).await.refused_fields(&[("body", "too_long")]);
        ada.patch(&format!("{path}/1"), &json!({ "body": over })).await.refused_fields(&[("body", "too_long")]);
        let comment = ada.post(&format!("{path}/1/comments"), &json!({ "body": over })).await;
        comment.refused_fields(&[("body", "too_long")]);
    }
    for body in ["\u{0}", "a\u{0}b"] {
        ada.post(&path, &json!({"title": "x", "body": body})).await.refused_field("body");
    }
    let list = ada.get(&format!("{path}?limit=50")).await.expect(200).json();
    assert_eq!(list.as_array().unwrap().len(), 2, "issues of 1 MiB are listed");
    assert_eq!(ada.get(&format!("{path}/1/comments")).await.expect(200).ids("id").len(), 2);
    let over_all = json!({"title": "x", "body": "b".repeat(9 << 20)});
    ada.post(&path, &over_all).await.refused(413);
}

async fn get_issues_index_finds_numbers_alone(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.new_issue(&repo, "Only", json!({})).await;
    for wrong in ["0", "2", "-1", "abc", "99999999999999999999", "1.5", "%00", "01x", "+1", "1%2F", "%20"] {
        ada.get(&format!("{repo}/issues/{wrong}")).await.refused(404);
        ada.patch(&format!("{repo}/issues/{wrong}"), &json!({"title": "x"})).await.refused(404);
        ada.get(&format!("{repo}/issues/{wrong}/comments")).await.refused(404);
        ada.get(&format!("{repo}/issues/{wrong}/labels")).await.refused(404);
        ada.get(&format!("{repo}/issues/{wrong}/timeline")).await.refused(404);
    }
    assert_eq!(outsider.issue(&repo, 1).await, ada.issue(&repo, 1).await);
    assert_eq!(ada.get(&format!("{repo}/issues/1/")).await.expect(200).json(), ada.issue(&repo, 1).await);
}

async fn issues_cannot_be_deleted(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.new_issue(&repo, "Stays", json!({})).await;
    ada.delete(&format!("{repo}/issues/1")).await.refused_any(&[404, 405]);
    ada.issue(&repo, 1).await;
}

async fn issues_of_a_deleted_account_stay(cluster: &Cluster) {
    let (ada, bob, admin) = (cluster.user("ada").await, cluster.user("bob").await, cluster.admin().await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.share(&repo, &bob, "write").await;
    let before = bob.new_issue(&repo, "Mine", json!({"assignee": ada.name})).await;
    bob.new_comment(&repo, 1, "Also mine").await;
    admin.delete(&format!("/admin/users/{}", bob.name)).await.expect(204);
    let after = ada.issue(&repo, 1).await;
    assert_eq!((&after["user"]["username"], &after["user"]["login"]), (&json!("ghost"), &json!("ghost")));
    assert_ne!(after["user"]["email"], bob.email.as_str());
    for field in ["id", "number", "title", "body", "assignee", "created_at", "html_url", "state"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(ada.get(&format!("{repo}/issues")).await.expect(200).json(), json!([after]));
    let comments = ada.get(&format!("{repo}/issues/1/comments")).await.expect(200).json();
    assert_eq!((&comments[0]["user"]["username"], &comments[0]["body"]), (&json!("ghost"), &json!("Also mine")));
    let of_name = ada.get(&format!("{repo}/issues?creator={}", bob.name)).await.expect(200);
    assert_eq!(of_name.text(), "[]", "the name is unknown");
    ada.edit_issue(&repo, 1, json!({"state": "closed"})).await;
}

async fn open_issues_count_is_true_at_the_next_read(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("counted", json!({})).await;
    for round in 0..5 {
        let number = ada.new_issue(&repo, "One", json!({})).await["number"].as_i64().unwrap();
        assert_eq!(ada.open_issues(&repo).await, 1, "{round}");
        bob.new_issue(&repo, "Closed", json!({"closed": true})).await;
        assert_eq!(ada.open_issues(&repo).await, 1, "{round}");
        ada.edit_issue(&repo, number, json!({"state": "closed"})).await;
        assert_eq!(ada.open_issues(&repo).await, 0, "{round}");
        ada.edit_issue(&repo, number, json!({"state": "open", "title": "Again"})).await;
        assert_eq!(ada.open_issues(&repo).await, 1, "{round}");
        ada.edit_issue(&repo, number, json!({"state": "open"})).await;
        ada.edit_issue(&repo, number, json!({"state": "closed"})).await;
        ada.edit_issue(&repo, number, json!({"state": "closed"})).await;
        assert_eq!(ada.open_issues(&repo).await, 0, "{round}");
    }
    let listed = ada.get("/user/repos").await.expect(200).json();
    assert_eq!(listed[0]["open_issues_count"], 0);
}

async fn deleting_a_repository_removes_its_issues(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (repo, kept) = (ada.new_tracker("gone", json!({})).await, ada.new_tracker("kept", json!({})).await);
    let fill = async |repo: &str| {
        let (label, milestone) = (ada.new_label(repo, "bug").await, ada.new_milestone(repo, "One").await);
        let more = json!({"labels": [label], "milestone": milestone, "assignee": ada.name, "body": "needle"});
        ada.new_issue(repo, "Old", more).await;
        let comment = ada.new_comment(repo, 1, "Old too").await;
        (ada.issue(repo, 1).await, comment, label, milestone)
    };
    let (old, comment, label, milestone) = fill(&repo).await;
    let (other, ..) = fill(&kept).await;
    ada.new_issue(&repo, "Second", json!({})).await;
    ada.delete(&repo).await.expect(204);
    for rest in ["issues", "issues/1", "issues/1/comments", "issues/comments", "labels", "milestones"] {
        ada.get(&format!("{repo}/{rest}")).await.refused(404);
    }
    assert_eq!(ada.get("/user/issues").await.expect(200).ids("id"), [other["id"].as_i64().unwrap()]);
    ada.new_tracker("gone", json!({})).await;
    assert_eq!(ada.open_issues(&repo).await, 0);
    for rest in ["issues?state=all", "issues?state=all&q=needle", "issues/comments", "labels", "milestones"] {
        let list = ada.get(&format!("{repo}/{rest}")).await.expect(200);
        assert_eq!((list.text().as_str(), list.header("x-total-count").as_str()), ("[]", "0"), "{rest}");
    }
    let new = ada.new_issue(&repo, "New", json!({})).await;
    assert_eq!((&new["number"], &new["comments"], &new["labels"]), (&json!(1), &json!(0), &json!([])));
    assert!(new["id"].as_i64() > old["id"].as_i64(), "ids are not reused");
    assert_eq!(ada.actions(&repo, 1).await, [""; 0]);
    for gone in [
        format!("issues/comments/{comment}"),
        format!("issues/1/comments/{comment}"),
        format!("labels/{label}"),
        format!("milestones/{milestone}"),
        "issues/2".to_owned(),
    ] {
        let response: Response = ada.get(&format!("{repo}/{gone}")).await;
        response.refused(404);
    }
    assert_eq!(ada.issue(&kept, 1).await, other);
}
