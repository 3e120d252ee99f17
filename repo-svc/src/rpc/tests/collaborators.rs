use ferrite_kit::grpc::Channel;
use ferrite_proto::error::violations;
use ferrite_proto::repo::collaborator_service_client::CollaboratorServiceClient;
use ferrite_proto::repo::{
    Collaborator, GetCollaboratorRequest, GetRepositoryRequest, ListCollaboratorsRequest, Permission,
    RemoveCollaboratorRequest, RepositoryRef, SetCollaboratorRequest, repository_ref,
};
use tonic::{Code, Status};

use super::{refusal, refused};
use crate::testing::{Harness, with_token};

/// One repository, as one caller after another sees it.
struct Site {
    harness: Harness,
    repository: i64,
}

impl Site {
    fn client(&self) -> CollaboratorServiceClient<Channel> {
        CollaboratorServiceClient::new(self.harness.service.clone())
    }

    fn demo(&self) -> Option<RepositoryRef> {
        Some(RepositoryRef { by: Some(repository_ref::By::Id(self.repository)) })
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
        let answer = self.client().get_collaborator(with_token(request, token)).await?;
        Ok(answer.into_inner().collaborator.unwrap())
    }

    async fn remove(&self, token: &str, username: &str) -> Result<(), Status> {
        let request = RemoveCollaboratorRequest { repository: self.demo(), username: username.into() };
        self.client().remove_collaborator(with_token(request, token)).await.map(drop)
    }

    async fn list(&self, token: &str, page: i32, page_size: i32) -> Result<(Vec<String>, i64), Status> {
        let request = ListCollaboratorsRequest { repository: self.demo(), page, page_size };
        let answer = self.client().list_collaborators(with_token(request, token)).await?.into_inner();
        let names = answer.collaborators.into_iter().map(|collaborator| collaborator.user.unwrap().username).collect();
        Ok((names, answer.total_count))
    }

    async fn level(&self, token: &str) -> Result<Permission, Status> {
        let request = GetRepositoryRequest { repository: self.demo() };
        let answer = self.harness.repository().get_repository(with_token(request, token)).await?;
        Ok(answer.into_inner().repository.unwrap().permission())
    }

    async fn audit(&self) -> Vec<(String, String, String)> {
        let sql = "SELECT action, target, details FROM audit_log WHERE action LIKE 'collaborator.%' ORDER BY id";
        self.harness.db().await.all(sql, &[]).await.unwrap()
    }
}

/// A private repository of ada's.
async fn site() -> (Site, String) {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let repository = harness.create(&ada, "demo", true).await.unwrap().id;
    (Site { harness, repository }, ada)
}

fn fields<T: std::fmt::Debug>(outcome: Result<T, Status>) -> Vec<String> {
    let status = outcome.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    violations(&status).into_iter().map(|(field, ..)| field).collect()
}

