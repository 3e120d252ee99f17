use ferrite_proto::repo;
use serde_json::json;

use super::operations::Case;

#[tokio::test]
async fn a_limit_of_a_quota_is_a_number_or_null() {
    let case = Case::new().await;
    let usage = |used, limit, is_own| Some(repo::QuotaUsage { used, limit, is_own });
    let (repositories, bytes) = (usage(3, None, true), usage(70, Some(100), false));
    let quota = repo::Quota { repositories, organizations: usage(2, Some(5), true), bytes, rate_percent: None };
    let shown = json!({
        "repositories": {"used": 3, "limit": null, "is_default": false},
        "organizations": {"used": 2, "limit": 5, "is_default": false},
        "bytes": {"used": 70, "limit": 100, "is_default": true},
        "rate_percent": null,
    });
    let limit = |limit| Some(repo::LimitChange { limit });
    let expected = repo::UpdateQuotaRequest {
        username: "bob".into(),
        repositories: limit(Some(-1)),
        organizations: limit(Some(5)),
        bytes: limit(None),
        rate_percent: None,
    };
    let (path, body) = ("/admin/users/bob/quota", r#"{"repositories":-1,"organizations":5,"bytes":null}"#);
    let response = repo::UpdateQuotaResponse { quota: Some(quota) };
    let changed = case.check(("PATCH", path, body), "AdministrationService/UpdateQuota", expected, response).await;
    assert_eq!(changed, (200, shown.clone()));
    let expected = repo::GetQuotaRequest { username: "bob".into() };
    let response = repo::GetQuotaResponse { quota: Some(quota) };
    assert_eq!(case.check(("GET", path, ""), "AdministrationService/GetQuota", expected, response).await, (200, shown));
}
