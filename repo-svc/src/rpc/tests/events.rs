use ferrite_core::page::Page;
use ferrite_db::testing::on_each_url;
use ferrite_events as outbox;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::{
    DeliverRequest, Event, HookAction, HookChanged, IssueChanged, LanguageChanged, ProtectionChanged, RefUpdate,
    RefsUpdateKind, RefsUpdated, SizeChanged,
};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::{GetRepositoryRequest, ListRepositoriesRequest, Repository};
use tonic::Code;

use super::organizations::create;
use super::{by_id, refusal, refused};
use crate::store::AuditFilter;
use crate::testing::{Harness, with_token};

fn refs(id: i64, number: i64, size_bytes: i64) -> Event {
    let update = RefsUpdated { number, size_bytes, default_branch: b"trunk".to_vec(), ..RefsUpdated::default() };
    outbox::event(RepositoryId(id), 2_000_000_000_000_000, Fact::RefsUpdated(update))
}

fn issues(id: i64, version: i64, open_issue_count: i64) -> Event {
    let change = IssueChanged { version, open_issue_count, ..IssueChanged::default() };
    outbox::event(RepositoryId(id), 0, Fact::IssueChanged(change))
}

async fn get(harness: &Harness, id: i64, token: &str) -> Repository {
    let request = GetRepositoryRequest { repository: by_id(id) };
    harness.repository().get_repository(with_token(request, token)).await.unwrap().into_inner().repository.unwrap()
}

#[tokio::test]
async fn events_of_other_services_change_the_repository_once() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let events = vec![refs(made.id, 2, 200), refs(made.id, 1, 100), issues(made.id, 1, 7), refs(999, 1, 1)];
    for _ in 0..2 {
        harness.deliver(events.clone()).await.unwrap();
    }
    let now = get(&harness, made.id, &ada).await;
    assert_eq!((now.size_bytes, now.default_branch.as_str(), now.open_issue_count), (200, "trunk", 7));
    assert!(!now.is_empty && made.is_empty);
    let age = now.update_time.unwrap().seconds - made.update_time.unwrap().seconds;
    assert!((0..60).contains(&age), "a time in the future is not believed");
}

#[tokio::test]
async fn an_event_about_the_size_changes_the_repository() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let size = |number, size_bytes| {
        outbox::event(RepositoryId(made.id), 0, Fact::SizeChanged(SizeChanged { size_bytes, number }))
    };
    harness.deliver(vec![refs(made.id, 2, 200), size(2, 90), size(1, 300)]).await.unwrap();
    assert_eq!(get(&harness, made.id, &ada).await.size_bytes, 90);
}

#[tokio::test]
async fn the_largest_language_is_in_the_repository_and_in_lists() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    assert_eq!(made.language, "");
    for language in ["Rust", ""] {
        let change = LanguageChanged { language: language.to_owned() };
        harness.deliver(vec![outbox::event(RepositoryId(made.id), 0, Fact::LanguageChanged(change))]).await.unwrap();
        assert_eq!(get(&harness, made.id, &ada).await.language, language);
        let list = ListRepositoriesRequest { owner: "ada".into(), page: 1, page_size: 10, is_organization: false };
        let listed = harness.repository().list_repositories(with_token(list, &ada)).await.unwrap().into_inner();
        assert_eq!(listed.repositories[0].language, language);
    }
}

#[tokio::test]
async fn changes_of_branch_protections_are_in_the_audit_log() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let change = ProtectionChanged {
        pattern: "main".into(),
        allow_force: true,
        push_user_ids: vec![7, 8],
        requires_checks: true,
        required_contexts: vec!["ci".into()],
        merge_user_ids: vec![9],
        required_approvals: 2,
        approver_ids: vec![8, 9],
        blocks_on_rejection: true,
        user_id: 7,
        username: "Ada".into(),
        address: "192.0.2.1".into(),
        request_id: "r1".into(),
        ..ProtectionChanged::default()
    };
    let removed = ProtectionChanged { is_removed: true, push_user_ids: Vec::new(), ..change.clone() };
    let event = |change, id| outbox::event(RepositoryId(id), 5_000_000, Fact::ProtectionChanged(change));
    let events = vec![event(change.clone(), made.id), event(removed, made.id), event(change, 999)];
    for _ in 0..2 {
        harness.deliver(events.clone()).await.unwrap();
    }
    let filter = AuditFilter { action: Some("protection".into()), ..AuditFilter::default() };
    let (rows, total) = harness.state().await.audit.list(&filter, Page::nearest(1, 10, 10)).await.unwrap();
    let seen: Vec<_> = rows.iter().rev().map(|row| (row.action.as_str(), row.target.as_str(), row.target_id)).collect();
    let name = format!("{}/demo", made.owner.unwrap().username);
    assert_eq!(
        (total, seen),
        (
            3,
            vec![
                ("protection.set", name.as_str(), made.id),
                ("protection.remove", &name, made.id),
                ("protection.set", "", 999)
            ]
        )
    );
    let first = &rows[2];
    assert_eq!(
        (first.actor_id, first.actor.as_str(), first.address.as_str(), first.request_id.as_str()),
        (7, "Ada", "192.0.2.1", "r1")
    );
    assert_eq!(first.time_us, 5_000_000);
    let details: Vec<_> = first.details().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "allow_delete=false",
        "allow_force=true",
        "approver_ids=8,9",
        "blocks_on_rejection=true",
        "blocks_on_requests=false",
        "dismisses_stale_approvals=false",
        "forbids_push=false",
        "ignores_stale_approvals=false",
        "merge_user_ids=9",
        "pattern=main",
        "push_user_ids=7,8",
        "required_approvals=2",
        "required_contexts=ci",
        "requires_checks=true",
        "requires_current_head=false",
    ];
    assert_eq!(details, expected);
}

