//! Errors in bodies and queries name their field, and are reported after credentials and
//! permission.

use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::{self, CheckAccessRequest, RepositoryRef};
use ferrite_rpc::auth::AuthError;

use super::script::Script;
use super::{BAD, BROKEN, GOOD};

fn demo() -> Option<Target> {
    Some(Target::Repository(RepositoryRef::by_name("bob", "demo")))
}

fn acme() -> Option<Target> {
    Some(Target::Organization("acme".into()))
}

/// Every operation of repo-svc whose request can be invalid, with its permission check.
fn permission_checks() -> Vec<(&'static str, &'static str, CheckAccessRequest)> {
    let check = |operation: &str, as_administrator, target| CheckAccessRequest {
        operation: format!("ferrite.repo.v1.{operation}"),
        as_administrator,
        target,
    };
    let repository = "RepositoryService/CreateRepository";
    vec![
        ("POST", "/user/repos", check(repository, false, None)),
        ("POST", "/org/acme/repos", check(repository, false, acme())),
        ("POST", "/orgs/acme/repos", check(repository, false, acme())),
        ("POST", "/admin/users/bob/repos", check(repository, true, None)),
        ("POST", "/user/emails", check("ProfileService/AddEmails", false, None)),
        ("DELETE", "/user/emails", check("ProfileService/DeleteEmails", false, None)),
        ("PATCH", "/user/emails", check("ProfileService/SetPrimaryEmail", false, None)),
        ("PATCH", "/user/settings", check("UserSettingsService/UpdateUserSettings", false, None)),
        ("POST", "/user/keys", check("PublicKeyService/CreatePublicKey", false, None)),
        ("POST", "/admin/users/bob/keys", check("PublicKeyService/CreatePublicKey", true, None)),
        ("POST", "/user/orgs", check("OrganizationService/CreateOrganization", false, None)),
        ("POST", "/orgs", check("OrganizationService/CreateOrganization", false, None)),
        ("POST", "/admin/users/bob/orgs", check("OrganizationService/CreateOrganization", true, None)),
        ("PATCH", "/orgs/acme", check("OrganizationService/UpdateOrganization", false, acme())),
        ("PUT", "/orgs/acme/memberships/bob", check("OrganizationService/SetMembership", false, acme())),
        ("POST", "/orgs/acme/teams", check("TeamService/CreateTeam", false, acme())),
        ("POST", "/admin/orgs/acme/teams", check("TeamService/CreateTeam", true, acme())),
        ("PATCH", "/teams/7", check("TeamService/UpdateTeam", false, Some(Target::TeamId(7)))),
        ("PUT", "/repos/bob/demo/collaborators/eve", check("CollaboratorService/SetCollaborator", false, demo())),
        ("POST", "/repos/bob/demo/keys", check("DeployKeyService/CreateDeployKey", false, demo())),
        ("POST", "/admin/users", check("AdministrationService/CreateUser", false, None)),
        ("PATCH", "/admin/users/bob", check("AdministrationService/UpdateUser", false, None)),
        ("PATCH", "/admin/users/bob/quota", check("AdministrationService/UpdateQuota", false, None)),
        ("GET", "/admin/users?source_id=x", check("AdministrationService/ListUsers", false, None)),
        ("GET", "/admin/audit?since=x", check("AdministrationService/ListAuditEvents", false, None)),
    ]
}

