//! Access: levels, scopes, grants, and that hidden looks like missing.

use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::grant::Subject;
use ferrite_proto::id::OrganizationId;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_proto::repo::{
    AuthenticateRequest, BasicCredential, CheckAccessRequest, CreateRepositoryRequest, DeleteAccessTokenRequest,
    GetRepositoryRequest, ResolveAccessRequest, ResolveAccessResponse,
};
use ferrite_proto::{Permission, operation};
use tonic::{Code, Status};

use super::organizations::create;
use super::{by_name, refusal, refused};
use crate::testing::{Harness, PASSWORD, basic, with_token};

async fn resolve(
    harness: &Harness,
    token: &str,
    credential: Option<BasicCredential>,
    owner: &str,
    name: &str,
) -> Result<ResolveAccessResponse, Status> {
    let request = ResolveAccessRequest {
        repository: by_name(owner, name),
        basic: credential,
        operation: operation::UPLOAD_PACK.to_owned(),
        ..ResolveAccessRequest::default()
    };
    Ok(harness.access().resolve_access(with_token(request, token)).await?.into_inner())
}

#[tokio::test]
async fn a_grant_names_user_repository_operation_and_level() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", true).await.unwrap();
    let response = resolve(&harness, &ada, None, "ADA", "Demo").await.unwrap();
    let (grant, expires) = harness.trust().verifier.verify(&response.grant).unwrap();
    let user = grant.user.clone().unwrap();
    assert_eq!((user.username.as_str(), user.email.as_str()), ("ada", "ada@example.com"));
    assert_eq!(
        (grant.repository, grant.permission, grant.store.as_str(), grant.epoch),
        (made.id, Permission::Owner, "default", 1)
    );
    assert!(grant.issues_enabled && !grant.is_mirror && expires > 0);
    assert_eq!(grant.organization_id(), None);
    assert_eq!(response.identity.unwrap().user_id, user.id);
    assert_eq!(response.repository.unwrap().permission(), ferrite_proto::repo::Permission::Owner);
}

#[tokio::test]
async fn a_grant_on_a_repository_of_an_organization_names_it() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let acme = create(&harness, &ada, "acme").await.id;
    let request = CreateRepositoryRequest { name: "demo".into(), owner: "acme".into(), ..Default::default() };
    harness.repository().create_repository(with_token(request, &ada)).await.unwrap();
    let response = resolve(&harness, &ada, None, "acme", "demo").await.unwrap();
    let (grant, _) = harness.trust().verifier.verify(&response.grant).unwrap();
    assert_eq!(grant.organization_id(), Some(OrganizationId(acme)));
}

#[tokio::test]
async fn every_role_has_its_level_and_hidden_repositories_look_missing() {
    let harness = Harness::start().await;
    let (ada, bob, eve) =
        (harness.signed_in("ada").await, harness.signed_in("bob").await, harness.signed_in("eve").await);
    harness.user("root", true).await;
    let root = harness.token("root", "test").await;
    harness.create(&ada, "open", false).await.unwrap();
    let closed = harness.create(&ada, "closed", true).await.unwrap();
    let sql = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) SELECT $1, id, 'write', 0 FROM users WHERE name = 'bob'";
    harness.db().await.execute(sql, &args![closed.id]).await.unwrap();
    let missing = resolve(&harness, &eve, None, "ada", "nothing").await.unwrap_err();
    for (who, open, shut) in [
        (&ada, Permission::Owner, Permission::Owner),
        (&bob, Permission::Read, Permission::Write),
        (&eve, Permission::Read, Permission::None),
        (&root, Permission::Owner, Permission::Owner),
        (&String::new(), Permission::Read, Permission::None),
    ] {
        for (name, expected) in [("open", open), ("closed", shut)] {
            match resolve(&harness, who, None, "ada", name).await {
                Ok(response) => {
                    let (grant, _) = harness.trust().verifier.verify(&response.grant).unwrap();
                    assert_eq!((grant.permission, grant.user.is_some()), (expected, !who.is_empty()));
                }
                Err(status) => {
                    assert_eq!(expected, Permission::None);
                    assert_eq!(
                        (status.code(), status.message(), status.details()),
                        (missing.code(), missing.message(), missing.details())
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn invalid_names_look_missing() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    for (owner, name) in [("ada", "a\0b"), ("a/b", "x"), ("", ""), ("ada", "../x"), ("ada", "%"), ("ada", "--help")] {
        let outcome = resolve(&harness, &ada, None, owner, name).await;
        assert_eq!(refusal(outcome), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"), "{owner:?} {name:?}");
    }
    let outcome = harness.access().resolve_access(with_token(ResolveAccessRequest::default(), &ada)).await;
    assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "INVALID_FIELDS"));
}

#[tokio::test]
async fn git_authenticates_by_password_or_by_a_token_in_either_field() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", true).await.unwrap();
    for credential in [
        basic("ada", PASSWORD),
        basic("ADA@example.com", PASSWORD),
        basic(&ada, ""),
        basic(&ada, "x-oauth-basic"),
        basic("anything", &ada),
    ] {
        let response = resolve(&harness, "", Some(credential), "ada", "demo").await.unwrap();
        assert_eq!(response.identity.unwrap().username, "ada");
    }
    for credential in [
        basic("ada", "wrong password"),
        basic("unknown", PASSWORD),
        basic("", ""),
        basic("ada\0", PASSWORD),
        basic(&"0".repeat(40), ""),
        basic(&ada.to_uppercase(), ""),
    ] {
        let outcome = resolve(&harness, "", Some(credential), "ada", "demo").await;
        assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    }
}

#[tokio::test]
async fn basic_credentials_take_precedence_over_the_token() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    harness.create(&ada, "demo", true).await.unwrap();
    let outcome = resolve(&harness, &ada, Some(basic(&bob, "")), "ada", "demo").await;
    assert_eq!(refusal(outcome), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
}

#[tokio::test]
async fn a_site_administrator_may_only_read_over_git() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.user("root", true).await;
    harness.create(&ada, "demo", true).await.unwrap();
    let token = harness.token("root", "test").await;
    for credential in [basic("root", PASSWORD), basic(&token, ""), basic("root", &token)] {
        let response = resolve(&harness, "", Some(credential), "ada", "demo").await.unwrap();
        assert_eq!(harness.trust().verifier.verify(&response.grant).unwrap().0.permission, Permission::Read);
    }
}

#[tokio::test]
async fn a_password_cannot_be_guessed_by_trying() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", false).await.unwrap();
    for _ in 0..20 {
        let outcome = resolve(&harness, "", Some(basic("ada", "wrong password")), "ada", "demo").await;
        assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    }
    let outcome = resolve(&harness, "", Some(basic("ADA", PASSWORD)), "ada", "demo").await;
    assert_eq!(refusal(outcome), refused(Code::ResourceExhausted, "TOO_MANY_ATTEMPTS"));
    assert!(resolve(&harness, "", Some(basic(&ada, "")), "ada", "demo").await.is_ok(), "tokens still work");
}

