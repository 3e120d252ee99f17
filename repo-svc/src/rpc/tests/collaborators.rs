use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::error::violations;
use ferrite_proto::repo::collaborator_service_client::CollaboratorServiceClient;
use ferrite_proto::repo::{
    Collaborator, GetCollaboratorPermissionRequest, GetCollaboratorRequest, GetRepositoryRequest,
    ListCollaboratorsRequest, Permission, RemoveCollaboratorRequest, RepositoryRef, SetCollaboratorRequest,
};
use ferrite_rpc::grpc::Channel;
use prost::Message;
use sha2::{Digest, Sha256};
use tonic::{Code, Status};

use super::{by_id, by_name, refusal, refused};
use crate::testing::{Harness, with_token};

struct Fixture {
    harness: Harness,
    repository: i64,
}

impl Fixture {
    fn client(&self) -> CollaboratorServiceClient<Channel> {
        CollaboratorServiceClient::new(self.harness.service.clone())
    }

    fn demo(&self) -> Option<RepositoryRef> {
        by_id(self.repository)
    }

    async fn set(&self, token: &str, username: &str, permission: Option<&str>) -> Result<(), Status> {
        let request = SetCollaboratorRequest {
            repository: self.demo(),
            username: username.into(),
            permission: permission.map(str::to_owned),
        };
        self.client().set_collaborator(with_token(request, token)).await.map(drop)
    }

    async fn get(&self, token: &str, username: &str) -> Result<Collaborator, Status> {
        let request = GetCollaboratorRequest { repository: self.demo(), username: username.into() };
        let response = self.client().get_collaborator(with_token(request, token)).await?;
        Ok(response.into_inner().collaborator.unwrap())
    }

    async fn permission(&self, token: &str, username: &str) -> Result<Permission, Status> {
        let request = GetCollaboratorPermissionRequest { repository: self.demo(), username: username.into() };
        let response = self.client().get_collaborator_permission(with_token(request, token)).await?.into_inner();
        assert!(response.user.as_ref().unwrap().username.eq_ignore_ascii_case(username));
        Ok(response.permission())
    }

    async fn remove(&self, token: &str, username: &str) -> Result<(), Status> {
        let request = RemoveCollaboratorRequest { repository: self.demo(), username: username.into() };
        self.client().remove_collaborator(with_token(request, token)).await.map(drop)
    }

    async fn list(&self, token: &str, page: i32, page_size: i32) -> Result<(Vec<String>, i64), Status> {
        let request = ListCollaboratorsRequest { repository: self.demo(), page, page_size };
        let response = self.client().list_collaborators(with_token(request, token)).await?.into_inner();
        let names =
            response.collaborators.into_iter().map(|collaborator| collaborator.user.unwrap().username).collect();
        Ok((names, response.total_count))
    }

    async fn level(&self, token: &str) -> Result<Permission, Status> {
        let request = GetRepositoryRequest { repository: self.demo() };
        let response = self.harness.repository().get_repository(with_token(request, token)).await?;
        Ok(response.into_inner().repository.unwrap().permission())
    }

    async fn audit(&self) -> Vec<(String, String, String)> {
        let sql = "SELECT action, target, details FROM audit_log WHERE action LIKE 'collaborator.%' ORDER BY id";
        self.harness.db().await.all(sql, &[]).await.unwrap()
    }
}

async fn fixture() -> (Fixture, String) {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let repository = harness.create(&ada, "demo", true).await.unwrap().id;
    (Fixture { harness, repository }, ada)
}

fn fields<T: std::fmt::Debug>(outcome: Result<T, Status>) -> Vec<String> {
    let status = outcome.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    violations(&status).into_iter().map(|(field, ..)| field).collect()
}

