use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::error::violations;
use ferrite_proto::events::RepositoryAction;
use ferrite_proto::repo::transfer_service_client::TransferServiceClient;
use ferrite_proto::repo::{
    AcceptTransferRequest, CancelTransferRequest, GetTransferRequest, ListTransfersRequest, MembershipRole,
    RejectTransferRequest, Repository, StartTransferRequest, StartTransferResponse, Transfer,
};
use ferrite_rpc::grpc::Channel;
use tonic::{Code, Status};

use super::organizations::{create as create_organization, set as set_member};
use super::repository_settings::{get, log, moved_to, told};
use super::{by_name, refusal, refused};
use crate::background::TransferSweeper;
use crate::testing::{Harness, with_token};

fn client(harness: &Harness) -> TransferServiceClient<Channel> {
    TransferServiceClient::new(harness.service.clone())
}

async fn start(harness: &Harness, token: &str, name: &str, to: &str) -> Result<StartTransferResponse, Status> {
    let request = StartTransferRequest { repository: by_name("ada", name), new_owner: to.to_owned() };
    Ok(client(harness).start_transfer(with_token(request, token)).await?.into_inner())
}

async fn cancel(harness: &Harness, token: &str, name: &str) -> Result<(), Status> {
    let request = CancelTransferRequest { repository: by_name("ada", name) };
    client(harness).cancel_transfer(with_token(request, token)).await.map(drop)
}

async fn pending(harness: &Harness, token: &str, name: &str) -> Result<Transfer, Status> {
    let request = GetTransferRequest { repository: by_name("ada", name) };
    Ok(client(harness).get_transfer(with_token(request, token)).await?.into_inner().transfer.unwrap())
}

async fn accept(harness: &Harness, token: &str, name: &str) -> Result<Repository, Status> {
    let request = AcceptTransferRequest { repository: by_name("ada", name) };
    Ok(client(harness).accept_transfer(with_token(request, token)).await?.into_inner().repository.unwrap())
}

async fn reject(harness: &Harness, token: &str, name: &str) -> Result<Option<Repository>, Status> {
    let request = RejectTransferRequest { repository: by_name("ada", name) };
    Ok(client(harness).reject_transfer(with_token(request, token)).await?.into_inner().repository)
}

fn owner(repository: &Repository) -> &str {
    &repository.owner.as_ref().unwrap().username
}

#[tokio::test]
async fn a_caller_who_administers_both_sides_transfers_at_once() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, _) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        create_organization(&harness, &ada, "acme").await;
        let id = harness.create(&ada, "demo", true).await.unwrap().id;
        let db = harness.db().await;
        let add = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
             SELECT $1, id, 'write', 0 FROM users WHERE name_key = $2";
        db.execute(add, &args![id, "bob"]).await.unwrap();

        let response = start(&harness, &ada, "demo", "ACME").await.unwrap();
        assert!(!response.is_pending);
        assert_eq!(owner(response.repository.as_ref().unwrap()), "acme");
        assert_eq!(moved_to(get(&harness, &ada, "ada", "demo").await), "acme/demo");
        // Team rows belong to the organization's teams.
        let team = "INSERT INTO teams (organization_id, name, name_key, description, level, created_us) \
             SELECT id, 'T', 't', '', 1, 0 FROM users WHERE name_key = 'acme'";
        db.execute(team, &[]).await.unwrap();
        let hold = "INSERT INTO team_repositories (team_id, repository_id, created_us) \
             SELECT id, $1, 0 FROM teams WHERE name_key = 't'";
        assert_eq!(db.execute(hold, &args![id]).await.unwrap(), 1);
        let request = StartTransferRequest { repository: by_name("acme", "demo"), new_owner: "bob".to_owned() };
        let response = client(&harness).start_transfer(with_token(request, &root)).await.unwrap().into_inner();
        assert_eq!((response.is_pending, owner(&response.repository.unwrap())), (false, "bob"));
        for table in ["collaborators", "team_repositories", "repository_transfers"] {
            let sql = match table {
                "collaborators" => "SELECT COUNT(*) FROM collaborators",
                "team_repositories" => "SELECT COUNT(*) FROM team_repositories",
                _ => "SELECT COUNT(*) FROM repository_transfers",
            };
            let (count,): (i64,) = db.one(sql, &[]).await.unwrap();
            assert_eq!(count, 0, "{table}");
        }
        // The former owner lost it, and both former names are hidden from the former owner.
        for name in ["ada", "acme", "bob"] {
            let outcome = get(&harness, &ada, name, "demo").await;
            assert_eq!(refusal(outcome), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"), "{name}");
        }
        // One each for issue-svc and hook-svc.
        let facts = told(&harness, 4).await;
        assert!(facts.iter().all(|fact| fact.action() == RepositoryAction::Transferred));
        let mut ends: Vec<_> = facts.iter().map(|fact| fact.old_owner.as_ref().unwrap().username.as_str()).collect();
        ends.sort_unstable();
        assert_eq!(ends, ["acme", "acme", "ada", "ada"]);
        let recorded =
            ["ada acme/demo {\"from\":\"ada\",\"to\":\"acme\"}", "root bob/demo {\"from\":\"acme\",\"to\":\"bob\"}"];
        assert_eq!(log(&harness, "repository.transfer").await, recorded);
    })
    .await;
}