#[tokio::test]
async fn renames_of_the_default_branch_are_in_the_audit_log() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let owner = made.owner.unwrap();
    let (none, tip) = ("0".repeat(40), "1".repeat(40));
    let change = |name: &str, old: &str, new: &str| RefUpdate {
        name: format!("refs/heads/{name}").into(),
        old_id: old.into(),
        new_id: new.into(),
    };
    let event = |number, kind: RefsUpdateKind, old: &str, new: &str| {
        let update = RefsUpdated {
            updates: vec![change(old, &tip, &none), change(new, &none, &tip)],
            user_id: owner.id,
            kind: kind.into(),
            number,
            default_branch: b"trunk".to_vec(),
            ..RefsUpdated::default()
        };
        outbox::event(RepositoryId(made.id), 5_000_000, Fact::RefsUpdated(update))
    };
    let events = vec![
        event(1, RefsUpdateKind::Api, "main", "trunk"),
        event(2, RefsUpdateKind::Api, "topic", "other"),
        event(3, RefsUpdateKind::Push, "main", "trunk"),
    ];
    for _ in 0..2 {
        harness.deliver(events.clone()).await.unwrap();
    }
    let filter = AuditFilter { action: Some("repository.update".into()), ..AuditFilter::default() };
    let (rows, total) = harness.state().await.audit.list(&filter, Page::nearest(1, 10, 10)).await.unwrap();
    assert_eq!((total, rows[0].actor.as_str(), rows[0].actor_id), (1, owner.username.as_str(), owner.id));
    assert_eq!((rows[0].target_id, rows[0].time_us), (made.id, 5_000_000));
    let details: Vec<_> = rows[0].details().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(details, ["fields=default_branch", "from=main", "to=trunk"]);
}

#[tokio::test]
async fn changes_of_webhooks_are_in_the_audit_log() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let made = harness.create(&ada, "demo", false).await.unwrap();
        let acme = create(&harness, &ada, "Acme").await.id;
        let change = |action: HookAction, organization_id| HookChanged {
            action: action.into(),
            hook_id: 4,
            organization_id,
            url: "https://ci.example.com/hook".into(),
            user_id: 7,
            username: "Ada".into(),
            address: "192.0.2.1".into(),
            request_id: "r1".into(),
        };
        let event = |action, organization, id| {
            outbox::event(RepositoryId(id), 5_000_000, Fact::HookChanged(change(action, organization)))
        };
        let events = vec![
            event(HookAction::Created, 0, made.id),
            event(HookAction::Updated, acme, 0),
            event(HookAction::Deleted, 0, 0),
            event(HookAction::Deleted, 0, 999),
        ];
        for _ in 0..2 {
            harness.deliver(events.clone()).await.unwrap();
        }
        let filter = AuditFilter { action: Some("hook".into()), ..AuditFilter::default() };
        let (rows, total) = harness.state().await.audit.list(&filter, Page::nearest(1, 10, 10)).await.unwrap();
        let seen: Vec<_> = rows
            .iter()
            .rev()
            .map(|row| (row.action.as_str(), row.target_kind.as_str(), row.target.as_str(), row.target_id))
            .collect();
        let expected = [
            ("hook.create", "repository", "ada/demo", made.id),
            ("hook.update", "organization", "Acme", acme),
            ("hook.delete", "site", "", 0),
            ("hook.delete", "repository", "", 999),
        ];
        assert_eq!((total, seen), (4, expected.to_vec()));
        let first = &rows[3];
        assert_eq!((first.actor_id, first.actor.as_str(), first.address.as_str()), (7, "Ada", "192.0.2.1"));
        let details: Vec<_> = first.details().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(details, ["hook_id=4", "url=https://ci.example.com/hook"]);
    })
    .await;
}

#[tokio::test]
async fn a_delivery_is_applied_as_a_whole_or_not_at_all() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let unknown = Event { fact: None, ..refs(made.id, 1, 1) };
    let status = harness.deliver(vec![refs(made.id, 2, 200), unknown]).await.unwrap_err();
    assert_eq!((status.code(), violations(&status)[0].0.as_str()), (Code::InvalidArgument, "events[1].fact"));
    assert_eq!(get(&harness, made.id, &ada).await.size_bytes, 42);
    let many = (0..65).map(|number| refs(made.id, number, 1)).collect();
    assert_eq!(refusal(harness.deliver(many).await), refused(Code::InvalidArgument, "INVALID_EVENTS"));
    let nameless = Event { event_id: "a\0".into(), ..refs(made.id, 1, 1) };
    let outcome = harness.deliver(vec![nameless]).await;
    assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "INVALID_EVENTS"));
}

#[tokio::test]
async fn users_cannot_deliver_events() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let mut sink = EventSinkClient::new(harness.unauthenticated.clone());
    let outcome = sink
        .deliver(with_token(DeliverRequest { events: vec![refs(made.id, 1, 9)], ..Default::default() }, &ada))
        .await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "SERVICE_REQUIRED"));
}
