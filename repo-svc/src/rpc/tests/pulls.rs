//! Pull requests: their settings, who may take part, and where their commits may come from.

use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_events as outbox;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{IssueChanged, RefsUpdateKind, RefsUpdated};
use ferrite_proto::grant::{Grant, IssueReach};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::operation::{LIST_PULLS, MERGE_PULL, UPLOAD_PACK};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::transfer_service_client::TransferServiceClient;
use ferrite_proto::repo::{
    CheckPullSourceRequest, CheckPullSourceResponse, CreateRepositoryRequest, ForkRepositoryRequest, GetForkRequest,
    MembershipRole, PullSettings, PullSettingsChange, Repository, StartTransferRequest, UpdateRepositoryRequest,
};
use ferrite_proto::{Scope, ServiceRole};
use tonic::{Code, Status};

use super::organizations::{create as create_organization, narrow, set as set_member};
use super::repository_settings::{get, log};
use super::{by_id, by_name, of_demo, refusal, refused};
use crate::testing::{Harness, with_token};

const COLLABORATE: &str = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
     SELECT $1, id, $2, 0 FROM users WHERE name_key = $3";

fn new_settings() -> PullSettings {
    PullSettings {
        has_pulls: true,
        allow_merge: true,
        allow_rebase: true,
        allow_rebase_merge: true,
        allow_squash: true,
        allow_fast_forward_only: true,
        allow_rebase_update: true,
        delete_branch_after_merge: false,
        detects_manual_merges: true,
        allow_manual_merge: false,
        default_style: "merge".to_owned(),
    }
}

async fn set(harness: &Harness, token: &str, change: PullSettingsChange) -> Result<PullSettings, Status> {
    let request =
        UpdateRepositoryRequest { repository: by_name("ada", "demo"), pulls: Some(change), ..Default::default() };
    let response = harness.repository().update_repository(with_token(request, token)).await?.into_inner();
    Ok(response.repository.unwrap().pulls.unwrap())
}

async fn grant(harness: &Harness, token: &str, operation: &str) -> Grant {
    let response = harness.access().resolve_access(with_token(of_demo(operation), token)).await.unwrap();
    harness.trust().verifier.verify(&response.into_inner().grant).unwrap().0
}

async fn fork(harness: &Harness, id: i64, token: &str) -> Repository {
    let request = ForkRepositoryRequest { repository: by_id(id), ..ForkRepositoryRequest::default() };
    harness.repository().fork_repository(with_token(request, token)).await.unwrap().into_inner().repository.unwrap()
}

async fn collaborate(harness: &Harness, repository: i64, level: &str, username: &str) {
    assert_eq!(harness.db().await.execute(COLLABORATE, &args![repository, level, username]).await.unwrap(), 1);
}

#[tokio::test]
async fn settings_are_changed_recorded_kept_by_a_transfer_and_not_taken_by_a_fork() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        create_organization(&harness, &ada, "acme").await;
        let made = harness.create(&ada, "demo", false).await.unwrap();
        assert_eq!(made.pulls, Some(new_settings()));
        assert!(grant(&harness, &ada, UPLOAD_PACK).await.pulls_enabled);
        assert_eq!(set(&harness, &ada, PullSettingsChange::default()).await.unwrap(), new_settings());
        assert_eq!(log(&harness, "repository.update").await, [""; 0]);

        let change = PullSettingsChange {
            has_pulls: Some(false),
            allow_merge: Some(false),
            delete_branch_after_merge: Some(true),
            allow_manual_merge: Some(true),
            default_style: Some("squash".to_owned()),
            ..PullSettingsChange::default()
        };
        let expected = PullSettings {
            has_pulls: false,
            allow_merge: false,
            delete_branch_after_merge: true,
            allow_manual_merge: true,
            default_style: "squash".to_owned(),
            ..new_settings()
        };
        assert_eq!(set(&harness, &ada, change).await.unwrap(), expected);
        assert!(!grant(&harness, &ada, UPLOAD_PACK).await.pulls_enabled);
        let fields = "has_pull_requests,allow_merge_commits,default_delete_branch_after_merge,allow_manual_merge,\
             default_merge_style";
        assert_eq!(log(&harness, "repository.update").await, [format!("ada ada/demo {{\"fields\":\"{fields}\"}}")]);
        let off = PullSettingsChange {
            allow_rebase: Some(false),
            allow_rebase_merge: Some(false),
            allow_squash: Some(false),
            allow_fast_forward_only: Some(false),
            ..PullSettingsChange::default()
        };
        let status = set(&harness, &ada, off).await.unwrap_err();
        assert_eq!((status.code(), violations(&status)[0].0.as_str()), (Code::InvalidArgument, "allow_merge_commits"));
        assert_eq!(get(&harness, &ada, "ada", "demo").await.unwrap().pulls, Some(expected.clone()));

        assert_eq!(fork(&harness, made.id, &bob).await.pulls, Some(new_settings()));
        let request = StartTransferRequest { repository: by_id(made.id), new_owner: "acme".to_owned() };
        let mut transfers = TransferServiceClient::new(harness.service.clone());
        let moved = transfers.start_transfer(with_token(request, &ada)).await.unwrap().into_inner();
        assert_eq!(moved.repository.unwrap().pulls, Some(expected));
    })
    .await;
}