#[tokio::test]
async fn a_transfer_to_others_waits_and_only_its_receiver_ends_it() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let [ada, bob, eve] =
            [harness.signed_in("ada").await, harness.signed_in("bob").await, harness.signed_in("eve").await];
        harness.create(&ada, "demo", true).await.unwrap();
        let missing = || refused(Code::NotFound, "REPOSITORY_NOT_FOUND");
        let none = || refused(Code::NotFound, "TRANSFER_NOT_FOUND");
        assert_eq!(refusal(pending(&harness, &ada, "demo").await), none());
        assert_eq!(refusal(accept(&harness, &bob, "demo").await), missing());

        let response = start(&harness, &ada, "demo", "bob").await.unwrap();
        assert_eq!((response.is_pending, owner(&response.repository.unwrap())), (true, "ada"));
        let again = refusal(start(&harness, &ada, "demo", "eve").await);
        assert_eq!(again, refused(Code::FailedPrecondition, "TRANSFER_PENDING"));
        for token in [&ada, &bob] {
            let transfer = pending(&harness, token, "demo").await.unwrap();
            assert_eq!(
                (transfer.user.unwrap().username, transfer.new_owner.unwrap().username),
                ("ada".into(), "bob".into())
            );
            assert_eq!(transfer.repository.unwrap().name, "demo");
        }
        // The receiver sees the transfer and nothing else; others see nothing.
        assert_eq!(refusal(get(&harness, &bob, "ada", "demo").await), missing());
        for outcome in [accept(&harness, &eve, "demo").await.map(drop), reject(&harness, &eve, "demo").await.map(drop)]
        {
            assert_eq!(refusal(outcome), missing());
        }
        let by_owner = refusal(accept(&harness, &ada, "demo").await);
        assert_eq!(by_owner, refused(Code::PermissionDenied, "TRANSFER_RECEIVER_REQUIRED"));
        assert_eq!(reject(&harness, &bob, "demo").await.unwrap(), None);
        assert_eq!(refusal(accept(&harness, &bob, "demo").await), missing());

        start(&harness, &ada, "demo", "bob").await.unwrap();
        cancel(&harness, &ada, "demo").await.unwrap();
        assert_eq!(refusal(cancel(&harness, &ada, "demo").await), none());
        start(&harness, &ada, "demo", "bob").await.unwrap();
        let accepted = accept(&harness, &bob, "demo").await.unwrap();
        assert_eq!(owner(&accepted), "bob");
        assert_eq!(get(&harness, &bob, "bob", "demo").await.unwrap(), accepted);
        assert_eq!(moved_to(get(&harness, &bob, "ada", "demo").await), "bob/demo");
        for (action, count) in [("transfer.start", 3), ("transfer.reject", 1), ("transfer.cancel", 1)] {
            assert_eq!(log(&harness, action).await.len(), count, "{action}");
        }
        assert_eq!(log(&harness, "repository.transfer").await, ["bob bob/demo {\"from\":\"ada\",\"to\":\"bob\"}"]);
    })
    .await;
}

