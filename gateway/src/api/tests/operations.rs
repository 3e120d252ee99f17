use std::fmt::Debug;

use ferrite_core::timestamp;
use ferrite_proto::repo::{self, Permission, RepositoryRef};
use prost::Message;
use serde_json::{Value, json};

use super::script::Script;
use super::{GOOD, TestGateway};

fn demo() -> Option<RepositoryRef> {
    Some(RepositoryRef::by_name("bob", "demo"))
}

pub(super) fn user() -> repo::User {
    repo::User { id: 3, username: "bob".into(), email: "bob@example.com".into(), ..Default::default() }
}

pub(super) fn repository() -> repo::Repository {
    repo::Repository {
        id: 7,
        owner: Some(user()),
        name: "Demo".into(),
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        ..Default::default()
    }
}

pub(super) struct Case {
    pub(super) gateway: TestGateway,
    pub(super) script: Script,
}

impl Case {
    pub(super) async fn new() -> Self {
        let (gateway, script) = Script::gateway().await;
        Self { gateway, script }
    }

    /// Sends a request, checks that repo-svc got `expected`, and returns the client's status and
    /// JSON.
    pub(super) async fn check<Q: Message + Default + PartialEq + Debug>(
        &self,
        request: (&str, &str, &str),
        rpc: &str,
        expected: Q,
        response: impl Message,
    ) -> (u16, Value) {
        self.script.respond(rpc, &response);
        let (method, path, body) = request;
        let (status, _, text) = self.gateway.send(method, path, Some(GOOD), body).await;
        assert_eq!(self.script.take_request::<Q>(rpc), Some(expected), "{method} {path} {text}");
        (status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() })
    }

    /// As [`Self::check`], for an operation without a response body.
    pub(super) async fn check_204<Q: Message + Default + PartialEq + Debug>(
        &self,
        method: &str,
        path: &str,
        rpc: &str,
        expected: Q,
    ) {
        // An empty message has the same encoding for every type.
        let response = self.check((method, path, ""), rpc, expected, repo::CheckAccessResponse::default()).await;
        assert_eq!(response, (204, Value::Null), "{method} {path}");
    }
}

#[tokio::test]
async fn addresses_come_as_an_object_or_as_a_list() {
    let case = Case::new().await;
    let emails = vec!["a@example.com".to_owned()];
    let added = repo::AddEmailsResponse {
        emails: vec![repo::Email { email: "a@example.com".into(), is_verified: true, is_primary: false }],
    };
    for body in [r#"{"emails":["a@example.com"]}"#, r#"["a@example.com"]"#] {
        let expected = repo::AddEmailsRequest { emails: emails.clone() };
        let response = case.check(("POST", "/user/emails", body), "ProfileService/AddEmails", expected, added.clone());
        let shown = json!([{"email": "a@example.com", "verified": true, "primary": false}]);
        assert_eq!(response.await, (201, shown));
        let expected = repo::DeleteEmailsRequest { emails: emails.clone() };
        let empty = repo::DeleteEmailsResponse {};
        let response = case.check(("DELETE", "/user/emails", body), "ProfileService/DeleteEmails", expected, empty);
        assert_eq!(response.await.0, 204);
    }
    let nothing = repo::DeleteEmailsRequest::default();
    case.check_204("DELETE", "/user/emails", "ProfileService/DeleteEmails", nothing).await;
    let expected = repo::ListEmailsRequest { page: 1, page_size: 1000 };
    let response = repo::ListEmailsResponse::default();
    assert_eq!(
        case.check(("GET", "/user/emails", ""), "ProfileService/ListEmails", expected, response).await.1,
        json!([])
    );
}