#[tokio::test]
async fn a_token_needs_both_scopes_unless_everybody_may_read() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", true).await.unwrap();
    let refusal_of = async |token: &str| {
        let outcome = harness.access().resolve_access(with_token(of_demo(LIST_PULLS), token)).await;
        outcome.err().map(|status| refusal::<()>(Err(status)))
    };
    let refusal_with = async |scopes: &[Scope]| {
        narrow(&harness, "test", scopes).await;
        refusal_of(&ada).await
    };
    let missing = Some(refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
    assert_eq!(refusal_with(&[Scope::Issue]).await, missing);
    assert_eq!(refusal_with(&[Scope::RepoRead]).await, missing);
    assert_eq!(refusal_with(&[Scope::RepoRead, Scope::Issue]).await, None);
    let hidden = Some(refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    assert_eq!((refusal_of("").await, refusal_with(&[Scope::User]).await), (hidden.clone(), hidden));
    harness.db().await.execute("UPDATE repositories SET is_private = $1", &args![false]).await.unwrap();
    assert_eq!((refusal_of("").await, refusal_with(&[Scope::Issue]).await), (None, None));
}

#[tokio::test]
async fn a_merge_may_close_issues_and_stores_bytes() {
    let harness = Harness::start_with(&["--owner-bytes", "1000"]).await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", false).await.unwrap();
    let grant = grant(&harness, &ada, MERGE_PULL).await;
    assert_eq!(grant.issue_reach, IssueReach::All);
    assert_eq!(grant.limits.bytes.map(|quota| quota.limit), Some(1000));
}

#[tokio::test]
async fn open_pull_requests_are_counted_and_their_heads_have_a_size_alone() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let made = harness.create(&ada, "demo", false).await.unwrap();
        let count = |version, open_issue_count, open_pull_count| {
            let change = IssueChanged { version, open_issue_count, open_pull_count, ..IssueChanged::default() };
            outbox::event(RepositoryId(made.id), 0, Fact::IssueChanged(change))
        };
        for (event, expected) in [
            (count(2, 3, Some(4)), (3, 4)),
            (count(1, 8, Some(9)), (3, 4)),
            (count(3, 5, None), (5, 4)),
            (count(4, 5, Some(0)), (5, 0)),
        ] {
            harness.deliver(vec![event]).await.unwrap();
            let now = get(&harness, &ada, "ada", "demo").await.unwrap();
            assert_eq!((now.open_issue_count, now.open_pull_count), expected);
        }

        harness.db().await.execute("UPDATE repositories SET updated_us = 1000000", &[]).await.unwrap();
        let update = |number, size_bytes, kind: RefsUpdateKind| {
            let update = RefsUpdated { number, size_bytes, kind: kind.into(), is_empty: true, ..Default::default() };
            outbox::event(RepositoryId(made.id), 2_000_000, Fact::RefsUpdated(update))
        };
        let push = RefsUpdated { number: 1, size_bytes: 10, ..RefsUpdated::default() };
        harness.deliver(vec![outbox::event(RepositoryId(made.id), 0, Fact::RefsUpdated(push))]).await.unwrap();
        harness.deliver(vec![update(2, 20, RefsUpdateKind::PullHead)]).await.unwrap();
        let now = get(&harness, &ada, "ada", "demo").await.unwrap();
        assert_eq!((now.size_bytes, now.is_empty, now.update_time.unwrap().seconds), (20, false, 1));
        harness.deliver(vec![update(3, 30, RefsUpdateKind::Merge)]).await.unwrap();
        let now = get(&harness, &ada, "ada", "demo").await.unwrap();
        assert_eq!((now.size_bytes, now.update_time.unwrap().seconds), (30, 2));
    })
    .await;
}

