//! Organizations, teams and accounts as programs for Gitea ask for them.

use ferrite_core::timestamp;
use ferrite_proto::repo::{self, Permission, RepositoryRef};
use serde_json::{Value, json};

use super::GOOD;
use super::operations::{Case, repository};

fn demo() -> Option<RepositoryRef> {
    Some(RepositoryRef::by_name("acme", "demo"))
}

fn user(details: Option<repo::AccountDetails>) -> repo::User {
    repo::User { id: 3, username: "bob".into(), is_admin: true, details, ..Default::default() }
}

fn details() -> Option<repo::AccountDetails> {
    Some(repo::AccountDetails { is_active: true, create_time: Some(timestamp(0)), ..Default::default() })
}

#[tokio::test]
async fn the_teams_of_a_repository_are_found_by_name() {
    let case = Case::new().await;
    let team = repo::Team { id: 7, name: "Devs".into(), permission: Permission::Write.into(), ..Default::default() };
    let path = "/repos/acme/demo/teams";
    let expected = repo::ListRepositoryTeamsRequest { repository: demo(), page: 2, page_size: 5 };
    let response = repo::ListRepositoryTeamsResponse { teams: vec![team.clone()], total_count: 6 };
    let list = format!("{path}?page=2&limit=5");
    let shown = case.check(("GET", &list, ""), "RepositoryTeamService/ListRepositoryTeams", expected, response).await;
    assert_eq!((shown.0, &shown.1[0]["name"]), (200, &json!("Devs")));
    let path = format!("{path}/devs");
    let expected = repo::GetRepositoryTeamRequest { repository: demo(), team: "devs".into() };
    let response = repo::GetRepositoryTeamResponse { team: Some(team) };
    let shown = case.check(("GET", &path, ""), "RepositoryTeamService/GetRepositoryTeam", expected, response).await;
    assert_eq!((shown.0, &shown.1["permission"]), (200, &json!("write")));
    let add = repo::AddRepositoryTeamRequest { repository: demo(), team: "devs".into() };
    case.check_204("PUT", &path, "RepositoryTeamService/AddRepositoryTeam", add).await;
    let remove = repo::RemoveRepositoryTeamRequest { repository: demo(), team: "devs".into() };
    case.check_204("DELETE", &path, "RepositoryTeamService/RemoveRepositoryTeam", remove).await;
}

#[tokio::test]
async fn a_repository_of_a_team_can_be_named_with_its_owner() {
    let case = Case::new().await;
    let (path, organization) = ("/teams/7/repos/acme/demo", "acme".to_owned());
    let expected =
        repo::GetTeamRepositoryRequest { team_id: 7, repository: "demo".into(), organization: organization.clone() };
    let response = repo::GetTeamRepositoryResponse { repository: Some(repository()) };
    let shown = case.check(("GET", path, ""), "TeamService/GetTeamRepository", expected, response).await;
    assert_eq!((shown.0, &shown.1["name"]), (200, &json!("Demo")));
    let add = repo::AddTeamRepositoryRequest {
        team_id: 7,
        repository: "demo".into(),
        organization: organization.clone(),
        ..Default::default()
    };
    case.check_204("PUT", path, "TeamService/AddTeamRepository", add).await;
    let remove =
        repo::RemoveTeamRepositoryRequest { team_id: 7, repository: "demo".into(), organization, ..Default::default() };
    case.check_204("DELETE", path, "TeamService/RemoveTeamRepository", remove).await;
    let expected = repo::GetTeamMemberRequest { team_id: 7, username: "bob".into() };
    let response = repo::GetTeamMemberResponse { user: Some(user(None)) };
    let shown = case.check(("GET", "/teams/7/members/bob", ""), "TeamService/GetTeamMember", expected, response).await;
    assert_eq!((shown.0, &shown.1["login"], shown.1.get("is_admin")), (200, &json!("bob"), None));
}

#[tokio::test]
async fn permissions_are_words_on_a_repository_and_flags_in_an_organization() {
    let case = Case::new().await;
    for (permission, word) in [(Permission::None, "none"), (Permission::Write, "write"), (Permission::Owner, "owner")] {
        let expected = repo::GetCollaboratorPermissionRequest { repository: demo(), username: "bob".into() };
        let response =
            repo::GetCollaboratorPermissionResponse { user: Some(user(None)), permission: permission.into() };
        let path = ("GET", "/repos/acme/demo/collaborators/bob/permission", "");
        let rpc = "CollaboratorService/GetCollaboratorPermission";
        let (status, shown) = case.check(path, rpc, expected, response).await;
        assert_eq!((status, &shown["permission"], &shown["role_name"]), (200, &json!(word), &json!(word)));
        assert_eq!(shown["user"]["login"], "bob");
    }
    let expected = repo::GetOrganizationPermissionsRequest { organization: "acme".into(), username: "bob".into() };
    let response =
        repo::GetOrganizationPermissionsResponse { permission: Permission::Write.into(), can_create_repository: false };
    let path = ("GET", "/users/bob/orgs/acme/permissions", "");
    let (status, shown) = case.check(path, "OrganizationService/GetOrganizationPermissions", expected, response).await;
    assert_eq!((status, &shown["can_write"], &shown["is_admin"]), (200, &json!(true), &json!(false)));
}

