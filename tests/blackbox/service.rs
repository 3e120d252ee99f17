//! What programs for Gitea ask first: the version and the settings of the server, and the key that
//! signs commits, which there is not.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response};

on_profiles! {
    embedded {
        facts_about_the_server_are_the_same_for_every_caller
        nothing_signs_so_there_is_no_key
    }
}

async fn facts_about_the_server_are_the_same_for_every_caller(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let token = format!("token {}", ada.token.as_deref().unwrap());
    let expected: [(&str, Value); 5] = [
        ("/version", json!({"version": format!("1.25.0+ferrite.{}", env!("CARGO_PKG_VERSION"))})),
        (
            "/settings/api",
            json!({
                "max_response_items": 40, "default_paging_num": 10, "default_git_trees_per_page": 100_000,
                "default_max_blob_size": 32 << 20,
            }),
        ),
        (
            "/settings/ui",
            json!({"allowed_reactions": ["+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"]}),
        ),
        (
            "/settings/repository",
            json!({
                "mirrors_disabled": false, "http_git_disabled": false, "migrations_disabled": false,
                "stars_disabled": false, "lfs_disabled": true, "time_tracking_disabled": true,
            }),
        ),
        ("/settings/attachment", json!({"enabled": false, "allowed_types": "", "max_size": 0, "max_files": 0})),
    ];
    for (path, expected) in expected {
        assert_eq!(cluster.anonymous().get(path).await.expect(200).json(), expected, "{path}");
        for credential in [token.as_str(), "token revoked", "Bearer", "Basic YWRhOndyb25n", "nonsense"] {
            let request = ada.raw(Method::GET, &format!("/api/v1{path}")).header("authorization", credential);
            assert_eq!(Response::of(request).await.expect(200).json(), expected, "{path} {credential}");
        }
    }
}

async fn nothing_signs_so_there_is_no_key(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("demo", json!({"auto_init": true})).await;
    let of_repository = format!("/api/v1{}", ada.repo("demo", "/signing-key"));
    for place in ["/api/v1/signing-key", of_repository.as_str()] {
        for end in ["gpg", "pub"] {
            let request = cluster.anonymous().raw(Method::GET, &format!("{place}.{end}"));
            Response::of(request).await.refused_with_message(404, "not found");
        }
    }
}