#[tokio::test]
async fn sessions_are_listed_with_their_times_and_ended_by_id() {
    let case = Case::new().await;
    let session = repo::Session {
        id: 7,
        create_time: Some(timestamp(0)),
        last_use_time: Some(timestamp(1_000_000)),
        expire_time: Some(timestamp(2_000_000)),
        address: "192.0.2.1".into(),
        user_agent: "Lynx".into(),
        is_current: true,
    };
    let expected = repo::ListSessionsRequest { page: 1, page_size: 1000 };
    let response = repo::ListSessionsResponse { sessions: vec![session], total_count: 1 };
    let shown = json!([{
        "id": 7, "created_at": "1970-01-01T00:00:00Z", "last_used_at": "1970-01-01T00:00:01Z",
        "expires_at": "1970-01-01T00:00:02Z", "address": "192.0.2.1", "user_agent": "Lynx", "is_current": true,
    }]);
    let path = ("GET", "/user/sessions", "");
    assert_eq!(case.check(path, "SessionService/ListSessions", expected, response).await, (200, shown));
    // Zero would be the caller's own session.
    for (id, session_id) in [("7", 7), ("0", i64::MAX), ("x", i64::MAX)] {
        let expected = repo::DeleteSessionRequest { session_id };
        case.check_204("DELETE", &format!("/user/sessions/{id}"), "SessionService/DeleteSession", expected).await;
    }
}

