//! Pending work of an account has no effect once the account loses the right to it. On both
//! databases.

use ferrite_core::testing::eventually;
use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_events as outbox;
use ferrite_proto::events::MigrationEnded;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::team_service_client::TeamServiceClient;
use ferrite_proto::repo::transfer_service_client::TransferServiceClient;
use ferrite_proto::repo::*;
use ferrite_rpc::grpc::Channel;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use super::organizations::{create as create_organization, remove, set};
use super::repository_settings::{get, log};
use super::{by_name, refusal, refused};
use crate::testing::{Harness, StoreMode, with_token};

/// How an owner of an organization loses the owner's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Removed,
    Demoted,
    LeftTeam,
    Disabled,
    /// By a change that does not end pending work, like one by an older version.
    InDatabase,
}

const LOSSES: [Loss; 5] = [Loss::Removed, Loss::Demoted, Loss::LeftTeam, Loss::Disabled, Loss::InDatabase];

/// An organization `acme` owned by Ada and Bob.
struct Site {
    harness: Harness,
    root: String,
    ada: String,
    bob: String,
    acme: i64,
}

impl Site {
    async fn start(url: ferrite_core::Secret) -> Self {
        let harness = Harness::start_on(url).await;
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let acme = create_organization(&harness, &ada, "acme").await.id;
        set(&harness, &ada, "acme", "bob", MembershipRole::Admin).await.unwrap();
        Self { harness, root, ada, bob, acme }
    }

    async fn create(&self, name: &str) -> Repository {
        let request =
            CreateRepositoryRequest { name: name.into(), owner: "acme".into(), is_private: true, ..Default::default() };
        let response = self.harness.repository().create_repository(with_token(request, &self.ada)).await.unwrap();
        response.into_inner().repository.unwrap()
    }

    async fn lose(&self, way: Loss) {
        let harness = &self.harness;
        match way {
            Loss::Removed => remove(harness, &self.ada, "acme", "bob").await.unwrap(),
            Loss::Demoted => set(harness, &self.ada, "acme", "bob", MembershipRole::Member).await.unwrap(),
            Loss::LeftTeam => {
                let owners = "SELECT id FROM teams WHERE level = 4";
                let (team_id,): (i64,) = harness.db().await.one(owners, &[]).await.unwrap();
                let request = RemoveTeamMemberRequest { team_id, username: "bob".into(), as_administrator: false };
                let mut teams = TeamServiceClient::new(harness.service.clone());
                teams.remove_team_member(with_token(request, &self.ada)).await.unwrap();
            }
            Loss::Disabled => self.set_bob(Some(false), None).await,
            Loss::InDatabase => {
                let sql = "DELETE FROM team_members WHERE user_id = (SELECT id FROM users WHERE name_key = 'bob')";
                assert_eq!(harness.db().await.execute(sql, &[]).await.unwrap(), 1);
            }
        }
    }

    async fn set_bob(&self, is_active: Option<bool>, is_admin: Option<bool>) {
        let request = UpdateUserRequest { username: "bob".into(), is_active, is_admin, ..Default::default() };
        self.harness.administration().update_user(with_token(request, &self.root)).await.unwrap();
    }

    fn transfers(&self) -> TransferServiceClient<Channel> {
        TransferServiceClient::new(self.harness.service.clone())
    }

    async fn start_transfer(&self, token: &str, of: (&str, &str), new_owner: &str) {
        let request = StartTransferRequest { repository: by_name(of.0, of.1), new_owner: new_owner.to_owned() };
        let response = self.transfers().start_transfer(with_token(request, token)).await.unwrap();
        assert!(response.into_inner().is_pending);
    }

    async fn accept(&self, token: &str, of: (&str, &str)) -> Result<Repository, Status> {
        let request = AcceptTransferRequest { repository: by_name(of.0, of.1) };
        let response = self.transfers().accept_transfer(with_token(request, token)).await?;
        Ok(response.into_inner().repository.unwrap())
    }

    async fn pending(&self, token: &str, of: (&str, &str)) -> Result<Transfer, Status> {
        let request = GetTransferRequest { repository: by_name(of.0, of.1) };
        Ok(self.transfers().get_transfer(with_token(request, token)).await?.into_inner().transfer.unwrap())
    }

