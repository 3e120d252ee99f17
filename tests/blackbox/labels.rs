use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response};

on_profiles! {
    both {
        post_labels_responds_with_the_label_as_it_is_read
        get_labels_lists_by_name
        patch_labels_changes_what_is_named_wherever_it_shows
        delete_labels_removes_from_all_issues
    }
    embedded {
        get_labels_id_takes_an_id_or_a_name
        post_labels_names_the_field_that_is_wrong
        label_names_are_unique_in_a_repository_without_regard_to_case
        patch_labels_names_what_is_wrong_and_changes_nothing
        labels_of_another_repository_are_not_found_and_not_changed
        labels_are_changed_by_writers_and_seen_by_readers
    }
}

async fn post_labels_responds_with_the_label_as_it_is_read(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/labels");
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    let made = ada.post(&path, &json!({"name": "help wanted", "color": "#e11d21", "id": 7})).await.expect(201).json();
    let id = made["id"].as_i64().unwrap();
    assert!(id > 0, "{made}");
    let url = format!("{}/api/v1/repos/{}/tracker/labels/{id}", cluster.url, ada.name);
    assert_eq!(made, json!({"id": id, "name": "help wanted", "color": "e11d21", "description": "", "url": url}));
    assert_eq!(ada.get(&format!("{path}/{id}")).await.expect(200).json(), made);
    assert_eq!(ada.get(&path).await.expect(200).json(), json!([made]));
    let upper = ada.post(&path, &json!({"name": " \u{e4}\u{1f600}/x ", "color": "#ABCDEF"})).await.expect(201).json();
    assert_eq!(upper["name"].as_str().map(str::trim), Some("\u{e4}\u{1f600}/x"));
    assert_eq!(upper["color"].as_str().map(str::to_lowercase).as_deref(), Some("abcdef"));
    assert!(upper["id"].as_i64() > Some(id));
}

async fn get_labels_lists_by_name(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    for name in ["slow", "bug", "question", "docs", "2nd"] {
        ada.new_label(&repo, name).await;
    }
    let sorted = ["2nd", "bug", "docs", "question", "slow"];
    let listed = ada.get(&format!("{repo}/labels")).await.expect(200);
    assert_eq!(
        (listed.each("name"), listed.header("x-total-count")),
        (sorted.map(str::to_owned).into(), "5".to_owned())
    );
    for (page, names) in sorted.chunks(2).enumerate() {
        let listed = ada.get(&format!("{repo}/labels?limit=2&page={}", page + 1)).await.expect(200);
        assert_eq!(
            (listed.each("name"), listed.header("x-total-count")),
            (names.iter().map(|name| (*name).to_owned()).collect(), "5".to_owned())
        );
    }
    assert_eq!(ada.get(&format!("{repo}/labels?limit=2&page=4")).await.expect(200).text(), "[]");
}

async fn get_labels_id_takes_an_id_or_a_name(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let id = ada.new_label(&repo, "Help wanted").await;
    let odd = ada.new_label(&repo, "\u{e4}-1.x").await;
    let found = async |label: &str| ada.get(&format!("{repo}/labels/{label}")).await;
    for label in [id.to_string().as_str(), "Help%20wanted", "help%20WANTED"] {
        assert_eq!(found(label).await.expect(200).json()["id"], id, "{label}");
    }
    for label in ["%C3%A4-1.x", "%C3%84-1.X"] {
        assert_eq!(found(label).await.expect(200).json()["id"], odd, "{label}");
    }
    // A name of digits works unless a label of the repository has that id.
    let date = ada.new_label(&repo, "20260101").await;
    let like_id = ada.new_label(&repo, &id.to_string()).await;
    assert_eq!(found("20260101").await.expect(200).json()["id"], date);
    assert_eq!(found(&id.to_string()).await.expect(200).json()["id"], id);
    assert_eq!(found(&like_id.to_string()).await.expect(200).json()["id"], like_id);
    let listed = ada.new_issue(&repo, "Labelled", json!({"labels": [date, id]})).await["number"].clone();
    for filter in ["20260101".to_owned(), id.to_string(), format!("{id},20260101")] {
        let numbers = ada.get(&format!("{repo}/issues?labels={filter}")).await.expect(200).json();
        assert_eq!(numbers[0]["number"], listed, "{filter}");
    }
    assert_eq!(ada.get(&format!("{repo}/issues?labels={like_id}")).await.expect(200).json(), json!([]));
    for label in ["nope", "999999999", "0", "-1", "99999999999999999999", "%00", "%FF", "help"] {
        found(label).await.refused(404);
    }
}

