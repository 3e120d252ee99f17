//! Due dates of issues and pull requests.

use serde_json::{Value, json};

use crate::harness::Cluster;

on_profiles! {
    both {
        a_due_date_is_set_moved_and_removed_and_the_timeline_tells_of_it
    }
    embedded {
        a_due_date_counts_from_write_permission_on
        a_deadline_is_for_writers_alone
        a_pull_request_has_a_due_date
    }
}

const FIRST: &str = "2030-03-01T00:00:00Z";
const SECOND: &str = "2031-04-02T03:04:05Z";

async fn a_due_date_is_set_moved_and_removed_and_the_timeline_tells_of_it(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    for more in [json!({}), json!({"due_date": null}), json!({"due_date": ""})] {
        assert_eq!(ada.new_issue(&repo, "Open", more).await["due_date"], Value::Null);
    }
    for (body, shown) in [
        (json!({"due_date": FIRST}), json!(FIRST)),
        (json!({"due_date": FIRST}), json!(FIRST)),
        (json!({"due_date": null, "unset_due_date": false}), json!(FIRST)),
        (json!({"due_date": "2031-04-02T05:04:05.9+02:00"}), json!(SECOND)),
        (json!({"unset_due_date": true}), Value::Null),
        (json!({"unset_due_date": true}), Value::Null),
    ] {
        let edited = ada.edit_issue(&repo, 1, body.clone()).await;
        assert_eq!(edited["due_date"], shown, "{body}");
        assert_eq!(ada.issue(&repo, 1).await, edited);
    }
    let timeline = ada.timeline(&repo, 1).await;
    let told: Vec<_> = timeline.iter().map(|entry| json!([entry["action"], entry["type"], entry["body"]])).collect();
    let expected = [
        json!(["due_date_added", "added_deadline", "2030-03-01"]),
        json!(["due_date_changed", "modified_deadline", "2031-04-02|2030-03-01"]),
        json!(["due_date_removed", "removed_deadline", "2031-04-02"]),
    ];
    assert_eq!(told, expected);
    let path = format!("{repo}/issues/1");
    for wrong in [json!("2030-03-01"), json!("0000-01-01T00:00:00Z"), json!("soon"), json!(7)] {
        ada.patch(&path, &json!({"due_date": wrong})).await.refused_field("due_date");
        ada.post(&format!("{path}/deadline"), &json!({"due_date": wrong})).await.refused_field("due_date");
        ada.post(&format!("{repo}/issues"), &json!({"title": "x", "due_date": wrong})).await.refused_field("due_date");
    }
    ada.patch(&path, &json!({"due_date": FIRST, "unset_due_date": true})).await.refused_field("due_date");
}

async fn a_due_date_counts_from_write_permission_on(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    let made = bob.new_issue(&repo, "By a reader", json!({"due_date": FIRST})).await;
    assert_eq!(made["due_date"], Value::Null);
    ada.edit_issue(&repo, 1, json!({"due_date": FIRST})).await;
    for body in [json!({"due_date": SECOND, "title": "New"}), json!({"unset_due_date": true, "title": "New"})] {
        let edited = bob.edit_issue(&repo, 1, body).await;
        assert_eq!((&edited["title"], &edited["due_date"]), (&json!("New"), &json!(FIRST)));
    }
    ada.share(&repo, &bob, "write").await;
    assert_eq!(bob.new_issue(&repo, "By a writer", json!({"due_date": SECOND})).await["due_date"], SECOND);
}

async fn a_deadline_is_for_writers_alone(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    bob.new_issue(&repo, "By a reader", json!({})).await;
    let path = format!("{repo}/issues/1/deadline");
    bob.post(&path, &json!({"due_date": FIRST})).await.refused(403);
    bob.post(&path, &json!({"due_date": 7})).await.refused(403);
    let set = ada.post(&path, &json!({"due_date": FIRST})).await.expect(201).json();
    assert_eq!(set, json!({"due_date": FIRST}));
    assert_eq!(ada.issue(&repo, 1).await["due_date"], FIRST);
    let removed = ada.post(&path, &json!({"due_date": null})).await.expect(201).json();
    assert_eq!(removed, json!({"due_date": null}));
    assert_eq!(ada.issue(&repo, 1).await["due_date"], Value::Null);
    ada.post(&format!("{repo}/issues/9/deadline"), &json!({"due_date": FIRST})).await.refused(404);
}

async fn a_pull_request_has_a_due_date(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("pulled", json!({"auto_init": true})).await;
    let new = json!({"branch": "main", "new_branch": "work", "message": "m", "content": "eA=="});
    ada.put(&format!("{repo}/contents/work"), &new).await.expect(201);
    let pull = json!({"title": "Work", "head": "work", "base": "main", "due_date": FIRST});
    let made = ada.post(&format!("{repo}/pulls"), &pull).await.expect(201).json();
    assert_eq!(made["due_date"], FIRST);
    let path = format!("{repo}/pulls/1");
    assert_eq!(ada.get(&path).await.expect(200).json()["due_date"], FIRST);
    assert_eq!(ada.issue(&repo, 1).await["due_date"], FIRST);
    let edit = async |body: Value| ada.patch(&path, &body).await.expect(201).json()["due_date"].clone();
    assert_eq!(edit(json!({"title": "Other", "due_date": null, "unset_due_date": null})).await, FIRST);
    assert_eq!(edit(json!({"due_date": SECOND})).await, SECOND);
    assert_eq!(edit(json!({"unset_due_date": true})).await, Value::Null);
    ada.post(&format!("{repo}/issues/1/deadline"), &json!({"due_date": SECOND})).await.expect(201);
    assert_eq!(edit(json!({})).await, SECOND);
    ada.patch(&path, &json!({"due_date": FIRST, "unset_due_date": true})).await.refused_field("due_date");
}