#[tokio::test]
async fn only_services_resolve_tokens_and_get_grants() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let request = AuthenticateRequest { token: ada.clone() };
    let identity = harness.access().authenticate(request.clone()).await.unwrap().into_inner().identity.unwrap();
    assert_eq!((identity.username.as_str(), identity.is_admin), ("ada", false));
    assert!(identity.token_id > 0);
    let mut client = AccessServiceClient::new(harness.unauthenticated.clone());
    let outcome = client.authenticate(with_token(request, &ada)).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "SERVICE_REQUIRED"));
    harness.create(&ada, "demo", false).await.unwrap();
    let request = ResolveAccessRequest {
        repository: by_name("ada", "demo"),
        operation: operation::UPLOAD_PACK.to_owned(),
        ..ResolveAccessRequest::default()
    };
    let outcome = client.resolve_access(with_token(request, &ada)).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "SERVICE_REQUIRED"));
    let outcome = harness.access().authenticate(AuthenticateRequest { token: "f".repeat(40) }).await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
}

#[tokio::test]
async fn direct_callers_need_a_token() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", false).await.unwrap();
    let request = GetRepositoryRequest { repository: by_name("ada", "demo") };
    let mut client = RepositoryServiceClient::new(harness.unauthenticated.clone());
    assert!(client.get_repository(with_token(request.clone(), &ada)).await.is_ok());
    let outcome = client.get_repository(with_token(request.clone(), "")).await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    let outcome = client.get_repository(with_token(request, &"0".repeat(40))).await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
}

#[tokio::test]
async fn a_revoked_token_fails_at_the_next_call() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", false).await.unwrap();
    let request = DeleteAccessTokenRequest {
        credential: Some(basic("ada", PASSWORD)),
        username: "ada".into(),
        name: "test".into(),
    };
    harness.account().delete_access_token(request.clone()).await.unwrap();
    assert_eq!(
        refusal(resolve(&harness, &ada, None, "ada", "demo").await),
        refused(Code::Unauthenticated, "BAD_CREDENTIALS")
    );
    let outcome = harness.access().authenticate(AuthenticateRequest { token: ada }).await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    assert_eq!(
        refusal(harness.account().delete_access_token(request).await),
        refused(Code::NotFound, "TOKEN_NOT_FOUND")
    );
}

#[tokio::test]
async fn a_disabled_user_is_not_authenticated() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", false).await.unwrap();
    harness.db().await.execute("UPDATE users SET is_active = $1", &args![false]).await.unwrap();
    for (token, credential) in [(ada.as_str(), None), ("", Some(basic("ada", PASSWORD))), ("", Some(basic(&ada, "")))] {
        let outcome = resolve(&harness, token, credential, "ada", "demo").await;
        assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    }
}