#[tokio::test]
async fn a_collaborator_is_let_in_changed_and_put_out_again() {
    let (site, ada) = site().await;
    let bob = site.harness.signed_in("bob").await;
    assert_eq!(refusal(site.level(&bob).await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    site.set(&ada, "BOB", None).await.unwrap();
    assert_eq!(site.level(&bob).await.unwrap(), Permission::Write);
    for (word, level) in [("read", Permission::Read), ("admin", Permission::Admin), ("write", Permission::Write)] {
        site.set(&ada, "bob", Some(word)).await.unwrap();
        assert_eq!(site.level(&bob).await.unwrap(), level);
        site.set(&ada, "bob", None).await.unwrap();
        assert_eq!(site.level(&bob).await.unwrap(), level, "a level is kept when none is named");
    }
    let got = site.get(&ada, "Bob").await.unwrap();
    let user = got.user.clone().unwrap();
    assert_eq!(
        (got.permission(), user.username.as_str(), user.email.as_str()),
        (Permission::Write, "bob", "bob@example.com")
    );
    site.remove(&ada, "bob").await.unwrap();
    assert_eq!(refusal(site.level(&bob).await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    let entry = |action: &str, details: &str| (action.to_owned(), "ada/demo".to_owned(), details.to_owned());
    let expected = [
        entry("collaborator.set", r#"{"permission":"write","user":"bob"}"#),
        entry("collaborator.set", r#"{"permission":"read","user":"bob"}"#),
        entry("collaborator.set", r#"{"permission":"admin","user":"bob"}"#),
        entry("collaborator.set", r#"{"permission":"write","user":"bob"}"#),
        entry("collaborator.remove", r#"{"user":"bob"}"#),
    ];
    assert_eq!(site.audit().await, expected, "what changes nothing is not told");
}

#[tokio::test]
async fn who_is_no_collaborator_is_told_from_who_is_nobody() {
    let (site, ada) = site().await;
    site.harness.user("bob", false).await;
    let missing = || refused(Code::NotFound, "COLLABORATOR_NOT_FOUND");
    assert_eq!(refusal(site.get(&ada, "bob").await), missing());
    assert_eq!(refusal(site.get(&ada, "ada").await), missing());
    for nobody in ["nobody", "", "../x", "a\0b"] {
        assert_eq!(fields(site.get(&ada, nobody).await), ["collaborator"], "{nobody:?}");
        assert_eq!(refusal(site.remove(&ada, nobody).await), missing(), "{nobody:?}");
    }
    assert_eq!(refusal(site.remove(&ada, "bob").await), missing());
    assert_eq!(refusal(site.remove(&ada, "ada").await), missing());
    assert!(site.audit().await.is_empty());
}

#[tokio::test]
async fn only_users_are_added_and_only_with_levels_that_there_are() {
    let (site, ada) = site().await;
    site.harness.user("bob", false).await;
    let db = site.harness.db().await;
    let sql = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
         VALUES ('organization', 'guild', 'guild', '', '', 0, 1, 0)";
    db.execute(sql, &[]).await.unwrap();
    for name in ["nobody", "", "guild", "ada", "ADA"] {
        assert_eq!(fields(site.set(&ada, name, Some("read")).await), ["collaborator"], "{name:?}");
    }
    for word in ["", "READ", "owner", "none", "push", " read"] {
        assert_eq!(fields(site.set(&ada, "bob", Some(word)).await), ["permission"], "{word:?}");
    }
    assert_eq!(fields(site.set(&ada, "nobody", Some("owner")).await), ["collaborator", "permission"]);
    assert_eq!(site.list(&ada, 1, 100).await.unwrap(), (vec![], 0));
    assert!(site.audit().await.is_empty());
}

#[tokio::test]
async fn administrators_of_the_repository_only() {
    let (site, ada) = site().await;
    let (bob, eve) = (site.harness.signed_in("bob").await, site.harness.signed_in("eve").await);
    site.set(&ada, "bob", Some("write")).await.unwrap();
    let hidden = || refused(Code::NotFound, "REPOSITORY_NOT_FOUND");
    let small = || refused(Code::PermissionDenied, "PERMISSION_REQUIRED");
    for (token, answer) in [(&eve, hidden()), (&bob, small())] {
        // Access comes before what is wrong with the request, and before who there is.
        assert_eq!(refusal(site.set(token, "nobody", Some("x")).await), answer);
        assert_eq!(refusal(site.get(token, "nobody").await), answer);
        assert_eq!(refusal(site.remove(token, "nobody").await), answer);
        assert_eq!(refusal(site.list(token, 1, 100).await), answer);
    }
    assert_eq!(refusal(site.list("", 1, 100).await), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    assert_eq!(refusal(site.remove(&bob, "bob").await), small());

    site.set(&ada, "bob", Some("admin")).await.unwrap();
    site.set(&bob, "eve", Some("admin")).await.unwrap();
    assert_eq!(site.level(&eve).await.unwrap(), Permission::Admin);
    assert_eq!(fields(site.set(&bob, "ada", Some("read")).await), ["collaborator"]);
    site.set(&eve, "bob", Some("read")).await.unwrap();
    assert_eq!(site.level(&bob).await.unwrap(), Permission::Read);
    site.set(&eve, "eve", Some("read")).await.unwrap();
    assert_eq!(refusal(site.set(&eve, "eve", Some("admin")).await), small());
}

#[tokio::test]
async fn pages_are_by_the_users_id() {
    let (site, ada) = site().await;
    for name in ["carl", "bob", "dora"] {
        site.harness.user(name, false).await;
    }
    for name in ["dora", "bob", "carl"] {
        site.set(&ada, name, Some("read")).await.unwrap();
    }
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(site.list(&ada, 1, 2).await.unwrap(), (names(&["carl", "bob"]), 3));
    assert_eq!(site.list(&ada, 2, 2).await.unwrap(), (names(&["dora"]), 3));
    assert_eq!(site.list(&ada, 9, 2).await.unwrap(), (names(&[]), 3));
    assert_eq!(site.list(&ada, 0, 0).await.unwrap(), (names(&["carl"]), 3));
}

#[tokio::test]
async fn the_same_key_is_one_change() {
    let (site, ada) = site().await;
    site.harness.user("bob", false).await;
    let keyed = |permission: &str| {
        let mut request = with_token(
            SetCollaboratorRequest {
                repository: site.demo(),
                username: "bob".into(),
                permission: Some(permission.to_owned()),
            },
            &ada,
        );
        request.metadata_mut().insert("idempotency-key", "k".parse().unwrap());
        request
    };
    site.client().set_collaborator(keyed("read")).await.unwrap();
    site.set(&ada, "bob", Some("admin")).await.unwrap();
    site.client().set_collaborator(keyed("read")).await.unwrap();
    assert_eq!(site.get(&ada, "bob").await.unwrap().permission(), Permission::Admin);
    let reused = refusal(site.client().set_collaborator(keyed("write")).await);
    assert_eq!(reused, refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
}
