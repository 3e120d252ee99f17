use std::sync::Arc;
use std::time::Duration;

use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::error::violations;
use ferrite_proto::repo::{ResolveAccessRequest, TrackerIssueStyle, UpdateIssueTrackerRequest};
use ferrite_proto::{Scope, operation};
use tonic::{Code, Request, Status};

use super::organizations::narrow;
use super::{by_id, refusal, refused};
use crate::testing::{Harness, with_token};

const URL: &str = "https://tracker.example/acme";
const FORMAT: &str = "https://tracker.example/{user}/{repo}/{index}";
const ADD_COLLABORATOR: &str = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
     SELECT $1, id, $3, 0 FROM users WHERE name_key = $2";

fn nothing(id: i64) -> UpdateIssueTrackerRequest {
    UpdateIssueTrackerRequest { repository: by_id(id), ..UpdateIssueTrackerRequest::default() }
}

fn enable(id: i64, issues: bool) -> UpdateIssueTrackerRequest {
    UpdateIssueTrackerRequest { enable_issues: Some(issues), ..nothing(id) }
}

fn external(id: i64, enable_external_tracker: Option<bool>) -> UpdateIssueTrackerRequest {
    UpdateIssueTrackerRequest {
        enable_external_tracker,
        external_tracker_url: Some(URL.into()),
        tracker_url_format: Some(FORMAT.into()),
        ..nothing(id)
    }
}

async fn update(harness: &Harness, token: &str, request: UpdateIssueTrackerRequest) -> Result<(), Status> {
    harness.repository().update_issue_tracker(with_token(request, token)).await.map(drop)
}

/// Whether grants for issues say that the tracker is enabled.
async fn has_issues(harness: &Harness, token: &str, id: i64) -> bool {
    let request = ResolveAccessRequest {
        repository: by_id(id),
        operation: operation::LIST_ISSUES.to_owned(),
        ..ResolveAccessRequest::default()
    };
    let response = harness.access().resolve_access(with_token(request, token)).await.unwrap().into_inner();
    harness.trust().verifier.verify(&response.grant).unwrap().0.issues_enabled
}

/// Settings changes in the audit log, oldest first.
async fn log(harness: &Harness) -> Vec<String> {
    let sql =
        "SELECT actor || ' ' || target || ' ' || details FROM audit_log WHERE action = 'repository.update' ORDER BY id";
    let rows: Vec<(String,)> = harness.db().await.all(sql, &[]).await.unwrap();
    rows.into_iter().map(|(row,)| row).collect()
}

