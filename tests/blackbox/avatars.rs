//! Avatars, through every process between client and database.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;

use crate::harness::{Cluster, Response, User};

on_profiles! {
    production {
        a_picture_is_drawn_until_one_is_uploaded
        a_picture_of_an_organization_is_for_its_owners
    }
}

pub(crate) const RED: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

async fn picture(user: &User, id: i64, rest: &str) -> Response {
    Response::of(user.raw(Method::GET, &format!("/avatars/{id}{rest}"))).await
}

async fn a_picture_is_drawn_until_one_is_uploaded(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let shown = ada.get("/user").await.expect(200).json();
    assert_eq!(shown["avatar_url"], format!("{}/avatars/{}", cluster.url, ada.id));
    let drawn = picture(&ada, ada.id, "").await.expect(200);
    assert_eq!((drawn.header("content-type"), &drawn.body[1..4]), ("image/png".to_owned(), &b"PNG"[..]));
    assert_eq!(picture(&ada, ada.id, "").await.body, drawn.body);
    assert_ne!(picture(&ada, bob.id, "").await.body, drawn.body);
    assert!(picture(&ada, ada.id, ".svg").await.expect(200).text().starts_with("<svg"));
    picture(&ada, 999_999_999, "").await.refused(404);

    ada.post("/user/avatar", &json!({"image": RED})).await.empty(204);
    let uploaded = picture(&ada, ada.id, "").await.expect(200);
    assert_ne!(uploaded.body, drawn.body);
    assert_eq!(uploaded.header("cache-control"), "public, max-age=300");
    let request =
        ada.raw(Method::GET, &format!("/avatars/{}", ada.id)).header("if-none-match", uploaded.header("etag"));
    Response::of(request).await.empty(304);
    let raw = ada.request(Method::POST, "/user/avatar").header("content-type", "image/png");
    Response::of(raw.body(uploaded.body.clone())).await.empty(204);
    assert_eq!(picture(&ada, ada.id, "").await.header("etag"), uploaded.header("etag"), "the picture is unchanged");
    for wrong in [json!({"image": "AAAA"}), json!({"image": STANDARD.encode("<svg/>")}), json!({})] {
        ada.post("/user/avatar", &wrong).await.refused_field("image");
    }
    ada.with_scopes(&["repo:admin"]).await.post("/user/avatar", &json!({"image": RED})).await.refused(403);
    cluster.anonymous().delete("/user/avatar").await.refused(401);
    ada.delete("/user/avatar").await.empty(204);
    ada.delete("/user/avatar").await.empty(204);
    assert_eq!(picture(&ada, ada.id, "").await.body, drawn.body);
}

async fn a_picture_of_an_organization_is_for_its_owners(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("acme").await;
    let path = format!("/orgs/{name}/avatar");
    let id = ada.get(&format!("/orgs/{name}")).await.expect(200).json()["id"].as_i64().unwrap();
    let drawn = picture(&ada, id, "").await.expect(200);
    let outsider = cluster.outsider().await;
    outsider.post(&path, &json!({"image": RED})).await.refused(403);
    outsider.delete(&path).await.refused(403);
    ada.post("/orgs/never-was/avatar", &json!({"image": RED})).await.refused(404);
    ada.post(&path, &json!({"image": RED})).await.empty(204);
    assert_ne!(picture(&ada, id, "").await.body, drawn.body);
    let logged =
        cluster.admin().await.get(&format!("/admin/audit?target={name}&action=organization.update")).await.expect(200);
    assert_eq!(logged.json()[0]["details"], json!({"fields": "avatar"}));
    ada.delete(&path).await.empty(204);
    assert_eq!(picture(&ada, id, "").await.body, drawn.body);
}
