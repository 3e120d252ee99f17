//! Tags read, created and deleted through the API.

use serde_json::{Value, json};

use crate::harness::{Cluster, Git};

on_profiles! {
    both {
        a_tag_is_created_read_and_deleted
    }
    embedded {
        a_tag_of_a_release_stays
        tags_that_cannot_be_made_are_refused
    }
}

async fn a_tag_is_created_read_and_deleted(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("tagged", json!({"auto_init": true})).await;
    let tags = ada.repo("tagged", "/tags");
    let tip = ada.get(&ada.repo("tagged", "/branches/main")).await.expect(200).json()["commit"]["id"].clone();
    let light = ada.post(&tags, &json!({"tag_name": "rc/1", "target": tip})).await.expect(201).json();
    assert_eq!((&light["id"], &light["commit"]["sha"]), (&tip, &tip));
    let new = json!({"tag_name": "v1", "message": "One", "target": "rc/1"});
    let annotated = ada.post(&tags, &new).await.expect(201).json();
    assert_eq!((&annotated["commit"]["sha"], &annotated["message"]), (&tip, &json!("One\n")));
    assert_eq!(ada.get(&tags).await.expect(200).json(), json!([light, annotated]));
    for (path, shown) in [("rc/1", &light), ("rc%2F1", &light), ("v1", &annotated)] {
        assert_eq!(ada.get(&format!("{tags}/{path}")).await.expect(200).json(), *shown, "{path}");
    }
    let object = ada.repo("tagged", &format!("/git/tags/{}", annotated["id"].as_str().unwrap()));
    let object = ada.get(&object).await.expect(200).json();
    assert_eq!((&object["tagger"]["email"], &object["object"]["sha"]), (&json!(ada.email), &tip));
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "tagged"), "work"]).await;
    assert_eq!(git.run("work", &["cat-file", "-t", "v1"]).await, "tag");
    git.run("work", &["fsck", "--strict"]).await;
    for name in ["rc%2F1", "v1"] {
        ada.delete(&format!("{tags}/{name}")).await.empty(204);
        ada.delete(&format!("{tags}/{name}")).await.refused(404);
        ada.get(&format!("{tags}/{name}")).await.refused(404);
    }
    assert_eq!(ada.get(&tags).await.expect(200).json(), json!([]));
}

async fn a_tag_of_a_release_stays(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("released", json!({"auto_init": true})).await;
    let release = ada.post(&ada.repo("released", "/releases"), &json!({"tag_name": "v1"})).await.expect(201).json();
    let tag = ada.repo("released", "/tags/v1");
    ada.delete(&tag).await.refused(409);
    ada.get(&tag).await.expect(200);
    ada.delete(&ada.repo("released", &format!("/releases/{}", release["id"]))).await.empty(204);
    ada.delete(&tag).await.empty(204);
}

async fn tags_that_cannot_be_made_are_refused(cluster: &Cluster) {
    let (ada, eve) = (cluster.user("ada").await, cluster.user("eve").await);
    ada.new_repository("strict", json!({"auto_init": true})).await;
    let tags = ada.repo("strict", "/tags");
    ada.share(&ada.repo("strict", ""), &eve, "read").await;
    ada.post(&tags, &json!({"tag_name": "v1"})).await.expect(201);
    ada.post(&tags, &json!({"tag_name": "v1", "message": "m"})).await.refused(409);
    ada.post(&tags, &json!({"tag_name": "v2", "target": "none"})).await.refused(404);
    for (body, field) in [
        (json!({}), "tag_name"),
        (json!({"tag_name": "a..b"}), "tag_name"),
        (json!({"tag_name": "v1/below"}), "tag_name"),
        (json!({"tag_name": "v2", "message": 7}), "message"),
        (json!({"tag_name": "v2", "message": "a\u{0}b"}), "message"),
    ] {
        ada.post(&tags, &body).await.refused_field(field);
    }
    eve.post(&tags, &json!({"tag_name": "v2"})).await.refused(403);
    eve.delete(&format!("{tags}/v1")).await.refused(403);
    let names = ada.get(&tags).await.expect(200).json();
    assert_eq!(names.as_array().unwrap().iter().map(|tag| &tag["name"]).collect::<Vec<_>>(), [&Value::from("v1")]);
}
