//! Organizations, their members and their teams.

use ferrite_proto::repo::{self, MembershipRole, Permission};
use serde_json::{Value, json};

use super::GOOD;
use super::operations::{Case, repository, user};

fn organization() -> Option<repo::Organization> {
    Some(repo::Organization { id: 5, username: "Acme".into(), ..Default::default() })
}

pub(super) fn team() -> Option<repo::Team> {
    Some(repo::Team { id: 7, name: "devs".into(), permission: Permission::Write.into(), ..Default::default() })
}

#[tokio::test]
async fn organizations_are_created_changed_and_deleted() {
    let case = Case::new().await;
    let body = r#"{"username":"Acme","full_name":"A","description":"d","website":"http://a","location":null}"#;
    for (path, owner, as_administrator) in
        [("/user/orgs", "", false), ("/orgs", "", false), ("/admin/users/bob/orgs", "bob", true)]
    {
        let expected = repo::CreateOrganizationRequest {
            username: "Acme".into(),
            full_name: "A".into(),
            description: "d".into(),
            website: "http://a".into(),
            location: String::new(),
            owner: owner.into(),
            as_administrator,
            ..Default::default()
        };
        let response = repo::CreateOrganizationResponse { organization: organization() };
        let rpc = "OrganizationService/CreateOrganization";
        let response = case.check(("POST", path, body), rpc, expected, response).await;
        assert_eq!((response.0, &response.1["avatar_url"]), (201, &"http://git.example.com/avatars/5".into()));
    }
    let expected = repo::UpdateOrganizationRequest {
        organization: "acme".into(),
        full_name: Some(String::new()),
        location: Some("Rome".into()),
        ..Default::default()
    };
    let response = repo::UpdateOrganizationResponse { organization: organization() };
    let body = r#"{"full_name":"","location":"Rome","website":null}"#;
    let rpc = "OrganizationService/UpdateOrganization";
    assert_eq!(case.check(("PATCH", "/orgs/acme", body), rpc, expected, response.clone()).await.0, 200);
    for (word, visibility) in [("limited", repo::Visibility::Limited), ("private", repo::Visibility::Private)] {
        let expected = repo::UpdateOrganizationRequest {
            organization: "acme".into(),
            visibility: Some(visibility.into()),
            repository_admins_change_teams: Some(true),
            ..Default::default()
        };
        let body = json!({"visibility": word, "repo_admin_change_team_access": true}).to_string();
        case.check(("PATCH", "/orgs/acme", &body), rpc, expected, response.clone()).await;
    }
    for (method, path, body) in [
        ("PATCH", "/orgs/acme", r#"{"visibility":"hidden"}"#),
        ("POST", "/user/orgs", r#"{"username":"acme","visibility":"Private"}"#),
    ] {
        let (status, _, text) = case.gateway.send(method, path, Some(GOOD), body).await;
        let refused: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("visibility")));
    }
    let expected = repo::DeleteOrganizationRequest { organization: "acme".into() };
    case.check_204("DELETE", "/orgs/acme", "OrganizationService/DeleteOrganization", expected).await;
    for (path, username) in [("/user/orgs", ""), ("/users/bob/orgs", "bob")] {
        let expected = repo::ListOrganizationsRequest { username: username.into(), page: 1, page_size: 1000 };
        let response =
            repo::ListOrganizationsResponse { organizations: organization().into_iter().collect(), total_count: 1 };
        let response = case.check(("GET", path, ""), "OrganizationService/ListOrganizations", expected, response).await;
        assert_eq!(response.1[0]["username"], "Acme");
    }
}