#[tokio::test]
async fn settings_decide_about_issues_and_only_changes_are_recorded() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let id = harness.create(&ada, "Demo", false).await.unwrap().id;
        let style =
            |style: TrackerIssueStyle| UpdateIssueTrackerRequest { tracker_issue_style: style.into(), ..nothing(id) };
        let both = UpdateIssueTrackerRequest { enable_issues: Some(true), ..external(id, Some(false)) };
        let db = harness.db().await;
        let mut recorded = Vec::new();
        for (request, is_usable, fields) in [
            (nothing(id), true, ""),
            (enable(id, false), false, "enable_issues"),
            (enable(id, false), false, ""),
            (nothing(id), false, ""),
            (enable(id, true), true, "enable_issues"),
            (external(id, None), true, "external_tracker_url,tracker_url_format"),
            (style(TrackerIssueStyle::Numeric), true, ""),
            (style(TrackerIssueStyle::Alphanumeric), true, "tracker_issue_style"),
            (external(id, Some(true)), false, "enable_external_tracker"),
            (enable(id, false), false, "enable_issues"),
            (enable(id, true), false, "enable_issues"),
            (both, true, "enable_external_tracker"),
        ] {
            db.execute("UPDATE repositories SET updated_us = 0", &[]).await.unwrap();
            update(&harness, &ada, request.clone()).await.unwrap();
            assert_eq!(has_issues(&harness, &ada, id).await, is_usable, "{request:?}");
            let (updated_us,): (i64,) = db.one("SELECT updated_us FROM repositories", &[]).await.unwrap();
            assert_eq!(updated_us > 0, !fields.is_empty(), "{request:?}");
            if !fields.is_empty() {
                recorded.push(format!("ada ada/Demo {{\"fields\":\"{fields}\"}}"));
            }
            assert_eq!(log(&harness).await, recorded, "{request:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn administrators_of_the_repository_change_its_settings_and_nobody_else() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let (open, closed) = (
            harness.create(&ada, "open", false).await.unwrap().id,
            harness.create(&ada, "closed", true).await.unwrap().id,
        );
        let db = harness.db().await;
        let (bob, eve) = (harness.signed_in("bob").await, harness.signed_in("eve").await);
        for (name, permission) in [("bob", "write"), ("eve", "admin")] {
            db.execute(ADD_COLLABORATOR, &args![open, name, permission]).await.unwrap();
        }
        let attempt = async |token: &str, id| refusal(update(&harness, token, enable(id, false)).await);
        assert_eq!(attempt("", open).await, refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
        assert_eq!(attempt(&bob, open).await, refused(Code::PermissionDenied, "PERMISSION_REQUIRED"));
        for id in [closed, 999] {
            assert_eq!(attempt(&bob, id).await, refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
        }
        // Permission is checked before the fields.
        let invalid = UpdateIssueTrackerRequest { external_tracker_url: Some("x".into()), ..nothing(open) };
        let outcome = refusal(update(&harness, &bob, invalid).await);
        assert_eq!(outcome, refused(Code::PermissionDenied, "PERMISSION_REQUIRED"));
        assert!(has_issues(&harness, &ada, open).await && log(&harness).await.is_empty());
        update(&harness, &eve, enable(open, false)).await.unwrap();
        assert!(!has_issues(&harness, &ada, open).await);
        narrow(&harness, "test", &[Scope::RepoWrite, Scope::Issue]).await;
        assert_eq!(attempt(&ada, open).await, refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
    })
    .await;
}

#[tokio::test]
async fn an_invalid_change_reports_its_fields_and_changes_nothing() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let id = harness.create(&ada, "demo", false).await.unwrap().id;
        let fields = async |request| {
            let status = update(&harness, &ada, request).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            violations(&status).into_iter().map(|(field, code, _)| format!("{field} {code}")).collect::<Vec<_>>()
        };
        let malformed = UpdateIssueTrackerRequest {
            enable_issues: Some(false),
            external_tracker_url: Some("tracker.example".into()),
            tracker_url_format: Some("https://tracker.example/".into()),
            tracker_issue_style: 9,
            ..nothing(id)
        };
        let expected = ["external_tracker_url invalid", "tracker_url_format invalid", "tracker_issue_style unknown"];
        assert_eq!(fields(malformed).await, expected);
        let required = ["external_tracker_url required", "tracker_url_format required"];
        let bare = UpdateIssueTrackerRequest { enable_external_tracker: Some(true), ..enable(id, false) };
        assert_eq!(fields(bare.clone()).await, required);
        assert_eq!(
            fields(UpdateIssueTrackerRequest { repository: None, ..bare.clone() }).await,
            ["repository required"]
        );
        assert!(has_issues(&harness, &ada, id).await && log(&harness).await.is_empty());

        // While one of the addresses is stored and the tracker is external, neither can be cleared.
        let stored = UpdateIssueTrackerRequest { external_tracker_url: Some(URL.into()), ..nothing(id) };
        update(&harness, &ada, stored).await.unwrap();
        assert_eq!(fields(bare).await, required[1..]);
        update(&harness, &ada, external(id, Some(true))).await.unwrap();
        let cleared = UpdateIssueTrackerRequest { external_tracker_url: Some(String::new()), ..nothing(id) };
        assert_eq!(fields(cleared.clone()).await, required[..1]);
        let switched_off = UpdateIssueTrackerRequest { enable_external_tracker: Some(false), ..cleared };
        update(&harness, &ada, switched_off).await.unwrap();
        assert_eq!((has_issues(&harness, &ada, id).await, log(&harness).await.len()), (true, 3));
    })
    .await;
}

#[tokio::test]
async fn a_repeated_change_happens_once() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let id = harness.create(&ada, "demo", false).await.unwrap().id;
        let keyed = |issues| {
            let mut request: Request<_> = with_token(enable(id, issues), &ada);
            request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
            request
        };
        harness.repository().update_issue_tracker(keyed(false)).await.unwrap();
        update(&harness, &ada, enable(id, true)).await.unwrap();
        harness.repository().update_issue_tracker(keyed(false)).await.unwrap();
        assert!(has_issues(&harness, &ada, id).await, "the repetition changes nothing");
        let outcome = harness.repository().update_issue_tracker(keyed(true)).await;
        assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
        assert_eq!(log(&harness).await.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_changes_at_once_none_is_lost() {
    on_each_url(async |url| {
        let harness = Arc::new(Harness::start_on(url).await);
        let ada = harness.signed_in("ada").await;
        let id = harness.create(&ada, "demo", false).await.unwrap().id;
        let life = ferrite_core::Lifecycle::new(Duration::from_secs(5));
        let db = harness.db().await;
        for round in 0..10 {
            let url = format!("{URL}/{round}");
            let changes = [
                enable(id, round % 2 == 1),
                UpdateIssueTrackerRequest { external_tracker_url: Some(url.clone()), ..nothing(id) },
                UpdateIssueTrackerRequest { tracker_url_format: Some(format!("{FORMAT}/{round}")), ..nothing(id) },
            ];
            let tasks = changes.map(|request| {
                let (harness, ada) = (Arc::clone(&harness), ada.clone());
                life.spawn("update", async move { update(&harness, &ada, request).await })
            });
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            let sql = "SELECT is_issues_enabled, external_tracker_url, tracker_url_format FROM repositories";
            let row: (bool, String, String) = db.one(sql, &[]).await.unwrap();
            assert_eq!(row, (round % 2 == 1, url, format!("{FORMAT}/{round}")));
        }
        assert_eq!(log(&harness).await.len(), 30);
    })
    .await;
}