#[tokio::test]
async fn names_and_limits_of_the_new_owner_count_when_it_becomes_the_owner() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        for name in ["demo", "other"] {
            harness.create(&ada, name, false).await.unwrap();
        }
        for (to, code) in [("", "required"), ("nobody", "unknown"), ("a b", "unknown"), ("ada", "invalid")] {
            let status = start(&harness, &ada, "demo", to).await.unwrap_err();
            let found = violations(&status);
            assert_eq!((found[0].0.as_str(), found[0].1.as_str()), ("new_owner", code), "{to}");
        }
        harness.create(&bob, "DEMO", false).await.unwrap();
        let taken = || refused(Code::AlreadyExists, "REPOSITORY_ALREADY_EXISTS");
        assert_eq!(refusal(start(&harness, &ada, "demo", "bob").await), taken());
        start(&harness, &ada, "other", "bob").await.unwrap();
        harness.create(&bob, "other", false).await.unwrap();
        assert_eq!(refusal(accept(&harness, &bob, "other").await), taken());
        let db = harness.db().await;
        db.execute("UPDATE users SET repository_limit = 2 WHERE name_key = 'bob'", &[]).await.unwrap();
        let limit = refusal(accept(&harness, &bob, "other").await);
        assert_eq!(limit, refused(Code::FailedPrecondition, "REPOSITORY_LIMIT_REACHED"));
        // Unchanged.
        assert_eq!(owner(&get(&harness, &ada, "ada", "other").await.unwrap()), "ada");
        assert!(pending(&harness, &bob, "other").await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn of_a_withdrawal_and_an_acceptance_at_once_one_wins() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        for number in 0..8 {
            let name = format!("n{number}");
            harness.create(&ada, &name, false).await.unwrap();
            start(&harness, &ada, &name, "bob").await.unwrap();
            let (cancelled, accepted) = tokio::join!(cancel(&harness, &ada, &name), accept(&harness, &bob, &name));
            assert_ne!(cancelled.is_ok(), accepted.is_ok(), "{cancelled:?} {accepted:?}");
            let now = if accepted.is_ok() { "bob" } else { "ada" };
            assert_eq!(owner(&get(&harness, &ada, now, &name).await.unwrap()), now);
        }
    })
    .await;
}

/// The repositories of the caller's transfers with their new owners. Checks the total.
async fn list(harness: &Harness, token: &str) -> Vec<(String, String)> {
    let request = ListTransfersRequest { page: 1, page_size: 100 };
    let response = client(harness).list_transfers(with_token(request, token)).await.unwrap().into_inner();
    assert_eq!(response.total_count, i64::try_from(response.transfers.len()).unwrap());
    let names = response.transfers.into_iter().map(|one| {
        let repository = one.repository.unwrap();
        (format!("{}/{}", owner(&repository), repository.name), one.new_owner.unwrap().username)
    });
    names.collect()
}

fn listed(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(of, to)| ((*of).to_owned(), (*to).to_owned())).collect()
}

#[tokio::test]
async fn owners_and_receivers_list_the_transfers_that_wait() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let [ada, bob, eve] =
            [harness.signed_in("ada").await, harness.signed_in("bob").await, harness.signed_in("eve").await];
        create_organization(&harness, &bob, "acme").await;
        set_member(&harness, &bob, "acme", "eve", MembershipRole::Member).await.unwrap();
        let mut ids = Vec::new();
        for (name, to) in [("one", "bob"), ("two", "acme"), ("three", "eve")] {
            ids.push(harness.create(&ada, name, true).await.unwrap().id);
            start(&harness, &ada, name, to).await.unwrap();
        }
        let (one, two, three) = (("ada/one", "bob"), ("ada/two", "acme"), ("ada/three", "eve"));
        assert_eq!(list(&harness, &ada).await, listed(&[one, two, three]));
        assert_eq!(list(&harness, &bob).await, listed(&[one, two]));
        assert_eq!(list(&harness, &eve).await, listed(&[three]), "a member who is no owner does not see those of acme");
        let request = ListTransfersRequest { page: 2, page_size: 1 };
        let response = client(&harness).list_transfers(with_token(request, &ada)).await.unwrap().into_inner();
        let shown = &response.transfers[0];
        assert_eq!((response.total_count, shown.repository.as_ref().unwrap().id), (3, ids[1]));
        let (begin, end) = (shown.create_time.unwrap().seconds, shown.expire_time.unwrap().seconds);
        assert_eq!(end - begin, 7 * 24 * 3600);
        // A token limited to repositories only lists their transfers.
        let limit = "UPDATE access_tokens SET repository_ids = $1 WHERE user_id = (SELECT id FROM users WHERE name_key = 'ada')";
        harness.db().await.execute(limit, &args![ids[2].to_string()]).await.unwrap();
        assert_eq!(list(&harness, &harness.token("ada", "again").await).await.len(), 3);
        assert_eq!(list(&harness, &ada).await, listed(&[three]));
        let anonymous = client(&harness).list_transfers(ListTransfersRequest { page: 1, page_size: 1 }).await;
        assert_eq!(refusal(anonymous), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    })
    .await;
}