#[tokio::test]
async fn settings_have_the_names_of_gitea() {
    let case = Case::new().await;
    let settings = repo::UserSettings {
        full_name: "Bob".into(),
        website: "https://bob.example".into(),
        location: "Here".into(),
        description: "Writes.".into(),
        hides_activity: true,
    };
    let shown = json!({
        "full_name": "Bob", "website": "https://bob.example", "location": "Here", "description": "Writes.",
        "hide_activity": true,
    });
    let (rpc, expected) = ("UserSettingsService/GetUserSettings", repo::GetUserSettingsRequest {});
    let response = repo::GetUserSettingsResponse { settings: Some(settings.clone()) };
    let path = ("GET", "/user/settings", "");
    assert_eq!(case.check(path, rpc, expected, response).await, (200, shown.clone()));
    // What Gitea's Go SDK sends beside the changed field.
    let body = r#"{"location":"There","hide_email":null,"hide_activity":false,"language":null,"theme":""}"#;
    let expected = repo::UpdateUserSettingsRequest {
        location: Some("There".into()),
        hides_activity: Some(false),
        ..Default::default()
    };
    let response = repo::UpdateUserSettingsResponse { settings: Some(settings) };
    let rpc = "UserSettingsService/UpdateUserSettings";
    assert_eq!(case.check(("PATCH", "/user/settings", body), rpc, expected, response).await, (200, shown));
    let expected = repo::SetPrimaryEmailRequest { email: "b@example.com".into() };
    let email = repo::Email { email: "b@example.com".into(), is_verified: true, is_primary: true };
    let response = repo::SetPrimaryEmailResponse { email: Some(email) };
    let request = ("PATCH", "/user/emails", r#"{"email":"b@example.com"}"#);
    let shown = json!({"email": "b@example.com", "verified": true, "primary": true});
    assert_eq!(case.check(request, "ProfileService/SetPrimaryEmail", expected, response).await, (200, shown));
}

#[tokio::test]
async fn follows_have_pages_of_forty() {
    let case = Case::new().await;
    for (path, username) in [("/user/followers", ""), ("/users/bob/followers?limit=100", "bob")] {
        let expected = repo::ListFollowersRequest { username: username.into(), page: 1, page_size: 40 };
        let response = repo::ListFollowersResponse { users: vec![user()], total_count: 1 };
        let (status, shown) = case.check(("GET", path, ""), "ProfileService/ListFollowers", expected, response).await;
        assert_eq!((status, &shown[0]["login"]), (200, &"bob".into()));
    }
    for (path, username, page) in [("/user/following?page=2", "", 2), ("/users/bob/following", "bob", 1)] {
        let expected = repo::ListFollowingRequest { username: username.into(), page, page_size: 40 };
        let response = repo::ListFollowingResponse::default();
        case.check(("GET", path, ""), "ProfileService/ListFollowing", expected, response).await;
    }
    for (path, username) in [("/user/following/eve", ""), ("/users/bob/following/eve", "bob")] {
        for (is_following, status) in [(true, 204), (false, 404)] {
            let expected = repo::IsFollowingRequest { username: username.into(), target: "eve".into() };
            let response = repo::IsFollowingResponse { is_following };
            let response = case.check(("GET", path, ""), "ProfileService/IsFollowing", expected, response).await;
            assert_eq!(response.0, status);
        }
    }
    let follow = repo::FollowUserRequest { username: "eve".into() };
    case.check_204("PUT", "/user/following/eve", "ProfileService/FollowUser", follow).await;
    let unfollow = repo::UnfollowUserRequest { username: "eve".into() };
    case.check_204("DELETE", "/user/following/eve", "ProfileService/UnfollowUser", unfollow).await;
}

#[tokio::test]
async fn a_name_that_cannot_exist_is_never_the_callers_own() {
    let case = Case::new().await;
    let invalid = "\u{fffd}".to_owned();
    let expected = repo::ListFollowersRequest { username: invalid.clone(), page: 1, page_size: 40 };
    let path = ("GET", "/users/%ff/followers", "");
    case.check(path, "ProfileService/ListFollowers", expected, repo::ListFollowersResponse::default()).await;
    let expected = repo::ListPublicKeysRequest { username: invalid.clone(), page: 1, page_size: 1000 };
    let path = ("GET", "/users/a%00/keys", "");
    case.check(path, "PublicKeyService/ListPublicKeys", expected, repo::ListPublicKeysResponse::default()).await;
    let expected = repo::GetPublicKeyRequest { key_id: i64::MAX };
    let response = repo::GetPublicKeyResponse::default();
    case.check(("GET", "/user/keys/abc", ""), "PublicKeyService/GetPublicKey", expected, response).await;
    let expected = repo::CreateRepositoryRequest {
        name: "x".into(),
        owner: invalid,
        as_administrator: false,
        ..Default::default()
    };
    let response = repo::CreateRepositoryResponse::default();
    let path = ("POST", "/org/%ff/repos", r#"{"name":"x"}"#);
    case.check(path, "RepositoryService/CreateRepository", expected, response).await;
}

#[tokio::test]
async fn an_address_is_verified_and_no_longer_so_by_its_path() {
    let case = Case::new().await;
    for (method, is_verified) in [("PUT", true), ("DELETE", false)] {
        let expected =
            repo::SetEmailVerificationRequest { username: "bob".into(), email: "b+x@example.com".into(), is_verified };
        let path = "/admin/users/bob/emails/b%2Bx@example.com/verified";
        case.check_204(method, path, "AdministrationService/SetEmailVerification", expected).await;
    }
}

#[tokio::test]
async fn keys_are_the_callers_unless_an_administrator_asks() {
    let case = Case::new().await;
    let key = Some(repo::PublicKey { id: 9, create_time: Some(timestamp(0)), ..Default::default() });
    let body = r#"{"title":"t","key":"k"}"#;
    for (path, username, as_administrator) in [("/user/keys", "", false), ("/admin/users/bob/keys", "bob", true)] {
        let expected = repo::CreatePublicKeyRequest {
            title: "t".into(),
            key: "k".into(),
            username: username.into(),
            as_administrator,
        };
        let response = repo::CreatePublicKeyResponse { key: key.clone() };
        let response = case.check(("POST", path, body), "PublicKeyService/CreatePublicKey", expected, response).await;
        assert_eq!((response.0, &response.1["url"]), (201, &"http://git.example.com/api/v1/user/keys/9".into()));
    }
    for (path, username, as_administrator) in [("/user/keys/9", "", false), ("/admin/users/bob/keys/9", "bob", true)] {
        let expected = repo::DeletePublicKeyRequest { key_id: 9, username: username.into(), as_administrator };
        case.check_204("DELETE", path, "PublicKeyService/DeletePublicKey", expected).await;
    }
}

#[tokio::test]
async fn collaborators_need_no_body_and_keep_their_level_without_one() {
    let case = Case::new().await;
    let path = "/repos/bob/demo/collaborators/eve";
    for (body, permission) in [("", None), ("{}", None), (r#"{"permission":"READ"}"#, Some("READ".to_owned()))] {
        let expected =
            repo::SetCollaboratorRequest { repository: demo(), username: "eve".into(), permission: permission.clone() };
        let response = repo::SetCollaboratorResponse {};
        assert_eq!(
            case.check(("PUT", path, body), "CollaboratorService/SetCollaborator", expected, response).await.0,
            204
        );
    }
    let expected = repo::RemoveCollaboratorRequest { repository: demo(), username: "eve".into() };
    case.check_204("DELETE", path, "CollaboratorService/RemoveCollaborator", expected).await;
    let expected = repo::GetCollaboratorRequest { repository: demo(), username: "eve".into() };
    case.check_204("GET", path, "CollaboratorService/GetCollaborator", expected).await;
    let expected = repo::ListCollaboratorsRequest { repository: demo(), page: 1, page_size: 1000 };
    let collaborator = repo::Collaborator { user: Some(user()), permission: Permission::Read.into() };
    let response = repo::ListCollaboratorsResponse { collaborators: vec![collaborator], total_count: 1 };
    let request = ("GET", "/repos/bob/demo/collaborators", "");
    let response = case.check(request, "CollaboratorService/ListCollaborators", expected, response).await;
    assert_eq!(response.1[0]["permissions"], json!({"admin": false, "push": false, "pull": true}));
    for name in ["assignees", "reviewers"] {
        let expected = repo::ListAssigneesRequest { repository: demo(), page: 1, page_size: 1000 };
        let response = repo::ListAssigneesResponse { users: vec![user()], total_count: 1 };
        let path = format!("/repos/bob/demo/{name}");
        let response = case.check(("GET", &path, ""), "CollaboratorService/ListAssignees", expected, response).await;
        assert_eq!((response.0, &response.1[0]["login"]), (200, &json!("bob")));
    }
}

#[tokio::test]
async fn deploy_keys_are_read_only_unless_the_body_says_otherwise() {
    let case = Case::new().await;
    let found = repo::GetRepositoryResponse { repository: Some(repository()) };
    case.script.respond("RepositoryService/GetRepository", &found);
    for (extra, can_write) in [("", false), (r#","read_only":true"#, false), (r#","read_only":false"#, true)] {
        let (title, key) = ("t".into(), "k".into());
        let expected = repo::CreateDeployKeyRequest { repository: demo(), title, key, can_write };
        let made =
            repo::DeployKey { id: 4, is_read_only: !can_write, create_time: Some(timestamp(0)), ..Default::default() };
        let response = repo::CreateDeployKeyResponse { key: Some(made) };
        let body = format!(r#"{{"title":"t","key":"k"{extra}}}"#);
        let request = ("POST", "/repos/bob/demo/keys", body.as_str());
        let (status, shown) = case.check(request, "DeployKeyService/CreateDeployKey", expected, response).await;
        assert_eq!((status, &shown["read_only"]), (201, &(!can_write).into()));
        assert_eq!(shown["url"], "http://git.example.com/api/v1/repos/bob/Demo/keys/4", "the stored spelling");
    }
    let expected = repo::DeleteDeployKeyRequest { repository: demo(), key_id: 4 };
    case.check_204("DELETE", "/repos/bob/demo/keys/4", "DeployKeyService/DeleteDeployKey", expected).await;
}

#[tokio::test]
async fn users_are_changed_only_where_the_body_says_so() {
    let case = Case::new().await;
    let response = repo::UpdateUserResponse { user: Some(user()) };
    let rpc = "AdministrationService/UpdateUser";
    let unchanged = repo::UpdateUserRequest { username: "bob".into(), ..Default::default() };
    for body in ["", "{}", r#"{"email":"","password":"","active":null,"allow_git_hook":true,"source_id":0}"#] {
        let request = ("PATCH", "/admin/users/bob", body);
        assert_eq!(case.check(request, rpc, unchanged.clone(), response.clone()).await.0, 200);
    }
    let expected = repo::UpdateUserRequest {
        full_name: Some(String::new()),
        website: Some(String::new()),
        is_active: Some(false),
        is_admin: Some(true),
        repository_limit: Some(-1),
        ..unchanged
    };
    let body = r#"{"full_name":"","website":"","active":false,"admin":true,"max_repo_creation":-1}"#;
    case.check(("PATCH", "/admin/users/bob", body), rpc, expected, response).await;
    let expected = repo::CreateUserRequest {
        username: "eve".into(),
        email: "e@example.com".into(),
        password: "long enough".into(),
        full_name: String::new(),
        is_admin: false,
    };
    let body =
        r#"{"username":"eve","email":"e@example.com","password":"long enough","send_notify":true,"login_name":"x"}"#;
    let response = repo::CreateUserResponse { user: Some(user()) };
    let rpc = "AdministrationService/CreateUser";
    assert_eq!(case.check(("POST", "/admin/users", body), rpc, expected, response).await.0, 201);
    let empty = repo::DeleteUserRequest { username: "bob".into() };
    case.check_204("DELETE", "/admin/users/bob", "AdministrationService/DeleteUser", empty).await;
}

#[tokio::test]
async fn the_audit_log_is_filtered_by_its_query() {
    let case = Case::new().await;
    let expected = repo::ListAuditEventsRequest {
        actor: "ada".into(),
        target: "bob/demo".into(),
        action: "collaborator".into(),
        since: Some(timestamp(1_767_315_845_000_000)),
        until: None,
        page: 2,
        page_size: 100,
    };
    let event = repo::AuditEvent {
        id: 1,
        time: Some(timestamp(0)),
        actor_id: 3,
        actor: "ada".into(),
        target_kind: "repository".into(),
        target_id: 7,
        target: "bob/demo".into(),
        details: [("permission".to_owned(), "read".to_owned())].into(),
        ..Default::default()
    };
    let response = repo::ListAuditEventsResponse { events: vec![event], total_count: 1 };
    let query = "actor=ada&target=bob%2Fdemo&action=collaborator&since=2026-01-02T02:04:05+01:00&page=2&limit=999";
    let path = format!("/admin/audit?{query}");
    let response = case.check(("GET", &path, ""), "AdministrationService/ListAuditEvents", expected, response).await;
    let shown = json!([{
        "id": 1, "time": "1970-01-01T00:00:00Z", "actor": {"id": 3, "username": "ada"}, "token_id": 0, "action": "",
        "target": {"kind": "repository", "id": 7, "name": "bob/demo"}, "details": {"permission": "read"},
        "address": "", "request_id": "",
    }]);
    assert_eq!(response, (200, shown));
}

#[tokio::test]
async fn user_search_hides_addresses_from_anonymous_callers() {
    let case = Case::new().await;
    let response = repo::SearchUsersResponse { users: vec![user()], total_count: 60 };
    case.script.respond("AccountService/SearchUsers", &response);
    for (token, email) in [(None, "bob@noreply.git.example.com"), (Some(GOOD), "bob@example.com")] {
        let (status, headers, body) = case.gateway.send("GET", "/users/search?q=bo&limit=80", token, "").await;
        let value: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &value["ok"], &value["data"][0]["email"]), (200, &true.into(), &email.into()));
        assert!(headers["link"].to_str().unwrap().contains("/users/search?q=bo&limit=80&page=2>"));
        let expected = repo::SearchUsersRequest { query: "bo".into(), page: 1, page_size: 50, user_id: 0 };
        assert_eq!(case.script.take_request("AccountService/SearchUsers"), Some(expected));
    }
}
