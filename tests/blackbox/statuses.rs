//! Commit statuses: reported, listed, combined, and required by branch protection.

use serde_json::{Value, json};

use crate::harness::{Cluster, Git, User};

on_profiles! {
    both {
        the_newest_status_of_each_context_counts
    }
    embedded {
        statuses_are_for_writers_and_readers
        a_protected_branch_takes_only_commits_with_successful_checks
    }
}

/// A repository with a commit; returns its id.
async fn repository(user: &User, name: &str) -> String {
    user.new_repository(name, json!({"auto_init": true})).await;
    let branch = user.get(&user.repo(name, "/branches/main")).await.expect(200).json();
    branch["commit"]["id"].as_str().unwrap().to_owned()
}

fn contexts(list: &Value) -> Vec<(&str, &str)> {
    let entries = list.as_array().unwrap().iter();
    entries.map(|status| (status["context"].as_str().unwrap(), status["status"].as_str().unwrap())).collect()
}

async fn the_newest_status_of_each_context_counts(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let sha = repository(&ada, "checked").await;
    let statuses = ada.repo("checked", &format!("/statuses/{sha}"));
    let none = ada.get(&ada.repo("checked", &format!("/commits/{sha}/status"))).await.expect(200).json();
    assert_eq!((&none["state"], &none["statuses"], &none["total_count"]), (&json!("pending"), &json!([]), &json!(0)));
    let build = |state: &str| json!({"state": state, "context": "ci/build", "description": "One\nline", "target_url": "https://ci.example/1"});
    let first = ada.post(&statuses, &build("pending")).await.expect(201);
    assert!(first.header("location").ends_with(&format!("/checked/statuses/{sha}")), "{}", first.header("location"));
    let first = first.json();
    assert_eq!((&first["status"], &first["description"]), (&json!("pending"), &json!("One line")));
    assert_eq!((&first["creator"]["login"], &first["created_at"]), (&json!(ada.name), &first["updated_at"]));
    ada.post(&statuses, &json!({"state": "success"})).await.expect(201);
    ada.post(&statuses, &build("failure")).await.expect(201);
    // By a branch, also with slashes.
    ada.put(
        &ada.repo("checked", "/contents/x"),
        &json!({"message": "m", "content": "eA==", "new_branch": "feature/x"}),
    )
    .await
    .expect(201);
    ada.post(&ada.repo("checked", "/statuses/feature/x"), &json!({"state": "warning"})).await.expect(201);
    for branch in ["feature/x", "feature%2Fx"] {
        let combined = ada.get(&ada.repo("checked", &format!("/commits/{branch}/status"))).await.expect(200).json();
        assert_eq!(
            (&combined["state"], contexts(&combined["statuses"])),
            (&json!("warning"), vec![("default", "warning")])
        );
        ada.get(&ada.repo("checked", &format!("/commits/{branch}"))).await.expect(200);
    }
    for list in [statuses.clone(), ada.repo("checked", "/commits/main/statuses")] {
        let newest = ada.get(&list).await.expect(200);
        assert_eq!(newest.header("x-total-count"), "3");
        let expected = [("ci/build", "failure"), ("default", "success"), ("ci/build", "pending")];
        assert_eq!(contexts(&newest.json()), expected);
        let oldest = ada.get(&format!("{list}?sort=oldest&limit=1")).await.expect(200).json();
        assert_eq!(oldest, json!([first]));
        let failed = ada.get(&format!("{list}?state=failure")).await.expect(200).json();
        assert_eq!(contexts(&failed), [("ci/build", "failure")]);
        ada.get(&format!("{list}?state=broken")).await.refused_field("state");
    }
    let combined = ada.get(&ada.repo("checked", "/commits/main/status")).await.expect(200).json();
    assert_eq!((&combined["state"], &combined["sha"]), (&json!("failure"), &json!(sha)));
    assert_eq!(contexts(&combined["statuses"]), [("ci/build", "failure"), ("default", "success")]);
    assert_eq!(combined["repository"]["full_name"], format!("{}/checked", ada.name));
}

async fn statuses_are_for_writers_and_readers(cluster: &Cluster) {
    let (ada, eve) = (cluster.user("ada").await, cluster.user("eve").await);
    let sha = repository(&ada, "open").await;
    let statuses = ada.repo("open", &format!("/statuses/{sha}"));
    eve.post(&statuses, &json!({"state": "success"})).await.refused(403);
    eve.get(&statuses).await.expect(200);
    ada.post(&ada.repo("open", &format!("/statuses/{}", "a".repeat(40))), &json!({"state": "success"}))
        .await
        .refused(404);
    ada.get(&ada.repo("open", "/commits/gone/statuses")).await.refused(404);
    for (body, field) in [
        (json!({}), "state"),
        (json!({"state": ""}), "state"),
        (json!({"state": "done"}), "state"),
        (json!({"state": "success", "target_url": "javascript:alert(1)"}), "target_url"),
        (json!({"state": "success", "context": "a\u{202e}b"}), "context"),
        (json!({"state": "success", "context": "x".repeat(256)}), "context"),
        (json!({"state": "success", "description": "x".repeat(1001)}), "description"),
    ] {
        ada.post(&statuses, &body).await.refused_field(field);
    }
    assert_eq!(ada.get(&statuses).await.expect(200).json(), json!([]));
}

async fn a_protected_branch_takes_only_commits_with_successful_checks(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("gated", json!({})).await;
    git.small("work").await;
    let url = ada.git_url(&ada.name, "gated");
    git.run("work", &["push", "-q", &url, "main"]).await;
    let rules = ada.repo("gated", "/branch_protections");
    let rule = json!({"rule_name": "main", "enable_status_check": true, "status_check_contexts": ["ci/*"]});
    let rule = ada.post(&rules, &rule).await.expect(201).json();
    assert_eq!(rule["status_check_contexts"], json!(["ci/*"]));
    let new = git.commit("work", "x", "x").await;
    let refusal = "protected branch: required status checks have not succeeded";
    let refused = git.fails("work", &["push", &url, "main"]).await;
    assert!(refused.contains(refusal), "{refused}");
    git.run("work", &["push", "-q", &url, "main:next"]).await;
    let statuses = ada.repo("gated", &format!("/statuses/{new}"));
    for (context, state) in [("lint", "success"), ("ci/a", "pending"), ("ci/a", "failure")] {
        ada.post(&statuses, &json!({"state": state, "context": context})).await.expect(201);
        git.fails("work", &["push", &url, "main"]).await;
    }
    ada.post(&statuses, &json!({"state": "success", "context": "ci/a"})).await.expect(201);
    git.run("work", &["push", "-q", &url, "main"]).await;
    let change = json!({"message": "m", "content": "eA=="});
    ada.put(&ada.repo("gated", "/contents/y"), &change).await.refused(403);
    // A change keeps what it does not name.
    let open = ada.patch(&format!("{rules}/main"), &json!({"enable_status_check": false})).await.expect(200).json();
    assert_eq!((&open["status_check_contexts"], &open["enable_push"]), (&json!(["ci/*"]), &json!(true)));
    ada.put(&ada.repo("gated", "/contents/y"), &change).await.expect(201);
    ada.patch(&format!("{rules}/main"), &json!({"enable_push": false})).await.expect(200);
    ada.put(&ada.repo("gated", "/contents/z"), &change).await.refused(403);
    ada.patch(&format!("{rules}/other"), &json!({"enable_push": true})).await.refused(404);
    let signed = json!({"require_signed_commits": true});
    ada.patch(&format!("{rules}/main"), &signed).await.refused_field("require_signed_commits");
}