#[tokio::test]
async fn a_repeated_rejection_shows_what_the_caller_still_sees() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let id = harness.create(&ada, "demo", true).await.unwrap().id;
        let db = harness.db().await;
        let add = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
             SELECT $1, id, 'read', 0 FROM users WHERE name_key = $2";
        db.execute(add, &args![id, "bob"]).await.unwrap();
        start(&harness, &ada, "demo", "bob").await.unwrap();
        let reject = async || {
            let request = RejectTransferRequest { repository: by_name("ada", "demo") };
            let mut request = with_token(request, &bob);
            request.metadata_mut().insert("idempotency-key", "k".parse().unwrap());
            client(&harness).reject_transfer(request).await.unwrap().into_inner().repository
        };
        assert!(reject().await.is_some() && reject().await.is_some());
        db.execute("DELETE FROM collaborators", &[]).await.unwrap();
        assert_eq!(reject().await, None);
    })
    .await;
}

#[tokio::test]
async fn a_transfer_ends_after_a_week() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        harness.create(&ada, "demo", true).await.unwrap();
        let db = harness.db().await;
        let age = async |days: i64| {
            let sql = "UPDATE repository_transfers SET created_us = created_us - $1";
            assert_eq!(db.execute(sql, &args![days * 24 * 3600 * 1_000_000 - 60_000_000]).await.unwrap(), 1);
        };
        start(&harness, &ada, "demo", "bob").await.unwrap();
        age(7).await;
        assert!(pending(&harness, &bob, "demo").await.is_ok());
        age(1).await;
        let none = || refused(Code::NotFound, "TRANSFER_NOT_FOUND");
        assert_eq!(refusal(pending(&harness, &ada, "demo").await), none());
        assert_eq!(refusal(cancel(&harness, &ada, "demo").await), none());
        assert_eq!(refusal(accept(&harness, &bob, "demo").await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
        assert_eq!(list(&harness, &ada).await, []);
        // A new transfer can start before the sweeper runs.
        start(&harness, &ada, "demo", "bob").await.unwrap();
        let state = harness.state().await;
        let sweeper = TransferSweeper::new(state.transfers.clone(), state.clock.clone());
        let count = async || db.one::<(i64,)>("SELECT COUNT(*) FROM repository_transfers", &[]).await.unwrap().0;
        sweeper.sweep().await.unwrap();
        assert_eq!(count().await, 1);
        let expired = " ada/demo {\"reason\":\"expired\"}";
        assert_eq!(log(&harness, "transfer.cancel").await, [expired]);
        age(8).await;
        sweeper.sweep().await.unwrap();
        assert_eq!(count().await, 0);
        sweeper.sweep().await.unwrap();
        assert_eq!(log(&harness, "transfer.cancel").await, [expired; 2]);
    })
    .await;
}

#[tokio::test]
async fn a_user_starts_a_bounded_number_of_transfers() {
    on_each_url(async |url| {
        let harness = Harness::start_on_with(url, &["--transfers-waiting=2"]).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        for name in ["one", "two", "three"] {
            harness.create(&ada, name, true).await.unwrap();
        }
        start(&harness, &ada, "one", "bob").await.unwrap();
        start(&harness, &ada, "two", "bob").await.unwrap();
        let limit = refused(Code::FailedPrecondition, "TRANSFER_LIMIT_REACHED");
        assert_eq!(refusal(start(&harness, &ada, "three", "bob").await), limit);
        accept(&harness, &bob, "one").await.unwrap();
        start(&harness, &ada, "three", "bob").await.unwrap();
    })
    .await;
}
