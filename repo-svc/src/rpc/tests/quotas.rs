//! Quotas: administrators read and set them, grants contain them, and imports respect them.

use ferrite_events as outbox;
use ferrite_proto::ServiceRole;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{MigrationEnded, RefsUpdated};
use ferrite_proto::grant::{ByteQuota, GrantLimits};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::operation::{CREATE_CONTENTS, CREATE_ISSUE, GET_CONTENTS, PUT_CONTENTS, RECEIVE_PACK};
use ferrite_proto::repo::migration_service_client::MigrationServiceClient;
use ferrite_proto::repo::organization_service_client::OrganizationServiceClient;
use ferrite_proto::repo::{
    CreateOrganizationRequest, GetQuotaRequest, GetStorageQuotaRequest, LimitChange, ListAuditEventsRequest,
    ListMigrationsRequest, MigrateRepositoryRequest, Quota, QuotaUsage, ResolveAccessRequest, UpdateQuotaRequest,
};
use tonic::{Code, Status};

use super::{by_id, refusal, refused};
use crate::testing::{Harness, with_token};

async fn administrator(harness: &Harness) -> String {
    harness.user("root", true).await;
    harness.token("root", "test").await
}

async fn quota(harness: &Harness, token: &str, username: &str) -> Result<Quota, Status> {
    let request = with_token(GetQuotaRequest { username: username.into() }, token);
    Ok(harness.administration().get_quota(request).await?.into_inner().quota.unwrap())
}

async fn update(harness: &Harness, token: &str, request: UpdateQuotaRequest) -> Result<Quota, Status> {
    Ok(harness.administration().update_quota(with_token(request, token)).await?.into_inner().quota.unwrap())
}

fn of(username: &str) -> UpdateQuotaRequest {
    UpdateQuotaRequest { username: username.into(), ..UpdateQuotaRequest::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "as the fields of requests have it")]
fn set(limit: i64) -> Option<LimitChange> {
    Some(LimitChange { limit: Some(limit) })
}

/// Delivers an event with the size of a repository.
async fn push(harness: &Harness, id: i64, number: i64, size_bytes: i64) {
    let update = RefsUpdated { number, size_bytes, ..RefsUpdated::default() };
    harness.deliver(vec![outbox::event(RepositoryId(id), 0, Fact::RefsUpdated(update))]).await.unwrap();
}

async fn limits(harness: &Harness, token: &str, id: i64, operation: &str) -> GrantLimits {
    let request =
        ResolveAccessRequest { repository: by_id(id), operation: operation.into(), ..ResolveAccessRequest::default() };
    let response = harness.access().resolve_access(with_token(request, token)).await.unwrap().into_inner();
    harness.trust().verifier.verify(&response.grant).unwrap().0.limits
}