#[tokio::test]
async fn a_check_for_another_service_is_answered_with_a_grant_about_its_subject() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        let acme = create(&harness, &ada, "Acme").await.id;
        let check = async |operation: &str, as_administrator, organization: Option<&str>, token: &str| {
            let target = organization.map(|name| Target::Organization(name.to_owned()));
            let request = CheckAccessRequest { operation: operation.to_owned(), as_administrator, target };
            let response = harness.access().check_access(with_token(request, token)).await?.into_inner();
            Ok::<_, Status>(response.grant)
        };
        let of_acme = || Subject::Organization { id: acme, name: "acme".into() };
        for (operation, as_administrator, organization, token, username, subject) in [
            (operation::CREATE_HOOK, false, Some("acme"), &ada, "ada", of_acme()),
            (operation::LIST_DELIVERIES, false, Some("acme"), &ada, "ada", of_acme()),
            (operation::LIST_ORGANIZATION_LABELS, false, Some("acme"), &bob, "bob", of_acme()),
            (operation::CREATE_ORGANIZATION_LABEL, false, Some("acme"), &ada, "ada", of_acme()),
            (operation::CREATE_HOOK, true, None, &root, "root", Subject::Site),
            (operation::LIST_USER_ISSUES, false, None, &bob, "bob", Subject::User),
            (operation::LIST_ACTIVITIES, false, None, &bob, "bob", Subject::User),
        ] {
            let text = check(operation, as_administrator, organization, token).await.unwrap();
            let (grant, _) = harness.trust().verifier.verify(&text).unwrap();
            let user = grant.user.clone().unwrap();
            assert_eq!((user.username.as_str(), user.token_id > 0), (username, true), "{operation}");
            assert_eq!((&grant.subject, grant.operation.as_str(), grant.repository), (&subject, operation, 0));
            // It grants nothing on a repository.
            assert_eq!(
                (grant.permission, grant.issues_enabled, grant.reauthorization),
                (Permission::None, false, None)
            );
        }
        for (operation, as_administrator, organization, token, reason) in [
            (operation::CREATE_HOOK, false, Some("acme"), &bob, "ORGANIZATION_OWNER_REQUIRED"),
            (operation::CREATE_ORGANIZATION_LABEL, false, Some("acme"), &bob, "ORGANIZATION_OWNER_REQUIRED"),
            (operation::CREATE_HOOK, true, None, &ada, "ADMIN_REQUIRED"),
        ] {
            let outcome = check(operation, as_administrator, organization, token).await;
            assert_eq!(refusal(outcome), refused(Code::PermissionDenied, reason));
        }
        let outcome = check(operation::LIST_ORGANIZATION_LABELS, false, Some("nothing"), &bob).await;
        assert_eq!(refusal(outcome), refused(Code::NotFound, "ORGANIZATION_NOT_FOUND"));
        // This service's own operations need no grant, and public operations give none.
        for operation in ["ferrite.repo.v1.ProfileService/ListEmails", operation::RENDER_MARKDOWN] {
            assert_eq!(check(operation, false, None, &ada).await.unwrap(), "", "{operation}");
        }
        let request =
            CheckAccessRequest { operation: operation::LIST_USER_ISSUES.into(), ..CheckAccessRequest::default() };
        let mut stranger = AccessServiceClient::new(harness.unauthenticated.clone());
        let outcome = stranger.check_access(with_token(request, &ada)).await;
        assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "SERVICE_REQUIRED"));
    })
    .await;
}

#[tokio::test]
async fn a_check_for_an_organization_uses_its_own_rule_and_names_caller_and_organization() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        let acme = create(&harness, &ada, "Acme").await.id;
        let check = async |rpc: &str, as_administrator, organization: Option<&str>, token: &str| {
            let target = organization.map(|name| Target::Organization(name.to_owned()));
            let request = CheckAccessRequest { operation: format!("ferrite.repo.v1.{rpc}"), as_administrator, target };
            harness.access().check_access(with_token(request, token)).await.map(tonic::Response::into_inner)
        };
        for rpc in ["RepositoryService/CreateRepository", "OrganizationService/UpdateOrganization"] {
            let response = check(rpc, false, Some("acme"), &ada).await.unwrap();
            assert_eq!((response.username.as_str(), response.organization_id), ("ada", acme), "{rpc}");
            assert!(response.user_id > 0);
            let outcome = check(rpc, false, Some("acme"), &bob).await;
            assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED"), "{rpc}");
            let outcome = check(rpc, false, Some("nothing"), &ada).await;
            assert_eq!(refusal(outcome), refused(Code::NotFound, "ORGANIZATION_NOT_FOUND"), "{rpc}");
        }
        let response = check("RepositoryService/CreateRepository", true, None, &root).await.unwrap();
        assert_eq!((response.username.as_str(), response.organization_id), ("root", 0));
        let outcome = check("RepositoryService/CreateRepository", true, None, &ada).await;
        assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
    })
    .await;
}

#[tokio::test]
async fn a_check_for_a_repository_names_its_id() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let demo = harness.create(&ada, "demo", false).await.unwrap().id;
        let request = CheckAccessRequest {
            operation: operation::UPDATE_WIKI.into(),
            target: by_name("ada", "demo").map(Target::Repository),
            ..CheckAccessRequest::default()
        };
        let response = harness.access().check_access(with_token(request, &ada)).await.unwrap().into_inner();
        assert_eq!(response.repository_id, demo);
    })
    .await;
}