    /// Starts an import to the organization as Bob. Returns the import and its repository.
    async fn import(&self, name: &str) -> (i64, RepositoryId) {
        let request = MigrateRepositoryRequest {
            clone_addr: "https://example.com/them/demo.git".into(),
            uid: self.acme,
            repo_name: name.into(),
            ..Default::default()
        };
        let response = self.harness.imports().migrate_repository(with_token(request, &self.bob)).await.unwrap();
        let repository = self.harness.import_requests().last().unwrap().repository_id;
        (response.into_inner().migration.unwrap().id, RepositoryId(repository))
    }

    /// Delivers the event that the import succeeded. Returns the import after that.
    async fn end(&self, (migration_id, repository): (i64, RepositoryId)) -> Migration {
        let end = MigrationEnded { size_bytes: 900, number: 3, ..MigrationEnded::default() };
        self.harness.deliver(vec![outbox::event(repository, 0, Fact::MigrationEnded(end))]).await.unwrap();
        let request = GetMigrationRequest { migration_id, wait_seconds: 0 };
        let response = self.harness.imports().get_migration(with_token(request, &self.root)).await.unwrap();
        response.into_inner().migration.unwrap()
    }
}

fn hidden() -> (Code, String) {
    refused(Code::NotFound, "REPOSITORY_NOT_FOUND")
}

#[tokio::test]
async fn a_transfer_ends_with_the_ownership_of_the_user_who_started_it() {
    on_each_url(async |url| {
        let site = Site::start(url).await;
        let eve = site.harness.signed_in("eve").await;
        site.create("secret").await;
        let secret = ("acme", "secret");
        for way in LOSSES {
            site.start_transfer(&site.bob, secret, "eve").await;
            site.lose(way).await;
            assert_eq!(refusal(site.accept(&eve, secret).await), hidden(), "{way:?}");
            let gone = refused(Code::NotFound, "TRANSFER_NOT_FOUND");
            assert_eq!(refusal(site.pending(&site.ada, secret).await), gone, "{way:?}");
            // It stays ended when Bob gets the right back.
            site.set_bob(Some(true), None).await;
            set(&site.harness, &site.ada, "acme", "bob", MembershipRole::Member).await.unwrap();
            set(&site.harness, &site.ada, "acme", "bob", MembershipRole::Admin).await.unwrap();
            if way != Loss::InDatabase {
                assert_eq!(refusal(site.accept(&eve, secret).await), hidden(), "{way:?}");
            }
        }
        get(&site.harness, &site.ada, "acme", "secret").await.unwrap();
        let ended: Vec<_> =
            log(&site.harness, "transfer.cancel").await.into_iter().map(|entry| entry.replace("root", "ada")).collect();
        assert_eq!(ended, vec!["ada acme/secret {\"reason\":\"starter lost ownership\"}"; 4]);
    })
    .await;
}

#[tokio::test]
async fn a_transfer_by_an_administrator_ends_with_that_role_and_with_the_account() {
    on_each_url(async |url| {
        let site = Site::start(url).await;
        let eve = site.harness.signed_in("eve").await;
        for name in ["one", "two"] {
            site.create(name).await;
        }
        for name in ["chief", "other"] {
            site.harness.user(name, true).await;
        }
        // Administrators no longer get pending transfers. These are from before they got that role.
        let sql = "INSERT INTO repository_transfers (repository_id, new_owner_id, user_id, created_us) \
             SELECT r.id, e.id, u.id, $3 FROM repositories r, users e, users u \
             WHERE r.name_key = $1 AND e.name_key = 'eve' AND u.name_key = $2";
        let (db, now) = (site.harness.db().await, ferrite_core::Clock::system().now_us());
        for (name, starter) in [("one", "chief"), ("two", "other")] {
            db.execute(sql, &args![name, starter, now]).await.unwrap();
            assert!(site.pending(&eve, ("acme", name)).await.is_ok(), "{name}");
        }
        let request = UpdateUserRequest { username: "chief".into(), is_admin: Some(false), ..Default::default() };
        site.harness.administration().update_user(with_token(request, &site.root)).await.unwrap();
        let request = DeleteUserRequest { username: "other".into() };
        site.harness.administration().delete_user(with_token(request, &site.root)).await.unwrap();
        for name in ["one", "two"] {
            assert_eq!(refusal(site.accept(&eve, ("acme", name)).await), hidden(), "{name}");
        }
        let ended = log(&site.harness, "transfer.cancel").await;
        let entry = |name| format!("root acme/{name} {{\"reason\":\"starter lost ownership\"}}");
        assert_eq!(ended, [entry("one"), entry("two")]);
    })
    .await;
}