#[tokio::test]
async fn administrators_see_and_set_the_limits_of_an_account() {
    let harness = Harness::start_with(&["--owner-bytes", "1000", "--repository-limit", "5"]).await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let demo = harness.create(&ada, "demo", false).await.unwrap();
    push(&harness, demo.id, 7, 400).await;
    let usage = |used, limit, is_own| Some(QuotaUsage { used, limit, is_own });
    let site = Quota {
        repositories: usage(1, Some(5), false),
        organizations: usage(0, Some(100), false),
        bytes: usage(400, Some(1000), false),
        rate_percent: None,
    };
    assert_eq!(quota(&harness, &root, "ADA").await.unwrap(), site);
    assert_eq!(refusal(quota(&harness, &ada, "ada").await), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
    assert_eq!(refusal(quota(&harness, &root, "bob").await), refused(Code::NotFound, "USER_NOT_FOUND"));
    assert_eq!(refusal(update(&harness, &ada, of("ada")).await), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));

    for (request, field) in [
        (UpdateQuotaRequest { repositories: set(-2), ..of("ada") }, "repositories"),
        (UpdateQuotaRequest { organizations: set(-2), ..of("ada") }, "organizations"),
        (UpdateQuotaRequest { bytes: set(i64::MIN), ..of("ada") }, "bytes"),
        (UpdateQuotaRequest { rate_percent: set(1_000_001), ..of("ada") }, "rate_percent"),
    ] {
        let status = update(&harness, &root, request).await.unwrap_err();
        assert_eq!((status.code(), violations(&status)[0].0.as_str()), (Code::InvalidArgument, field));
    }
    assert_eq!(update(&harness, &root, of("ada")).await.unwrap(), site, "nothing to change");
    let own = UpdateQuotaRequest { bytes: set(300), rate_percent: set(50), ..of("ada") };
    let changed = update(&harness, &root, own).await.unwrap();
    let expected = Quota { bytes: usage(400, Some(300), true), rate_percent: Some(50), ..site };
    assert_eq!((changed, quota(&harness, &root, "ada").await.unwrap()), (expected, expected));
    let refused_bytes = harness.create(&ada, "more", false).await;
    assert_eq!(refusal(refused_bytes), refused(Code::FailedPrecondition, "STORAGE_QUOTA_EXCEEDED"));
    let own = UpdateQuotaRequest { bytes: set(-1), repositories: set(1), ..of("ada") };
    update(&harness, &root, own).await.unwrap();
    let status = harness.create(&ada, "more", false).await.unwrap_err();
    assert_eq!(status.message(), "repository limit reached: the account owns 1; the limit is 1");
    let of_site = Some(LimitChange { limit: None });
    let own = UpdateQuotaRequest { repositories: of_site, bytes: of_site, ..of("ada") };
    let changed = update(&harness, &root, own).await.unwrap();
    assert_eq!(changed, Quota { rate_percent: Some(50), ..site });

    let request = ListAuditEventsRequest { action: "quota".into(), page: 1, page_size: 100, ..Default::default() };
    let listed = harness.administration().list_audit_events(with_token(request, &root)).await.unwrap().into_inner();
    let details: Vec<_> = listed.events.iter().map(|event| event.details["bytes"].as_str()).collect();
    assert_eq!(details, ["site", "-1", "300"]);
    assert!(listed.events.iter().all(|event| event.target == "ada" && event.actor == "root"));
}

#[tokio::test]
async fn a_user_creates_as_many_organizations_as_its_own_limit_says() {
    let harness = Harness::start_with(&["--organization-limit", "1"]).await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let limit = async |limit: Option<i64>| {
        let request = UpdateQuotaRequest { organizations: Some(LimitChange { limit }), ..of("ada") };
        update(&harness, &root, request).await.unwrap().organizations.unwrap()
    };
    let create = async |name: &str| {
        let request = CreateOrganizationRequest { username: name.into(), ..CreateOrganizationRequest::default() };
        let mut organizations = OrganizationServiceClient::new(harness.service.clone());
        organizations.create_organization(with_token(request, &ada)).await
    };
    create("one").await.unwrap();
    let reached = refused(Code::FailedPrecondition, "ORGANIZATION_LIMIT_REACHED");
    assert_eq!(refusal(create("two").await), reached);
    assert_eq!(limit(Some(2)).await, QuotaUsage { used: 1, limit: Some(2), is_own: true });
    create("two").await.unwrap();
    let status = create("three").await.unwrap_err();
    assert_eq!(status.message(), "organization limit reached: the user created 2; the limit is 2");
    assert_eq!(limit(Some(-1)).await, QuotaUsage { used: 2, limit: None, is_own: true });
    create("three").await.unwrap();
    assert_eq!(limit(None).await, QuotaUsage { used: 3, limit: Some(1), is_own: false });
    assert_eq!(refusal(create("four").await), reached);
    assert_eq!(limit(Some(0)).await, QuotaUsage { used: 3, limit: Some(0), is_own: true });
    let request = ListAuditEventsRequest { action: "quota".into(), page: 1, page_size: 100, ..Default::default() };
    let listed = harness.administration().list_audit_events(with_token(request, &root)).await.unwrap().into_inner();
    let details: Vec<_> = listed.events.iter().map(|event| event.details["organizations"].as_str()).collect();
    assert_eq!(details, ["0", "site", "-1", "2"]);
}

