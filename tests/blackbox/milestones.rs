use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response};

on_profiles! {
    both {
        post_milestones_responds_with_the_milestone_as_it_is_read
        get_milestones_lists_by_id_and_state
        patch_milestones_changes_what_is_named_and_keeps_the_date
        patch_milestones_opens_and_closes_with_a_real_time
        a_milestone_can_be_named_by_its_title
        delete_milestones_takes_them_from_their_issues
        milestone_counts_are_true_after_every_change
    }
    embedded {
        post_milestones_names_the_field_that_is_wrong
        patch_milestones_names_what_is_wrong_and_changes_nothing
        dates_have_any_offset_and_are_shown_in_utc
        milestones_of_another_repository_are_not_found_and_not_changed
        milestones_are_changed_by_writers_and_seen_by_readers
    }
}

async fn post_milestones_responds_with_the_milestone_as_it_is_read(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/milestones");
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    let body =
        json!({"title": "v1", "description": "The <first>", "due_on": "2030-12-31T23:59:59Z", "state": "closed"});
    let full = ada.post(&path, &body).await.expect(201).json();
    let id = full["id"].as_i64().unwrap();
    assert!(id > 0, "{full}");
    let expected = json!({
        "id": id, "title": "v1", "description": "The <first>", "state": "open", "open_issues": 0, "closed_issues": 0,
        "closed_at": null, "due_on": "2030-12-31T23:59:59Z",
    });
    assert_eq!(full, expected);
    // Titles are not unique. A missing, null or empty field is unset.
    for more in [json!({}), json!({"description": null, "due_on": null}), json!({"description": "", "due_on": ""})] {
        let mut body = json!({"title": "v1"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = ada.post(&path, &body).await.expect(201).json();
        assert_eq!((&made["description"], &made["due_on"]), (&json!(""), &Value::Null), "{more}");
        assert_eq!(ada.get(&format!("{path}/{}", made["id"])).await.expect(200).json(), made);
    }
    assert_eq!(ada.get(&format!("{path}/{id}")).await.expect(200).json(), full);
}

async fn get_milestones_lists_by_id_and_state(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/milestones");
    let mut ids = Vec::new();
    for title in ["c", "a", "d", "b"] {
        ids.push(ada.new_milestone(&repo, title).await);
    }
    for id in [ids[1], ids[2]] {
        ada.patch(&format!("{path}/{id}"), &json!({"state": "closed"})).await.expect(200);
    }
    for (query, expected) in [
        ("", ids.clone()),
        ("?state=all", ids.clone()),
        ("?state=", ids.clone()),
        ("?state=open", vec![ids[0], ids[3]]),
        ("?state=closed", vec![ids[1], ids[2]]),
    ] {
        let listed = ada.get(&format!("{path}{query}")).await.expect(200);
        assert_eq!(listed.ids("id"), expected, "{query}");
        assert_eq!(listed.header("x-total-count"), expected.len().to_string(), "{query}");
    }
    let page = ada.get(&format!("{path}?limit=3&page=2")).await.expect(200);
    assert_eq!((page.ids("id"), page.header("x-total-count")), (vec![ids[3]], "4".to_owned()));
    let page = ada.get(&format!("{path}?state=closed&limit=1&page=2")).await.expect(200);
    assert_eq!(page.ids("id"), [ids[2]]);
    assert_eq!(ada.get(&format!("{path}?page=2")).await.expect(200).text(), "[]");
    for absent in ["999999999", "0", "-1", "x", "99999999999999999999"] {
        ada.get(&format!("{path}/{absent}")).await.refused(404);
    }
}

async fn a_milestone_can_be_named_by_its_title(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/milestones");
    let first = ada.new_milestone(&repo, "v1.0 / final").await;
    let number = ada.new_milestone(&repo, &first.to_string()).await;
    let by_title = format!("{path}/v1.0%20%2F%20final");
    let shown = ada.get(&by_title).await.expect(200).json();
    assert_eq!(shown["id"], first);
    assert_eq!(ada.get(&format!("{path}/{first}")).await.expect(200).json(), shown, "an id counts before a title");
    let closed = ada.patch(&by_title, &json!({"title": "v1.0 / final", "state": "closed"})).await.expect(200).json();
    assert_eq!((&closed["id"], &closed["state"]), (&json!(first), &json!("closed")));
    ada.delete(&by_title).await.empty(204);
    assert_eq!(ada.get(&path).await.expect(200).ids("id"), [number]);
    for absent in [by_title.as_str(), &format!("{path}/V1"), &format!("{path}/%00"), &format!("{path}/%ff")] {
        ada.get(absent).await.refused_with_message(404, "milestone does not exist");
    }
}

async fn post_milestones_names_the_field_that_is_wrong(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/milestones");
    for body in [json!({}), json!({"title": null}), json!({"title": ""}), json!({"description": "x"})] {
        ada.post(&path, &body).await.refused_fields(&[("title", "required")]);
    }
    for wrong in ["   ", "a\u{0}b", &"\u{e4}".repeat(51)] {
        ada.post(&path, &json!({ "title": wrong })).await.refused_field("title");
    }
    for (field, wrong) in [("title", json!(1)), ("description", json!([])), ("due_on", json!(7))] {
        let mut body = json!({"title": "x"});
        body[field] = wrong;
        ada.post(&path, &body).await.refused_fields(&[(field, "type")]);
    }
    for wrong in [
        "2030-12-31",
        "tomorrow",
        "2030-12-31T23:59:59",
        "2030-13-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "0",
        // Of other years in UTC.
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-00:01",
    ] {
        ada.post(&path, &json!({"title": "x", "due_on": wrong})).await.refused_field("due_on");
    }
    ada.post(&path, &json!({"title": "x", "description": "\u{0}"})).await.refused_field("description");
    let long = json!({"title": "x", "description": "d".repeat((64 << 10) + 1)});
    ada.post(&path, &long).await.refused_fields(&[("description", "too_long")]);
    let broken = ada.request(Method::POST, &path).header("content-type", "application/json").body("{\"title\":");
    Response::of(broken).await.refused(400);
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    ada.post(&path, &json!({"title": "\u{e4}".repeat(50)})).await.expect(201);
}

async fn dates_have_any_offset_and_are_shown_in_utc(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/milestones");
    for (given, shown) in [
        ("2030-01-01T01:00:00+02:00", "2029-12-31T23:00:00Z"),
        ("2030-01-01T01:00:00-05:30", "2030-01-01T06:30:00Z"),
        ("2030-01-01T01:00:00.999Z", "2030-01-01T01:00:00Z"),
        ("1999-12-31T23:59:59Z", "1999-12-31T23:59:59Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ] {
        let made = ada.post(&path, &json!({"title": "x", "due_on": given})).await.expect(201).json();
        assert_eq!(made["due_on"], shown, "{given}");
        let one = format!("{path}/{}", made["id"]);
        assert_eq!(ada.get(&one).await.expect(200).json(), made);
        ada.patch(&one, &json!({"due_on": ""})).await.expect(200);
        assert_eq!(ada.patch(&one, &json!({"due_on": given})).await.expect(200).json(), made);
    }
}

async fn patch_milestones_changes_what_is_named_and_keeps_the_date(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let body = json!({"title": "v1", "description": "First", "due_on": "2030-12-31T23:59:59Z"});
    let mut expected = ada.post(&format!("{repo}/milestones"), &body).await.expect(201).json();
    let path = format!("{repo}/milestones/{}", expected["id"]);
    for (body, field, value) in [
        (json!({}), "title", json!("v1")),
        (json!({"title": "", "state": "", "description": null, "due_on": null}), "title", json!("v1")),
        (json!({"title": "v2"}), "title", json!("v2")),
        (json!({"description": "Second", "due_on": null}), "description", json!("Second")),
        (json!({"title": null, "due_on": "2031-01-02T03:04:05Z"}), "due_on", json!("2031-01-02T03:04:05Z")),
        (json!({"description": ""}), "description", json!("")),
        (json!({"due_on": ""}), "due_on", Value::Null),
        (json!({"due_on": ""}), "due_on", Value::Null),
    ] {
        expected[field] = value;
        assert_eq!(ada.patch(&path, &body).await.expect(200).json(), expected, "{body}");
        assert_eq!(ada.get(&path).await.expect(200).json(), expected, "{body}");
    }
    ada.new_issue(&repo, "One", json!({"milestone": expected["id"]})).await;
    ada.patch(&path, &json!({"title": "v3"})).await.expect(200);
    assert_eq!(ada.issue(&repo, 1).await["milestone"]["title"], "v3");
    assert_eq!(ada.issue_numbers(&repo, "milestone=v3").await, [1]);
    assert_eq!(ada.issue_numbers(&repo, "milestone=v2").await, [0; 0]);
}

async fn patch_milestones_opens_and_closes_with_a_real_time(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/milestones/{}", ada.new_milestone(&repo, "v1").await);
    let state = async |word: &str| ada.patch(&path, &json!({ "state": word })).await.expect(200).json();
    let start = chrono::Utc::now().timestamp();
    let closed = state("closed").await;
    let time = chrono::DateTime::parse_from_rfc3339(closed["closed_at"].as_str().unwrap()).unwrap().timestamp();
    assert!((start - 1..=chrono::Utc::now().timestamp()).contains(&time), "{closed}");
    assert_eq!(closed["state"], "closed");
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    assert_eq!(state("closed").await, closed, "the closing time is kept");
    assert_eq!(
        ada.patch(&path, &json!({"description": "x"})).await.expect(200).json()["closed_at"],
        closed["closed_at"]
    );
    let open = state("open").await;
    assert_eq!((&open["state"], &open["closed_at"]), (&json!("open"), &Value::Null));
    assert_eq!(state("open").await, open);
    let again = state("closed").await;
    assert!(again["closed_at"].as_str() > closed["closed_at"].as_str(), "{again}");
}

async fn patch_milestones_names_what_is_wrong_and_changes_nothing(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/milestones/{}", ada.new_milestone(&repo, "v1").await);
    let before = ada.get(&path).await.expect(200).json();
    for (body, field) in [
        (json!({"state": "done", "title": "x"}), "state"),
        (json!({"state": "all"}), "state"),
        (json!({"due_on": "2030-12-31", "title": "x"}), "due_on"),
        (json!({"due_on": "never"}), "due_on"),
        (json!({"title": "x".repeat(51), "state": "closed"}), "title"),
        (json!({"title": "a\u{0}", "state": "closed"}), "title"),
    ] {
        ada.patch(&path, &body).await.refused_field(field);
    }
    for (field, wrong) in
        [("title", json!(1)), ("state", json!(true)), ("due_on", json!(0)), ("description", json!({}))]
    {
        let mut body = json!({});
        body[field] = wrong;
        ada.patch(&path, &body).await.refused_fields(&[(field, "type")]);
    }
    assert_eq!(ada.get(&path).await.expect(200).json(), before);
    for absent in ["999999999", "0", "abc"] {
        let path = format!("{repo}/milestones/{absent}");
        ada.patch(&path, &json!({"title": "x"})).await.refused(404);
        ada.delete(&path).await.refused(404);
    }
}

async fn delete_milestones_takes_them_from_their_issues(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let (gone, kept) = (ada.new_milestone(&repo, "Gone").await, ada.new_milestone(&repo, "Kept").await);
    for (milestone, closed) in [(gone, false), (gone, true), (kept, false)] {
        ada.new_issue(&repo, "x", json!({"milestone": milestone, "closed": closed})).await;
    }
    let path = format!("{repo}/milestones/{gone}");
    ada.delete(&path).await.empty(204);
    ada.delete(&path).await.refused(404);
    ada.get(&path).await.refused(404);
    assert_eq!(ada.get(&format!("{repo}/milestones")).await.expect(200).ids("id"), [kept]);
    assert_eq!(
        (&ada.issue(&repo, 1).await["milestone"], &ada.issue(&repo, 2).await["milestone"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(ada.issue(&repo, 3).await["milestone"]["id"], kept);
    for (query, numbers) in [
        ("milestone=none&state=all", &[2, 1][..]),
        ("milestone=none", &[1]),
        ("milestone=*&state=all", &[3]),
        ("milestone=Gone&state=all", &[]),
        (&format!("milestone={gone}&state=all"), &[]),
    ] {
        let listed = ada.get(&format!("{repo}/issues?{query}")).await.expect(200);
        assert_eq!(listed.ids("number"), numbers, "{query}");
        assert_eq!(listed.header("x-total-count"), numbers.len().to_string(), "{query}");
    }
    ada.patch(&format!("{repo}/issues/1"), &json!({"milestone": gone})).await.refused_field("milestone");
    assert!(ada.new_milestone(&repo, "Gone").await > kept, "ids are not reused");
}

async fn milestone_counts_are_true_after_every_change(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let (one, two) = (ada.new_milestone(&repo, "One").await, ada.new_milestone(&repo, "Two").await);
    let counts = async || (ada.milestone_counts(&repo, one).await, ada.milestone_counts(&repo, two).await);
    ada.new_issue(&repo, "1", json!({"milestone": one})).await;
    ada.new_issue(&repo, "2", json!({"milestone": one, "closed": true})).await;
    ada.new_issue(&repo, "3", json!({})).await;
    assert_eq!(counts().await, ((1, 1), (0, 0)));
    for (number, body, expected) in [
        (3, json!({"milestone": one}), ((2, 1), (0, 0))),
        (3, json!({"milestone": one}), ((2, 1), (0, 0))),
        (1, json!({"milestone": two}), ((1, 1), (1, 0))),
        (1, json!({"state": "closed"}), ((1, 1), (0, 1))),
        (1, json!({"state": "closed"}), ((1, 1), (0, 1))),
        (2, json!({"state": "open", "milestone": two}), ((1, 0), (1, 1))),
        (1, json!({"state": "open", "milestone": 0}), ((1, 0), (1, 0))),
        (3, json!({"milestone": two, "state": "closed"}), ((0, 0), (1, 1))),
        (3, json!({"title": "x", "milestone": null}), ((0, 0), (1, 1))),
        (2, json!({"milestone": 0}), ((0, 0), (0, 1))),
    ] {
        let after = ada.edit_issue(&repo, number, body.clone()).await;
        assert_eq!(counts().await, expected, "{number}: {body}");
        if let Some(id) = after["milestone"]["id"].as_i64() {
            let shown = ada.get(&format!("{repo}/milestones/{id}")).await.expect(200).json();
            assert_eq!(after["milestone"], shown);
            assert_eq!(ada.issue(&repo, number).await["milestone"], shown);
        }
    }
    let listed = ada.get(&format!("{repo}/milestones")).await.expect(200);
    assert_eq!((listed.ids("open_issues"), listed.ids("closed_issues")), (vec![0, 0], vec![0, 1]));
}

async fn milestones_of_another_repository_are_not_found_and_not_changed(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (repo, own) = (ada.new_tracker("tracker", json!({})).await, bob.new_tracker("own", json!({})).await);
    let milestone = ada.new_milestone(&repo, "One").await;
    ada.new_issue(&repo, "One", json!({"milestone": milestone})).await;
    let foreign = format!("{own}/milestones/{milestone}");
    bob.get(&foreign).await.refused(404);
    bob.patch(&foreign, &json!({"title": "Stolen", "state": "closed"})).await.refused(404);
    bob.delete(&foreign).await.refused(404);
    let shown = ada.get(&format!("{repo}/milestones/{milestone}")).await.expect(200).json();
    assert_eq!((&shown["title"], &shown["state"], &shown["open_issues"]), (&json!("One"), &json!("open"), &json!(1)));
}

async fn milestones_are_changed_by_writers_and_seen_by_readers(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let open = ada.new_tracker("open", json!({})).await;
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    for (repo, write, read) in [(&open, 403, 200), (&hidden, 404, 404)] {
        let milestone = ada.new_milestone(repo, "One").await;
        let (list, one) = (format!("{repo}/milestones"), format!("{repo}/milestones/{milestone}"));
        for body in [json!({"title": "new"}), json!({"title": "", "due_on": "nonsense", "state": "nonsense"})] {
            for (method, path) in [(Method::POST, &list), (Method::PATCH, &one), (Method::DELETE, &one)] {
                Response::of(bob.request(method.clone(), path).json(&body)).await.refused(write);
                Response::of(cluster.anonymous().request(method, path).json(&body)).await.refused(401);
            }
        }
        for path in [&list, &one] {
            for reader in [&bob, &cluster.anonymous()] {
                assert_eq!(reader.get(path).await.status, read, "{path}");
            }
        }
        assert_eq!(ada.get(&one).await.expect(200).json()["title"], "One");
    }
    ada.share(&hidden, &bob, "write").await;
    let made = bob.post(&format!("{hidden}/milestones"), &json!({"title": "Two"})).await.expect(201).json();
    bob.patch(&format!("{hidden}/milestones/{}", made["id"]), &json!({"state": "closed"})).await.expect(200);
    bob.delete(&format!("{hidden}/milestones/{}", made["id"])).await.empty(204);
}