async fn post_labels_names_the_field_that_is_wrong(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/labels");
    let both = [("name", "required"), ("color", "required")];
    for body in [json!({}), json!({"name": null, "color": null}), json!({"name": "", "color": ""})] {
        ada.post(&path, &body).await.refused_fields(&both);
    }
    ada.post(&path, &json!({"color": "red"})).await.refused_fields(&[("name", "required"), ("color", "invalid")]);
    ada.post(&path, &json!({"name": 1, "color": []})).await.refused_fields(&[("name", "type"), ("color", "type")]);
    for wrong in ["   ", "a\u{0}b", &"\u{e4}".repeat(51)] {
        ada.post(&path, &json!({"name": wrong, "color": "#000000"})).await.refused_field("name");
    }
    for wrong in [
        "e11d21",
        "#e11d2",
        "#e11d2g",
        "#e11d211",
        "red",
        "#",
        " #e11d2",
        "#e11d21 ",
        "\u{ff03}e11d21",
        "#\u{e4}\u{e4}\u{e4}",
    ] {
        ada.post(&path, &json!({"name": "x", "color": wrong})).await.refused_field("color");
    }
    for wrong in ["a\u{0}b", &"\u{e4}".repeat(256)] {
        let body = json!({"name": "x", "color": "#000000", "description": wrong});
        ada.post(&path, &body).await.refused_field("description");
    }
    let broken = ada.request(Method::POST, &path).header("content-type", "application/json").body("{\"name\":");
    Response::of(broken).await.refused(400);
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    ada.post(&path, &json!({"name": "\u{e4}".repeat(50), "color": "#000000"})).await.expect(201);
}

async fn label_names_are_unique_in_a_repository_without_regard_to_case(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (repo, other) = (ada.new_tracker("tracker", json!({})).await, ada.new_tracker("other", json!({})).await);
    let first = ada.new_label(&repo, "Bug").await;
    let path = format!("{repo}/labels");
    for name in ["Bug", "bug", "BUG"] {
        ada.post(&path, &json!({"name": name, "color": "#000000"})).await.refused(422);
    }
    ada.new_label(&repo, "\u{c4}rger").await;
    ada.post(&path, &json!({"name": "\u{e4}RGER", "color": "#000000"})).await.refused(422);
    ada.new_label(&other, "bug").await;
    let second = ada.new_label(&repo, "fault").await;
    ada.patch(&format!("{path}/{second}"), &json!({"name": "BUG"})).await.refused(422);
    assert_eq!(ada.get(&format!("{path}/{second}")).await.expect(200).json()["name"], "fault");
    // A label can take its own name in another case, or a freed name.
    let renamed = ada.patch(&format!("{path}/{first}"), &json!({"name": "bUG"})).await.expect(200).json();
    assert_eq!(renamed["name"], "bUG");
    ada.patch(&format!("{path}/{first}"), &json!({"name": "old bug"})).await.expect(200);
    ada.patch(&format!("{path}/{second}"), &json!({"name": "BUG"})).await.expect(200);
    ada.delete(&format!("{path}/{second}")).await.empty(204);
    let third = ada.new_label(&repo, "bug").await;
    assert!(third > second, "ids are not reused");
}

async fn patch_labels_changes_what_is_named_wherever_it_shows(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let label = ada.new_label(&repo, "bug").await;
    ada.new_issue(&repo, "One", json!({"labels": [label]})).await;
    let path = format!("{repo}/labels/{label}");
    let mut expected = ada.get(&path).await.expect(200).json();
    for (body, field, value) in [
        (json!({"name": "fault"}), "name", "fault"),
        (json!({"color": "#123456"}), "color", "123456"),
        (json!({"name": "defect", "color": null}), "name", "defect"),
        (json!({"name": null, "color": "#654321"}), "color", "654321"),
        (json!({"description": " It is\tbroken\n"}), "description", "It is broken"),
        (json!({"description": null}), "description", "It is broken"),
        (json!({}), "color", "654321"),
    ] {
        let after = ada.patch(&path, &body).await.expect(200).json();
        expected[field] = json!(value);
        assert_eq!(after, expected, "{body}");
        assert_eq!(ada.get(&path).await.expect(200).json(), expected);
        assert_eq!(ada.issue(&repo, 1).await["labels"], json!([expected]));
        assert_eq!(ada.get(&format!("{repo}/issues/1/labels")).await.expect(200).json(), json!([expected]));
    }
    ada.delete(&format!("{repo}/issues/1/labels/{label}")).await.empty(204);
    ada.post(&format!("{repo}/issues/1/labels"), &json!({"labels": [label]})).await.expect(200);
    let timeline = ada.get(&format!("{repo}/issues/1/timeline")).await.expect(200).json();
    assert_eq!(timeline[0]["label"]["description"], "It is broken", "{timeline}");
    assert_eq!(ada.issue_numbers(&repo, "labels=defect").await, [1]);
    assert_eq!(ada.issue_numbers(&repo, "labels=bug").await, [0; 0]);
}

