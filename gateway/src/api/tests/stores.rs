use ferrite_core::timestamp;
use ferrite_proto::repo;
use serde_json::json;

use super::operations::Case;

const STORE: &str = "/admin/stores/git-0";

fn store() -> repo::Store {
    repo::Store {
        name: "git-0".into(),
        weight: 50,
        repository_count: 7,
        is_reachable: true,
        free_bytes: Some(1_000),
        total_bytes: Some(4_000),
        seen_at: Some(timestamp(2_000_000)),
        created_at: Some(timestamp(1_000_000)),
    }
}

#[tokio::test]
async fn stores_are_listed_with_what_is_known_about_them() {
    let case = Case::new().await;
    let unseen = repo::Store { name: "git-1".into(), created_at: Some(timestamp(0)), ..repo::Store::default() };
    let response = repo::ListStoresResponse { stores: vec![store(), unseen], total_count: 2 };
    let expected = repo::ListStoresRequest { page: 1, page_size: 50 };
    let listed = case.check(("GET", "/admin/stores", ""), "AdministrationService/ListStores", expected, response).await;
    let shown = json!([
        {
            "name": "git-0", "weight": 50, "repositories": 7, "reachable": true, "free_bytes": 1_000, "total_bytes": 4_000,
            "last_seen_at": "1970-01-01T00:00:02Z", "created_at": "1970-01-01T00:00:01Z",
        },
        {
            "name": "git-1", "weight": 0, "repositories": 0, "reachable": false, "free_bytes": null, "total_bytes": null,
            "last_seen_at": null, "created_at": "1970-01-01T00:00:00Z",
        },
    ]);
    assert_eq!(listed, (200, shown));
}

#[tokio::test]
async fn a_store_is_added_or_changed_by_its_name() {
    let case = Case::new().await;
    for (body, weight, was_added, status) in [
        (r#"{"weight":50}"#, Some(50), true, 201),
        ("{}", None, false, 200),
        (r#"{"weight":99999999999}"#, Some(i32::MAX), false, 200),
        (r#"{"weight":-99999999999}"#, Some(i32::MIN), false, 200),
    ] {
        let expected = repo::SetStoreRequest { name: "git-0".into(), weight };
        let response = repo::SetStoreResponse { store: Some(store()), was_added };
        let set = case.check(("PUT", STORE, body), "AdministrationService/SetStore", expected, response).await;
        assert_eq!((set.0, &set.1["name"]), (status, &json!("git-0")), "{body}");
    }
    let expected = repo::UpdateStoreRequest { name: "git-0".into(), weight: Some(0) };
    let response = repo::UpdateStoreResponse { store: Some(store()) };
    let body = r#"{"weight":0}"#;
    let updated = case.check(("PATCH", STORE, body), "AdministrationService/UpdateStore", expected, response).await;
    assert_eq!((updated.0, &updated.1["weight"]), (200, &json!(50)));
    let expected = repo::DeleteStoreRequest { name: "git-0".into() };
    let response = repo::DeleteStoreResponse {};
    let removed = case.check(("DELETE", STORE, ""), "AdministrationService/DeleteStore", expected, response).await;
    assert_eq!(removed.0, 204);
}