#[tokio::test]
async fn memberships_have_roles_and_are_shown_by_their_members() {
    let case = Case::new().await;
    let (organization, username) = ("acme".to_owned(), "bob".to_owned());
    for (body, role) in [
        (r#"{"role":"admin"}"#, MembershipRole::Admin),
        (r#"{"role":"member"}"#, MembershipRole::Member),
        ("", MembershipRole::Member),
    ] {
        let (organization, username) = (organization.clone(), username.clone());
        let expected = repo::SetMembershipRequest { organization, username, role: role.into() };
        let response = repo::SetMembershipResponse {};
        let request = ("PUT", "/orgs/acme/memberships/bob", body);
        assert_eq!(case.check(request, "OrganizationService/SetMembership", expected, response).await.0, 204);
    }
    let asked = repo::GetMembershipRequest { organization: organization.clone(), username: username.clone() };
    let found = repo::GetMembershipResponse { role: MembershipRole::Admin.into(), is_public: true, user: Some(user()) };
    let rpc = "OrganizationService/GetMembership";
    let response = case.check(("GET", "/orgs/acme/memberships/bob", ""), rpc, asked.clone(), found.clone()).await;
    assert_eq!(
        (&response.1["role"], &response.1["public"], &response.1["user"]["id"]),
        (&"admin".into(), &true.into(), &3.into())
    );
    assert_eq!(case.check(("GET", "/orgs/acme/members/bob", ""), rpc, asked, found).await, (204, Value::Null));
    for path in ["/orgs/acme/memberships/bob", "/orgs/acme/members/bob"] {
        let empty = repo::RemoveMemberRequest { organization: organization.clone(), username: username.clone() };
        case.check_204("DELETE", path, "OrganizationService/RemoveMember", empty).await;
    }
    let identity = Some(repo::Identity { username: "Bob".into(), ..Default::default() });
    case.script.respond("AccessService/Authenticate", &repo::AuthenticateResponse { identity });
    for (method, is_public) in [("PUT", true), ("DELETE", false)] {
        let expected = repo::SetMembershipVisibilityRequest { organization: organization.clone(), is_public };
        let rpc = "OrganizationService/SetMembershipVisibility";
        case.check_204(method, "/orgs/acme/public_members/bob", rpc, expected).await;
        assert_eq!(case.gateway.status(method, "/orgs/acme/public_members/eve", GOOD, "").await, 403);
        assert_eq!(case.script.take_request::<repo::SetMembershipVisibilityRequest>(rpc), None);
    }
}

#[tokio::test]
async fn teams_are_managed_by_owners_and_by_administrators() {
    let case = Case::new().await;
    for (prefix, as_administrator) in [("", false), ("/admin", true)] {
        let expected = repo::CreateTeamRequest {
            organization: "acme".into(),
            name: "devs".into(),
            description: String::new(),
            permission: "write".into(),
            as_administrator,
            ..Default::default()
        };
        let response = repo::CreateTeamResponse { team: team() };
        let body = r#"{"name":"devs","permission":"write","description":null}"#;
        let path = format!("{prefix}/orgs/acme/teams");
        let response = case.check(("POST", &path, body), "TeamService/CreateTeam", expected, response).await;
        let (status, shown) = response;
        assert_eq!((status, &shown["id"], &shown["permission"]), (201, &json!(7), &json!("write")));
        let path = format!("{prefix}/teams/7/members");
        let expected = repo::ListTeamMembersRequest { team_id: 7, page: 1, page_size: 1000, as_administrator };
        let response = repo::ListTeamMembersResponse { users: vec![user()], total_count: 1 };
        case.check(("GET", &path, ""), "TeamService/ListTeamMembers", expected, response).await;
        let path = format!("{prefix}/teams/7/members/bob");
        let add = repo::AddTeamMemberRequest { team_id: 7, username: "bob".into(), as_administrator };
        case.check_204("PUT", &path, "TeamService/AddTeamMember", add).await;
        let remove = repo::RemoveTeamMemberRequest { team_id: 7, username: "bob".into(), as_administrator };
        case.check_204("DELETE", &path, "TeamService/RemoveTeamMember", remove).await;
        let path = format!("{prefix}/teams/7/repos/demo");
        let add = repo::AddTeamRepositoryRequest {
            team_id: 7,
            repository: "demo".into(),
            as_administrator,
            ..Default::default()
        };
        case.check_204("PUT", &path, "TeamService/AddTeamRepository", add).await;
        let remove = repo::RemoveTeamRepositoryRequest {
            team_id: 7,
            repository: "demo".into(),
            as_administrator,
            ..Default::default()
        };
        case.check_204("DELETE", &path, "TeamService/RemoveTeamRepository", remove).await;
    }
    let expected = repo::UpdateTeamRequest { team_id: 7, description: Some(String::new()), ..Default::default() };
    let response = repo::UpdateTeamResponse { team: team() };
    let body = r#"{"name":"","description":"","permission":null}"#;
    case.check(("PATCH", "/teams/7", body), "TeamService/UpdateTeam", expected, response).await;
    case.check_204("DELETE", "/teams/7", "TeamService/DeleteTeam", repo::DeleteTeamRequest { team_id: 7 }).await;
    let expected = repo::ListTeamRepositoriesRequest { team_id: 7, page: 1, page_size: 1000 };
    let response = repo::ListTeamRepositoriesResponse { repositories: vec![repository()], total_count: 1 };
    let response =
        case.check(("GET", "/teams/7/repos", ""), "TeamService/ListTeamRepositories", expected, response).await;
    assert_eq!(response.1[0]["full_name"], "bob/Demo");
}