#[tokio::test]
async fn grants_for_writes_carry_the_quota_of_the_owner() {
    let harness = Harness::start_with(&["--owner-bytes", "1024000"]).await;
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let demo = harness.create(&ada, "demo", false).await.unwrap();
    push(&harness, demo.id, 7, 900_001).await;
    let quota = |used, limit| GrantLimits { bytes: Some(ByteQuota { used, limit }), ..GrantLimits::default() };
    for operation in [RECEIVE_PACK, CREATE_CONTENTS, PUT_CONTENTS] {
        assert_eq!(limits(&harness, &ada, demo.id, operation).await, quota(900_001, 1_024_000), "{operation}");
    }
    assert_eq!(limits(&harness, &ada, demo.id, GET_CONTENTS).await, GrantLimits::default());
    push(&harness, demo.id, 8, 1_500).await;
    assert_eq!(limits(&harness, &ada, demo.id, RECEIVE_PACK).await, quota(2_000, 1_024_000), "rounded up");
    let store = MigrationServiceClient::new(harness.channel_of(ServiceRole::GitSvc));
    let stored = store.clone().get_storage_quota(GetStorageQuotaRequest { repository_id: demo.id }).await;
    let stored = stored.unwrap().into_inner().quota.unwrap();
    assert_eq!((stored.used_bytes, stored.limit_bytes), (1_500, 1_024_000));
    let unknown = store.clone().get_storage_quota(GetStorageQuotaRequest { repository_id: 999 }).await;
    assert_eq!(refusal(unknown), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    update(&harness, &root, UpdateQuotaRequest { bytes: set(-1), ..of("ada") }).await.unwrap();
    assert_eq!(limits(&harness, &ada, demo.id, RECEIVE_PACK).await, GrantLimits::default());
}

#[tokio::test]
async fn grants_for_what_is_counted_carry_a_percentage() {
    let harness = Harness::start_with(&["--creations-per-hour", "4"]).await;
    // Creating her token counts.
    let (root, ada) = (administrator(&harness).await, harness.signed_in("ada").await);
    let demo = harness.create(&ada, "demo", false).await.unwrap();
    let percent = async |token: &str| limits(&harness, token, demo.id, CREATE_ISSUE).await.rate_percent;
    assert_eq!((percent(&ada).await, percent(&root).await), (None, Some(10_000)));
    for (username, limit) in [("ada", 50), ("root", 50)] {
        update(&harness, &root, UpdateQuotaRequest { rate_percent: set(limit), ..of(username) }).await.unwrap();
    }
    assert_eq!((percent(&ada).await, percent(&root).await), (Some(50), Some(5_000)));
    // Two is half of the limit of four.
    let refused_creation = harness.create(&ada, "more", false).await;
    assert_eq!(refusal(refused_creation), refused(Code::ResourceExhausted, "TOO_MANY_CREATIONS"));
    update(&harness, &root, UpdateQuotaRequest { rate_percent: set(-1), ..of("ada") }).await.unwrap();
    assert_eq!(percent(&ada).await, Some(u32::MAX));
    for number in 0..5 {
        harness.create(&ada, &format!("more-{number}"), false).await.unwrap();
    }
}

#[tokio::test]
async fn an_import_beyond_the_quota_fails_and_takes_no_name() {
    let harness = Harness::start_with(&["--owner-bytes", "1000"]).await;
    let (root, ada) = (administrator(&harness).await, harness.user("ada", false).await);
    let token = harness.token("ada", "test").await;
    for (name, size_bytes, used) in [("demo", 1_001, 0), ("demo", 600, 600), ("more", 600, 600), ("more", 400, 1_000)] {
        let request = MigrateRepositoryRequest {
            clone_addr: "https://example.com/them/demo.git".into(),
            uid: ada.id.0,
            repo_name: name.into(),
            ..MigrateRepositoryRequest::default()
        };
        harness.imports().migrate_repository(with_token(request, &token)).await.unwrap();
        let id = harness.import_requests().last().unwrap().repository_id;
        let end =
            MigrationEnded { size_bytes, default_branch: b"main".to_vec(), number: 3, ..MigrationEnded::default() };
        harness.deliver(vec![outbox::event(RepositoryId(id), 0, Fact::MigrationEnded(end))]).await.unwrap();
        assert_eq!(quota(&harness, &root, "ada").await.unwrap().bytes.unwrap().used, used, "{name} {size_bytes}");
    }
    let request = with_token(ListMigrationsRequest { page: 1, page_size: 10 }, &token);
    let listed = harness.imports().list_migrations(request).await.unwrap().into_inner();
    let errors: Vec<_> = listed.migrations.iter().map(|import| import.error.as_str()).collect();
    let refused = |used| format!("storage quota exceeded: {used} of 1000 bytes used");
    assert_eq!(errors, ["", &refused(600), "", &refused(0)]);
}