#[tokio::test]
async fn all_organizations_and_public_members_have_lists() {
    let case = Case::new().await;
    for (path, as_administrator) in [("/orgs", false), ("/admin/orgs", true)] {
        let expected = repo::ListAllOrganizationsRequest { page: 1, page_size: 50, as_administrator };
        let organization = repo::Organization { id: 5, username: "acme".into(), ..Default::default() };
        let response = repo::ListAllOrganizationsResponse { organizations: vec![organization], total_count: 1 };
        let rpc = "OrganizationService/ListAllOrganizations";
        let (status, shown) = case.check(("GET", path, ""), rpc, expected, response).await;
        assert_eq!((status, &shown[0]["username"]), (200, &json!("acme")), "{path}");
    }
    for (path, only_public) in [("/orgs/acme/members", false), ("/orgs/acme/public_members", true)] {
        let expected = repo::ListMembersRequest { organization: "acme".into(), page: 1, page_size: 1000, only_public };
        let response = repo::ListMembersResponse { users: vec![user(None)], total_count: 1 };
        case.check(("GET", path, ""), "OrganizationService/ListMembers", expected, response).await;
    }
    for (is_public, status) in [(true, 204), (false, 404)] {
        let expected = repo::GetMembershipRequest { organization: "acme".into(), username: "bob".into() };
        let response = repo::GetMembershipResponse { is_public, ..Default::default() };
        let path = ("GET", "/orgs/acme/public_members/bob", "");
        assert_eq!(case.check(path, "OrganizationService/GetMembership", expected, response).await.0, status);
    }
}

#[tokio::test]
async fn the_list_of_users_has_filters_an_order_and_details() {
    let case = Case::new().await;
    let rpc = "AdministrationService/ListUsers";
    for (query, expected) in [
        ("", repo::ListUsersRequest::default()),
        ("?source_id=0&login_name=Bob", repo::ListUsersRequest { username: "Bob".into(), ..Default::default() }),
        ("?q=bo&sort=newest", {
            repo::ListUsersRequest { query: "bo".into(), order: repo::UserOrder::Newest.into(), ..Default::default() }
        }),
    ] {
        let expected = repo::ListUsersRequest { page: 1, page_size: 50, ..expected };
        let response = repo::ListUsersResponse { users: vec![user(details())], total_count: 1 };
        let path = format!("/admin/users{query}");
        let (status, shown) = case.check(("GET", &path, ""), rpc, expected, response).await;
        assert_eq!((status, &shown[0]["active"], &shown[0]["is_admin"]), (200, &json!(true), &json!(true)));
    }
    for query in ["source_id=3", "source_id=x", "sort=best"] {
        assert_eq!(case.gateway.status("GET", &format!("/admin/users?{query}"), GOOD, "").await, 422, "{query}");
    }
    let expected = repo::SearchUsersRequest { page: 1, page_size: 10, user_id: 3, ..Default::default() };
    let response = repo::SearchUsersResponse { users: vec![user(details())], total_count: 1 };
    let shown = case.check(("GET", "/users/search?uid=3", ""), "AccountService/SearchUsers", expected, response).await;
    assert_eq!(shown.1["data"][0]["created"], "1970-01-01T00:00:00Z");
    let expected = repo::GetAuthenticatedUserRequest {};
    let response = repo::GetAuthenticatedUserResponse { user: Some(user(None)) };
    let shown = case.check(("GET", "/user", ""), "AccountService/GetAuthenticatedUser", expected, response).await.1;
    assert_eq!((&shown["is_admin"], shown.get("active")), (&json!(true), None));
}

/// What Terraform's provider sends unless it is told otherwise.
#[tokio::test]
async fn fields_that_can_have_no_effect_are_taken_with_the_values_that_hold() {
    let case = Case::new().await;
    let mut body = json!({
        "source_id": 0, "login_name": "bob", "full_name": "", "email": "bob@example.com", "password": "",
        "description": "", "must_change_password": true, "website": null, "location": "", "active": true,
        "admin": false, "allow_git_hook": true, "allow_import_local": true, "max_repo_creation": -1,
        "prohibit_login": false, "allow_create_organization": true, "restricted": false, "visibility": "public",
    });
    let update = async |body: &Value, is_active: bool| {
        let expected = repo::UpdateUserRequest {
            username: "bob".into(),
            email: Some("bob@example.com".into()),
            full_name: Some(String::new()),
            location: Some(String::new()),
            description: Some(String::new()),
            is_active: Some(is_active),
            is_admin: Some(false),
            repository_limit: Some(-1),
            ..Default::default()
        };
        let response = repo::UpdateUserResponse { user: Some(user(details())) };
        let body = body.to_string();
        let request = ("PATCH", "/admin/users/bob", body.as_str());
        assert_eq!(case.check(request, "AdministrationService/UpdateUser", expected, response).await.0, 200);
    };
    update(&body, true).await;
    body["prohibit_login"] = json!(true);
    update(&body, false).await;
    let new = json!({"username": "eve", "email": "e@example.com", "password": "long enough"});
    for (field, wrong) in [
        ("source_id", json!(2)),
        ("must_change_password", json!("yes")),
        ("visibility", json!("private")),
        ("restricted", json!(true)),
        ("allow_create_organization", json!(false)),
    ] {
        let is_of_edits = field == "allow_create_organization";
        let requests = [("PATCH", "/admin/users/bob", json!({})), ("POST", "/admin/users", new.clone())];
        for (method, path, mut body) in requests.into_iter().take(if is_of_edits { 1 } else { 2 }) {
            body[field] = wrong.clone();
            let (status, _, text) = case.gateway.send(method, path, Some(GOOD), &body.to_string()).await;
            let shown: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((status, &shown["errors"][0]["field"]), (422, &json!(field)), "{method} {body}");
        }
    }
}