#[tokio::test]
async fn a_collaborator_is_added_changed_and_removed() {
    let (fixture, ada) = fixture().await;
    let bob = fixture.harness.signed_in("bob").await;
    assert_eq!(refusal(fixture.level(&bob).await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    fixture.set(&ada, "BOB", None).await.unwrap();
    assert_eq!(fixture.level(&bob).await.unwrap(), Permission::Write);
    for (word, level) in [("read", Permission::Read), ("admin", Permission::Admin), ("write", Permission::Write)] {
        fixture.set(&ada, "bob", Some(word)).await.unwrap();
        assert_eq!(fixture.level(&bob).await.unwrap(), level);
        fixture.set(&ada, "bob", None).await.unwrap();
        assert_eq!(fixture.level(&bob).await.unwrap(), level, "a level is kept when none is named");
    }
    let got = fixture.get(&ada, "Bob").await.unwrap();
    let user = got.user.clone().unwrap();
    assert_eq!(
        (got.permission(), user.username.as_str(), user.email.as_str()),
        (Permission::Write, "bob", "bob@example.com")
    );
    fixture.remove(&ada, "bob").await.unwrap();
    assert_eq!(refusal(fixture.level(&bob).await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    let entry = |action: &str, details: &str| (action.to_owned(), "ada/demo".to_owned(), details.to_owned());
    let expected = [
        entry("collaborator.set", r#"{"permission":"write","user":"bob"}"#),
        entry("collaborator.set", r#"{"permission":"read","user":"bob"}"#),
        entry("collaborator.set", r#"{"permission":"admin","user":"bob"}"#),
        entry("collaborator.set", r#"{"permission":"write","user":"bob"}"#),
        entry("collaborator.remove", r#"{"user":"bob"}"#),
    ];
    assert_eq!(fixture.audit().await, expected, "a request that changes nothing is not logged");
}

#[tokio::test]
async fn a_user_who_is_no_collaborator_differs_from_an_unknown_user() {
    let (fixture, ada) = fixture().await;
    fixture.harness.user("bob", false).await;
    let missing = || refused(Code::NotFound, "COLLABORATOR_NOT_FOUND");
    assert_eq!(refusal(fixture.get(&ada, "bob").await), missing());
    assert_eq!(refusal(fixture.get(&ada, "ada").await), missing());
    for unknown in ["unknown", "", "../x", "a\0b"] {
        assert_eq!(fields(fixture.get(&ada, unknown).await), ["collaborator"], "{unknown:?}");
        assert_eq!(refusal(fixture.remove(&ada, unknown).await), missing(), "{unknown:?}");
    }
    assert_eq!(refusal(fixture.remove(&ada, "bob").await), missing());
    assert_eq!(refusal(fixture.remove(&ada, "ada").await), missing());
    assert!(fixture.audit().await.is_empty());
}

#[tokio::test]
async fn only_users_are_added_and_only_with_existing_levels() {
    let (fixture, ada) = fixture().await;
    fixture.harness.user("bob", false).await;
    let db = fixture.harness.db().await;
    let sql = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
         VALUES ('organization', 'guild', 'guild', '', '', 0, 1, 0)";
    db.execute(sql, &[]).await.unwrap();
    for name in ["unknown", "", "guild", "ada", "ADA"] {
        assert_eq!(fields(fixture.set(&ada, name, Some("read")).await), ["collaborator"], "{name:?}");
    }
    for word in ["", "READ", "owner", "none", "push", " read"] {
        assert_eq!(fields(fixture.set(&ada, "bob", Some(word)).await), ["permission"], "{word:?}");
    }
    assert_eq!(fields(fixture.set(&ada, "unknown", Some("owner")).await), ["collaborator", "permission"]);
    assert_eq!(fixture.list(&ada, 1, 100).await.unwrap(), (vec![], 0));
    assert!(fixture.audit().await.is_empty());
}

#[tokio::test]
async fn only_administrators_of_the_repository_manage_collaborators() {
    let (fixture, ada) = fixture().await;
    let (bob, eve) = (fixture.harness.signed_in("bob").await, fixture.harness.signed_in("eve").await);
    fixture.set(&ada, "bob", Some("write")).await.unwrap();
    let hidden = || refused(Code::NotFound, "REPOSITORY_NOT_FOUND");
    let small = || refused(Code::PermissionDenied, "PERMISSION_REQUIRED");
    for (token, response) in [(&eve, hidden()), (&bob, small())] {
        // Access is checked before the fields of the request and before the user is looked up.
        assert_eq!(refusal(fixture.set(token, "unknown", Some("x")).await), response);
        assert_eq!(refusal(fixture.remove(token, "unknown").await), response);
    }
    // Those who read the repository see its collaborators.
    assert_eq!(fixture.list(&bob, 1, 100).await.unwrap().0, ["bob"]);
    fixture.get(&bob, "bob").await.unwrap();
    assert_eq!(refusal(fixture.list(&eve, 1, 100).await), hidden());
    assert_eq!(refusal(fixture.get(&eve, "bob").await), hidden());
    assert_eq!(refusal(fixture.list("", 1, 100).await), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    assert_eq!(refusal(fixture.remove(&bob, "bob").await), small());

    fixture.set(&ada, "bob", Some("admin")).await.unwrap();
    fixture.set(&bob, "eve", Some("admin")).await.unwrap();
    assert_eq!(fixture.level(&eve).await.unwrap(), Permission::Admin);
    assert_eq!(fields(fixture.set(&bob, "ada", Some("read")).await), ["collaborator"]);
    fixture.set(&eve, "bob", Some("read")).await.unwrap();
    assert_eq!(fixture.level(&bob).await.unwrap(), Permission::Read);
    fixture.set(&eve, "eve", Some("read")).await.unwrap();
    assert_eq!(refusal(fixture.set(&eve, "eve", Some("admin")).await), small());
}

#[tokio::test]
async fn the_permission_of_a_user_is_the_highest_of_all_roles() {
    let (fixture, ada) = fixture().await;
    let (bob, eve) = (fixture.harness.signed_in("bob").await, fixture.harness.signed_in("eve").await);
    fixture.harness.user("root", true).await;
    let root = fixture.harness.token("root", "test").await;
    fixture.set(&ada, "bob", Some("write")).await.unwrap();
    for (username, expected) in
        [("ADA", Permission::Owner), ("bob", Permission::Write), ("eve", Permission::None), ("root", Permission::None)]
    {
        assert_eq!(fixture.permission(&ada, username).await.unwrap(), expected, "{username}");
        assert_eq!(fixture.permission(&root, username).await.unwrap(), expected, "{username}");
    }
    assert_eq!(fixture.permission(&bob, "bob").await.unwrap(), Permission::Write);
    let unknown = refused(Code::NotFound, "USER_NOT_FOUND");
    let small = refused(Code::PermissionDenied, "PERMISSION_REQUIRED");
    assert_eq!(refusal(fixture.permission(&bob, "unknown").await), unknown, "looked up before the right");
    assert_eq!(refusal(fixture.permission(&bob, "ada").await), small);
    assert_eq!(refusal(fixture.permission(&eve, "eve").await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    let open = "UPDATE repositories SET is_private = 0";
    fixture.harness.db().await.execute(open, &[]).await.unwrap();
    assert_eq!(fixture.permission(&eve, "eve").await.unwrap(), Permission::Read);
}

#[tokio::test]
async fn pages_are_ordered_by_user_id() {
    let (fixture, ada) = fixture().await;
    for name in ["carl", "bob", "dora"] {
        fixture.harness.user(name, false).await;
    }
    for name in ["dora", "bob", "carl"] {
        fixture.set(&ada, name, Some("read")).await.unwrap();
    }
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(fixture.list(&ada, 1, 2).await.unwrap(), (names(&["carl", "bob"]), 3));
    assert_eq!(fixture.list(&ada, 2, 2).await.unwrap(), (names(&["dora"]), 3));
    assert_eq!(fixture.list(&ada, 9, 2).await.unwrap(), (names(&[]), 3));
    assert_eq!(fixture.list(&ada, 0, 0).await.unwrap(), (names(&["carl"]), 3));
}

#[tokio::test]
async fn the_same_idempotency_key_makes_one_change() {
    let (fixture, ada) = fixture().await;
    fixture.harness.user("bob", false).await;
    let keyed = |permission: &str| {
        let mut request = with_token(
            SetCollaboratorRequest {
                repository: fixture.demo(),
                username: "bob".into(),
                permission: Some(permission.to_owned()),
            },
            &ada,
        );
        request.metadata_mut().insert("idempotency-key", "k".parse().unwrap());
        request
    };
    fixture.client().set_collaborator(keyed("read")).await.unwrap();
    fixture.set(&ada, "bob", Some("admin")).await.unwrap();
    fixture.client().set_collaborator(keyed("read")).await.unwrap();
    assert_eq!(fixture.get(&ada, "bob").await.unwrap().permission(), Permission::Admin);
    let reused = refusal(fixture.client().set_collaborator(keyed("write")).await);
    assert_eq!(reused, refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_name_one_repository_in_different_ways_are_the_same() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        harness.user("bob", false).await;
        let demo = harness.create(&ada, "Demo", true).await.unwrap().id;
        let other = harness.create(&ada, "other", true).await.unwrap().id;
        let named = |repository: Option<RepositoryRef>| SetCollaboratorRequest {
            repository,
            username: "bob".into(),
            permission: Some("read".into()),
        };
        let set = async |repository: Option<RepositoryRef>, key: &str| {
            let mut request = with_token(named(repository), &ada);
            request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
            CollaboratorServiceClient::new(harness.service.clone()).set_collaborator(request).await
        };
        let forms = [by_name("ada", "Demo"), by_name("ADA", "dEMO"), by_id(demo)];
        for (number, first) in forms.iter().enumerate() {
            let key = format!("k{number}");
            set(first.clone(), &key).await.unwrap();
            for again in &forms {
                set(again.clone(), &key).await.unwrap_or_else(|status| panic!("{first:?} {again:?}: {status}"));
            }
            for repository in [by_id(other), by_name("ada", "other")] {
                let reused = refusal(set(repository, &key).await);
                assert_eq!(reused, refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
            }
        }
        // Hash as stored by versions that hashed the name.
        let stored = hex::encode(Sha256::digest(named(by_name("ada", "Demo")).encode_to_vec()));
        harness.db().await.execute("UPDATE idempotency SET request_hash = $1", &args![stored]).await.unwrap();
        for again in [by_name("ada", "Demo"), by_id(demo)] {
            set(again, "k0").await.unwrap();
        }
    })
    .await;
}