#[tokio::test]
async fn a_transfer_of_a_fork_whose_starter_lost_the_parent_is_not_accepted() {
    on_each_url(async |url| {
        let site = Site::start(url).await;
        let eve = site.harness.signed_in("eve").await;
        let parent = site.harness.create(&site.ada, "parent", true).await.unwrap();
        let db = site.harness.db().await;
        let add = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
             SELECT $1, id, 'read', 0 FROM users WHERE name_key = 'bob'";
        db.execute(add, &args![parent.id]).await.unwrap();
        let request =
            ForkRepositoryRequest { repository: by_name("ada", "parent"), name: "fork".into(), ..Default::default() };
        site.harness.repository().fork_repository(with_token(request, &site.bob)).await.unwrap();
        site.start_transfer(&site.bob, ("bob", "fork"), "eve").await;
        db.execute("DELETE FROM collaborators", &[]).await.unwrap();
        let outcome = site.accept(&eve, ("bob", "fork")).await;
        assert_eq!(refusal(outcome), refused(Code::NotFound, "TRANSFER_NOT_FOUND"));
    })
    .await;
}

#[tokio::test]
async fn an_import_ends_with_the_right_to_create_for_its_owner() {
    on_each_url(async |url| {
        let site = Site::start(url).await;
        for (number, way) in LOSSES.into_iter().enumerate() {
            let name = format!("n{number}");
            let begun = site.import(&name).await;
            site.lose(way).await;
            let ended = site.end(begun).await;
            assert_eq!(ended.phase(), MigrationPhase::Failed, "{way:?}");
            assert!(ended.error.contains("can no longer create repositories"), "{way:?}: {}", ended.error);
            assert_eq!(refusal(get(&site.harness, &site.root, "acme", &name).await), hidden(), "{way:?}");
            site.create(&name).await;
            site.set_bob(Some(true), None).await;
            set(&site.harness, &site.ada, "acme", "bob", MembershipRole::Member).await.unwrap();
            set(&site.harness, &site.ada, "acme", "bob", MembershipRole::Admin).await.unwrap();
        }
        let whole = site.import("whole").await;
        assert_eq!(site.end(whole).await.phase(), MigrationPhase::Done);
    })
    .await;
}

#[tokio::test]
async fn a_fork_is_not_finished_for_an_organization_that_its_maker_owns_no_longer() {
    on_each_url(async |url| {
        let site = Site::start(url).await;
        site.harness.create(&site.ada, "demo", false).await.unwrap();
        let made = site.harness.stored();
        site.harness.set_store(StoreMode::Waits);
        let request = ForkRepositoryRequest {
            repository: by_name("ada", "demo"),
            organization: "acme".into(),
            ..Default::default()
        };
        let (mut client, token) = (site.harness.repository(), site.bob.clone());
        let mut fork = JoinSet::new();
        fork.spawn(async move { client.fork_repository(with_token(request, &token)).await });
        eventually("the store is asked for the copy", async || site.harness.create_requests().len() == 2).await;
        site.lose(Loss::Removed).await;
        site.harness.set_store(StoreMode::Works);
        let outcome = fork.join_next().await.unwrap().unwrap();
        assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED"));
        assert_eq!(refusal(get(&site.harness, &site.ada, "acme", "demo").await), hidden());
        assert_eq!(site.harness.stored(), made, "the copy is removed");
    })
    .await;
}

#[tokio::test]
async fn a_fork_is_not_finished_for_somebody_who_may_read_its_parent_no_longer() {
    on_each_url(async |url| {
        let site = Site::start(url).await;
        site.harness.create(&site.ada, "demo", false).await.unwrap();
        let made = site.harness.stored();
        site.harness.set_store(StoreMode::Waits);
        let request = ForkRepositoryRequest { repository: by_name("ada", "demo"), ..Default::default() };
        let (mut client, token) = (site.harness.repository(), site.bob.clone());
        let mut fork = JoinSet::new();
        fork.spawn(async move { client.fork_repository(with_token(request, &token)).await });
        eventually("the store is asked for the copy", async || site.harness.create_requests().len() == 2).await;
        site.harness.db().await.execute("UPDATE repositories SET is_private = TRUE", &[]).await.unwrap();
        site.harness.set_store(StoreMode::Works);
        assert_eq!(refusal(fork.join_next().await.unwrap().unwrap()), hidden());
        assert_eq!(refusal(get(&site.harness, &site.bob, "bob", "demo").await), hidden());
        assert_eq!(site.harness.stored(), made, "the copy is removed");
    })
    .await;
}