#[tokio::test]
async fn a_caller_without_permission_gets_no_field_errors() {
    let (gateway, script) = Script::gateway().await;
    for (method, path, check) in permission_checks() {
        assert_eq!(gateway.status(method, path, BAD, BROKEN).await, 401, "{method} {path}");
        let expected = if method == "GET" { 422 } else { 400 };
        assert_eq!(gateway.status(method, path, GOOD, BROKEN).await, expected, "{method} {path}");
        assert_eq!(script.take_request("AccessService/CheckAccess"), Some(check), "{method} {path}");
    }
    for (error, expected) in [(AuthError::AdminRequired, 403), (AuthError::RepositoryNotFound, 404)] {
        script.fail("AccessService/CheckAccess", error);
        for (method, path, _) in permission_checks() {
            assert_eq!(gateway.status(method, path, GOOD, BROKEN).await, expected, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn every_mistake_names_its_field() {
    let (gateway, _script) = Script::gateway().await;
    let cases = [
        ("POST", "/user/emails", "{}", "emails", "required"),
        ("POST", "/user/emails", "[]", "emails", "required"),
        ("POST", "/user/emails", "[1]", "emails", "type"),
        ("POST", "/user/emails", "7", "$", "type"),
        ("PATCH", "/user/emails", "{}", "email", "required"),
        ("PATCH", "/user/settings", r#"{"theme":"dark"}"#, "theme", "invalid"),
        ("PATCH", "/user/settings", r#"{"hide_activity":"x"}"#, "hide_activity", "type"),
        ("POST", "/user/keys", r#"{"title":"t"}"#, "key", "required"),
        ("POST", "/user/orgs", r#"{"username":""}"#, "username", "required"),
        ("PATCH", "/orgs/acme", r#"{"website":7}"#, "website", "type"),
        ("PUT", "/orgs/acme/memberships/bob", r#"{"role":"owner"}"#, "role", "unknown"),
        ("POST", "/orgs/acme/teams", r#"{"permission":"read"}"#, "name", "required"),
        ("POST", "/org/acme/repos", r#"{"private":"yes","name":"x"}"#, "private", "type"),
        ("PATCH", "/teams/7", r#"{"permission":[]}"#, "permission", "type"),
        ("PUT", "/repos/bob/demo/collaborators/eve", r#"{"permission":1}"#, "permission", "type"),
        ("POST", "/repos/bob/demo/keys", r#"{"title":"t","key":"k","read_only":"no"}"#, "read_only", "type"),
        ("POST", "/admin/users", r#"{"username":"a","email":"b"}"#, "password", "required"),
        (
            "POST",
            "/admin/users",
            r#"{"username":"a","email":"b","password":"c","source_id":1}"#,
            "source_id",
            "unknown",
        ),
        ("PATCH", "/admin/users/bob", r#"{"max_repo_creation":"x"}"#, "max_repo_creation", "type"),
        ("PATCH", "/admin/users/bob", r#"{"active":"x"}"#, "active", "type"),
        ("PATCH", "/admin/users/bob/quota", r#"{"bytes":"1 GiB"}"#, "bytes", "type"),
        ("GET", "/admin/audit?since=2026-01-02T00:00:00Z&until=tomorrow", "", "until", "invalid"),
    ];
    for (method, path, body, field, code) in cases {
        let (status, _, response) = gateway.send(method, path, Some(GOOD), body).await;
        assert_eq!(status, 422, "{method} {path} {body}: {response}");
        let value: serde_json::Value = serde_json::from_str(&response).unwrap();
        assert_eq!(
            (&value["errors"][0]["field"], &value["errors"][0]["code"]),
            (&field.into(), &code.into()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_wrong_password_is_the_first_error_of_a_new_one() {
    let (gateway, script) = Script::gateway().await;
    let (rpc, basic) = ("UserSettingsService/ChangePassword", "Basic YWRhOnNlY3JldA==");
    let credential = Some(repo::BasicCredential { username: "ada".into(), password: "secret".into() });
    script.fail(rpc, AuthError::BadCredentials);
    let (status, headers, _) = gateway.send("PUT", "/user/password", Some(basic), BROKEN).await;
    assert_eq!((status, headers.contains_key("www-authenticate")), (401, true));
    let asked = repo::ChangePasswordRequest { credential: credential.clone(), new_password: String::new() };
    assert_eq!(script.take_request(rpc), Some(asked));
    script.respond(rpc, &repo::ChangePasswordResponse {});
    let body = r#"{"password":"another horse"}"#;
    assert_eq!(gateway.status("PUT", "/user/password", basic, body).await, 204);
    let asked = repo::ChangePasswordRequest { credential, new_password: "another horse".into() };
    assert_eq!(script.take_request(rpc), Some(asked));
    assert_eq!(gateway.status("PUT", "/user/password", GOOD, body).await, 401);
}

#[tokio::test]
async fn a_wrong_password_is_the_first_error_of_a_new_token() {
    let (gateway, script) = Script::gateway().await;
    let basic = Some("Basic YWRhOnNlY3JldA==");
    script.fail("AccountService/ListAccessTokens", AuthError::BadCredentials);
    let (status, headers, _) = gateway.send("POST", "/users/ada/tokens", basic, BROKEN).await;
    assert_eq!((status, headers.contains_key("www-authenticate")), (401, true));
    script.respond("AccountService/ListAccessTokens", &repo::ListAccessTokensResponse::default());
    for (body, field) in [
        (r#"{"scopes":"all"}"#, "name"),
        (r#"{"name":"n","scopes":"all"}"#, "scopes"),
        (r#"{"name":"n","expires_at":"tomorrow"}"#, "expires_at"),
        (r#"{"name":"n","repositories":[7]}"#, "repositories"),
    ] {
        let (status, _, response) = gateway.send("POST", "/users/ada/tokens", basic, body).await;
        let value: serde_json::Value = serde_json::from_str(&response).unwrap();
        assert_eq!((status, &value["errors"][0]["field"]), (422, &field.into()), "{body}");
    }
}