#[tokio::test]
async fn the_repository_of_an_owner_in_a_family_is_found_if_it_is_seen() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob, eve) =
            (harness.signed_in("ada").await, harness.signed_in("bob").await, harness.signed_in("eve").await);
        let parent = harness.create(&ada, "demo", false).await.unwrap();
        let (of_bob, of_eve) = (fork(&harness, parent.id, &bob).await, fork(&harness, parent.id, &eve).await);
        let find = async |id: i64, owner: &str, token: &str| {
            let request = GetForkRequest { repository: by_id(id), owner: owner.to_owned() };
            let response = harness.repository().get_fork(with_token(request, token)).await?;
            Ok::<_, Status>(response.into_inner().repository.unwrap().id)
        };
        for (from, owner, expected) in [
            (parent.id, "BOB", of_bob.id),
            (parent.id, "ada", parent.id),
            (of_bob.id, "ada", parent.id),
            (of_bob.id, "bob", of_bob.id),
            (of_bob.id, "eve", of_eve.id),
        ] {
            assert_eq!(find(from, owner, &eve).await.unwrap(), expected, "{from} {owner}");
        }
        let missing = refused(Code::NotFound, "REPOSITORY_NOT_FOUND");
        harness.create(&eve, "other", false).await.unwrap();
        for owner in ["nobody", "", "a/b", "e%"] {
            assert_eq!(refusal(find(parent.id, owner, &eve).await), missing, "{owner}");
        }
        let hide = "UPDATE repositories SET is_private = $2 WHERE id = $1";
        harness.db().await.execute(hide, &args![of_bob.id, true]).await.unwrap();
        assert_eq!(refusal(find(parent.id, "bob", &eve).await), missing);
        assert_eq!(refusal(find(of_bob.id, "ada", &eve).await), missing);
        assert_eq!(find(parent.id, "bob", &bob).await.unwrap(), of_bob.id);
    })
    .await;
}

#[tokio::test]
async fn commits_come_from_where_the_user_reads_or_writes() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let (eve, root) = (harness.user("eve", false).await.id.0, harness.user("root", true).await.id.0);
        let db = harness.db().await;
        let bob_id = db.one::<(i64,)>("SELECT id FROM users WHERE name_key = 'bob'", &[]).await.unwrap().0;
        let open = harness.create(&ada, "open", false).await.unwrap().id;
        let closed = harness.create(&ada, "closed", true).await.unwrap().id;
        let fork = fork(&harness, open, &bob).await.id;
        let secret = harness.create(&bob, "secret", true).await.unwrap().id;
        let allowed = async |base, head, user| check(&harness, base, head, user).await.is_allowed;

        assert!(allowed(open, fork, eve).await, "both are public");
        assert!(allowed(open, open, eve).await);
        assert!(!allowed(closed, closed, eve).await && !allowed(closed, fork, eve).await, "she cannot read the base");
        assert!(!allowed(open, secret, eve).await, "she cannot read the head");
        assert!(allowed(open, secret, bob_id).await && allowed(open, secret, root).await);
        collaborate(&harness, secret, "read", "eve").await;
        assert!(!allowed(open, secret, eve).await, "who reads a private head does not publish it");
        collaborate(&harness, closed, "read", "eve").await;
        assert!(!allowed(closed, secret, eve).await, "others read the base");
        assert!(allowed(closed, closed, eve).await && allowed(closed, fork, eve).await);
        db.execute("UPDATE collaborators SET permission = 'write' WHERE repository_id = $1", &args![secret])
            .await
            .unwrap();
        assert!(allowed(open, secret, eve).await && allowed(closed, secret, eve).await);
        for (base, head, user) in
            [(open, 999, eve), (999, open, eve), (open, 0, eve), (open, open, 999), (open, open, 0)]
        {
            assert!(!allowed(base, head, user).await, "{base} {head} {user}");
        }
        db.execute("UPDATE users SET is_active = $2 WHERE id = $1", &args![eve, false]).await.unwrap();
        assert!(!allowed(open, fork, eve).await);
    })
    .await;
}