async fn patch_labels_names_what_is_wrong_and_changes_nothing(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/labels/{}", ada.new_label(&repo, "bug").await);
    let before = ada.get(&path).await.expect(200).json();
    for (body, field) in [
        (json!({"name": "x", "color": "123456"}), "color"),
        (json!({"name": "x", "color": "#12345"}), "color"),
        (json!({"name": "x", "color": "#12345g"}), "color"),
        (json!({"name": "x".repeat(51), "color": "#123456"}), "name"),
        (json!({"name": "a\u{0}", "color": "#123456"}), "name"),
        (json!({"name": "   ", "color": "#123456"}), "name"),
    ] {
        ada.patch(&path, &body).await.refused_field(field);
    }
    ada.patch(&path, &json!({"name": 1})).await.refused_fields(&[("name", "type")]);
    ada.patch(&path, &json!({"color": 1})).await.refused_fields(&[("color", "type")]);
    assert_eq!(ada.get(&path).await.expect(200).json(), before);
    for absent in ["999999999", "0", "abc"] {
        let path = format!("{repo}/labels/{absent}");
        ada.patch(&path, &json!({"name": "x"})).await.refused(404);
        ada.delete(&path).await.refused(404);
    }
}

async fn delete_labels_removes_from_all_issues(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let (bug, slow) = (ada.new_label(&repo, "bug").await, ada.new_label(&repo, "slow").await);
    for (number, is_closed) in [(1, false), (2, true), (3, false)] {
        let labels = if number == 3 { vec![slow] } else { vec![bug, slow] };
        ada.new_issue(&repo, "Labeled", json!({"labels": labels, "closed": is_closed})).await;
    }
    ada.delete(&format!("{repo}/labels/{bug}")).await.empty(204);
    ada.delete(&format!("{repo}/labels/{bug}")).await.refused(404);
    ada.get(&format!("{repo}/labels/{bug}")).await.refused(404);
    ada.get(&format!("{repo}/labels/bug")).await.refused(404);
    for number in 1..=3 {
        assert_eq!(ada.labels_of(&repo, number).await, ["slow"], "{number}");
        let shown = ada.issue(&repo, number).await["labels"].clone();
        assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    }
    for label in ["bug".to_owned(), bug.to_string()] {
        let found = ada.get(&format!("{repo}/issues?state=all&labels={label}")).await.expect(200);
        assert_eq!((found.text().as_str(), found.header("x-total-count").as_str()), ("[]", "0"), "{label}");
    }
    assert_eq!(ada.issue_numbers(&repo, "state=all&labels=slow").await, [3, 2, 1]);
    // A new label with the same name has no issues.
    ada.new_label(&repo, "bug").await;
    assert_eq!(ada.issue_numbers(&repo, "state=all&labels=bug").await, [0; 0]);
}

async fn labels_of_another_repository_are_not_found_and_not_changed(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (repo, own) = (ada.new_tracker("tracker", json!({})).await, bob.new_tracker("own", json!({})).await);
    let label = ada.new_label(&repo, "bug").await;
    ada.new_issue(&repo, "One", json!({"labels": [label]})).await;
    bob.new_issue(&own, "One", json!({})).await;
    let foreign = format!("{own}/labels/{label}");
    bob.get(&foreign).await.refused(404);
    bob.patch(&foreign, &json!({"name": "stolen", "color": "#000000"})).await.refused(404);
    bob.delete(&foreign).await.refused(404);
    bob.post(&format!("{own}/issues/1/labels"), &json!({"labels": [label]})).await.refused_field("labels");
    bob.put(&format!("{own}/issues/1/labels"), &json!({"labels": [label]})).await.refused_field("labels");
    bob.delete(&format!("{own}/issues/1/labels/{label}")).await.refused(404);
    assert_eq!(ada.get(&format!("{repo}/labels/{label}")).await.expect(200).json()["name"], "bug");
    assert_eq!(ada.labels_of(&repo, 1).await, ["bug"]);
    assert_eq!(bob.labels_of(&own, 1).await, [""; 0]);
}

async fn labels_are_changed_by_writers_and_seen_by_readers(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let open = ada.new_tracker("open", json!({})).await;
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    let body = json!({"name": "new", "color": "#000000"});
    for (repo, write, read) in [(&open, 403, 200), (&hidden, 404, 404)] {
        let label = ada.new_label(repo, "bug").await;
        let (list, one) = (format!("{repo}/labels"), format!("{repo}/labels/{label}"));
        for (method, path, body) in [
            (Method::POST, &list, &body),
            (Method::POST, &list, &json!({"color": "nonsense"})),
            (Method::PATCH, &one, &body),
            (Method::PATCH, &one, &json!({"color": "nonsense"})),
            (Method::DELETE, &one, &Value::Null),
        ] {
            Response::of(bob.request(method.clone(), path).json(body)).await.refused(write);
            Response::of(cluster.anonymous().request(method, path).json(body)).await.refused(401);
        }
        for path in [&list, &one] {
            for reader in [&bob, &cluster.anonymous()] {
                assert_eq!(reader.get(path).await.status, read, "{path}");
            }
        }
        assert_eq!(ada.get(&one).await.expect(200).json()["name"], "bug");
    }
    ada.share(&hidden, &bob, "write").await;
    let made = bob.post(&format!("{hidden}/labels"), &body).await.expect(201).json();
    bob.delete(&format!("{hidden}/labels/{}", made["id"])).await.empty(204);
}