#[tokio::test]
async fn members_do_not_publish_what_their_organization_hides() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, _) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let acme = create_organization(&harness, &ada, "acme").await.id;
        set_member(&harness, &ada, "acme", "bob", MembershipRole::Member).await.unwrap();
        let db = harness.db().await;
        let bob = db.one::<(i64,)>("SELECT id FROM users WHERE name_key = 'bob'", &[]).await.unwrap().0;
        let open = harness.create(&ada, "open", false).await.unwrap().id;
        let closed = harness.create(&ada, "closed", true).await.unwrap().id;
        collaborate(&harness, closed, "read", "bob").await;
        let mut of_acme = Vec::new();
        for name in ["one", "two"] {
            let request = CreateRepositoryRequest { name: name.into(), owner: "acme".into(), ..Default::default() };
            let made = harness.repository().create_repository(with_token(request, &ada)).await.unwrap();
            of_acme.push(made.into_inner().repository.unwrap().id);
        }
        let &[one, two] = of_acme.as_slice() else { panic!("two were made") };
        // Into a public and a private repository of others, and into one of the organization.
        for (visibility, expected) in [(0, [true; 3]), (1, [false, true, true]), (2, [false, false, true])] {
            let sql = "UPDATE users SET visibility = $2 WHERE id = $1";
            db.execute(sql, &args![acme, visibility]).await.unwrap();
            for (base, expected) in [open, closed, two].into_iter().zip(expected) {
                let allowed = check(&harness, base, one, bob).await.is_allowed;
                assert_eq!(allowed, expected, "{visibility} {base}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_base_is_described_with_what_it_takes() {
    on_each_url(async |url| {
        let harness = Harness::start_on_with(url, &["--owner-bytes", "1000"]).await;
        let ada = harness.signed_in("ada").await;
        let id = harness.create(&ada, "demo", false).await.unwrap().id;
        let update = RefsUpdated { number: 1, size_bytes: 900, ..RefsUpdated::default() };
        harness.deliver(vec![outbox::event(RepositoryId(id), 0, Fact::RefsUpdated(update))]).await.unwrap();
        let described = |response: CheckPullSourceResponse| {
            (response.is_allowed, response.store, response.accepts_pulls, response.left_bytes)
        };
        let (store, left) = ("default".to_owned(), Some(100));
        assert_eq!(described(check(&harness, id, id, 999).await), (false, store.clone(), true, left));
        let off = PullSettingsChange { has_pulls: Some(false), ..PullSettingsChange::default() };
        set(&harness, &ada, off).await.unwrap();
        assert_eq!(described(check(&harness, id, id, 999).await), (false, store.clone(), false, left));
        let on = PullSettingsChange { has_pulls: Some(true), ..PullSettingsChange::default() };
        set(&harness, &ada, on).await.unwrap();
        let archive = "UPDATE repositories SET is_archived = $2 WHERE id = $1";
        harness.db().await.execute(archive, &args![id, true]).await.unwrap();
        assert_eq!(described(check(&harness, id, id, 999).await), (false, store, false, left));
        assert_eq!(check(&harness, 999, id, 1).await, CheckPullSourceResponse::default());
    })
    .await;
}

async fn check(harness: &Harness, base: i64, head: i64, user: i64) -> CheckPullSourceResponse {
    let request = CheckPullSourceRequest { repository_id: base, head_repository_id: head, user_id: user };
    let mut client = AccessServiceClient::new(harness.channel_of(ServiceRole::IssueSvc));
    client.check_pull_source(request).await.unwrap().into_inner()
}
