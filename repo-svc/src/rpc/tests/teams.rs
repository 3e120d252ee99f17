use ferrite_db::testing::on_each_url;
use ferrite_proto::error::violations;
use ferrite_proto::repo::team_service_client::TeamServiceClient;
use ferrite_proto::repo::{
    AddTeamMemberRequest, AddTeamRepositoryRequest, CreateRepositoryRequest, CreateTeamRequest, DeleteTeamRequest,
    GetTeamRequest, ListTeamMembersRequest, ListTeamRepositoriesRequest, ListTeamsRequest, MembershipRole, Permission,
    RemoveTeamMemberRequest, RemoveTeamRepositoryRequest, ResolveAccessRequest, SearchRepositoriesRequest, Team,
    UpdateTeamRequest,
};
use ferrite_proto::{Scope, operation};
use ferrite_rpc::grpc::Channel;
use tonic::{Code, Status};

use super::organizations::{create, log_entries, narrow, remove, set};
use super::{by_id, refusal, refused};
use crate::testing::{Harness, with_token};

pub(super) fn client(harness: &Harness) -> TeamServiceClient<Channel> {
    TeamServiceClient::new(harness.service.clone())
}

pub(super) async fn team(harness: &Harness, token: &str, name: &str, permission: &str) -> Result<Team, Status> {
    let request = CreateTeamRequest {
        organization: "acme".into(),
        name: name.into(),
        permission: permission.into(),
        ..Default::default()
    };
    Ok(client(harness).create_team(with_token(request, token)).await?.into_inner().team.unwrap())
}

async fn get(harness: &Harness, token: &str, team_id: i64) -> Result<Team, Status> {
    let response = client(harness).get_team(with_token(GetTeamRequest { team_id }, token)).await?;
    Ok(response.into_inner().team.unwrap())
}

pub(super) async fn teams(harness: &Harness, token: &str) -> Result<Vec<Team>, Status> {
    let request = ListTeamsRequest { organization: "acme".into(), page: 1, page_size: 1000 };
    Ok(client(harness).list_teams(with_token(request, token)).await?.into_inner().teams)
}

async fn update(harness: &Harness, token: &str, request: UpdateTeamRequest) -> Result<Team, Status> {
    Ok(client(harness).update_team(with_token(request, token)).await?.into_inner().team.unwrap())
}

async fn delete(harness: &Harness, token: &str, team_id: i64) -> Result<(), Status> {
    client(harness).delete_team(with_token(DeleteTeamRequest { team_id }, token)).await.map(|_| ())
}

pub(super) async fn add_member(harness: &Harness, token: &str, team_id: i64, username: &str) -> Result<(), Status> {
    let request = AddTeamMemberRequest { team_id, username: username.into(), as_administrator: false };
    client(harness).add_team_member(with_token(request, token)).await.map(|_| ())
}

async fn remove_member(harness: &Harness, token: &str, team_id: i64, username: &str) -> Result<(), Status> {
    let request = RemoveTeamMemberRequest { team_id, username: username.into(), as_administrator: false };
    client(harness).remove_team_member(with_token(request, token)).await.map(|_| ())
}

async fn members(harness: &Harness, token: &str, team_id: i64) -> Result<Vec<String>, Status> {
    let request = ListTeamMembersRequest { team_id, page: 1, page_size: 1000, as_administrator: false };
    let response = client(harness).list_team_members(with_token(request, token)).await?.into_inner();
    assert_eq!(response.users.len() as i64, response.total_count);
    Ok(response.users.into_iter().map(|user| user.username).collect())
}

async fn add_repository(harness: &Harness, token: &str, team_id: i64, name: &str) -> Result<(), Status> {
    let request = AddTeamRepositoryRequest { team_id, repository: name.into(), ..Default::default() };
    client(harness).add_team_repository(with_token(request, token)).await.map(|_| ())
}

async fn remove_repository(harness: &Harness, token: &str, team_id: i64, name: &str) -> Result<(), Status> {
    let request = RemoveTeamRepositoryRequest { team_id, repository: name.into(), ..Default::default() };
    client(harness).remove_team_repository(with_token(request, token)).await.map(|_| ())
}

async fn repositories(harness: &Harness, token: &str, team_id: i64) -> Result<Vec<(String, Permission)>, Status> {
    let request = ListTeamRepositoriesRequest { team_id, page: 1, page_size: 1000 };
    let response = client(harness).list_team_repositories(with_token(request, token)).await?.into_inner();
    assert_eq!(response.repositories.len() as i64, response.total_count);
    Ok(response.repositories.into_iter().map(|row| (row.name.clone(), row.permission())).collect())
}

pub(super) async fn repository(harness: &Harness, token: &str, name: &str, is_private: bool) -> i64 {
    let request = CreateRepositoryRequest { name: name.into(), owner: "acme".into(), is_private, ..Default::default() };
    let response = harness.repository().create_repository(with_token(request, token)).await.unwrap();
    response.into_inner().repository.unwrap().id
}

/// The caller's git access to a repository: `nothing`, `read` or `write`.
async fn git(harness: &Harness, token: &str, id: i64) -> &'static str {
    let ask = async |operation: &str| {
        let request = ResolveAccessRequest {
            repository: by_id(id),
            operation: operation.to_owned(),
            ..ResolveAccessRequest::default()
        };
        harness.access().resolve_access(with_token(request, token)).await
    };
    match (ask(operation::UPLOAD_PACK).await, ask(operation::RECEIVE_PACK).await) {
        (Ok(_), Ok(_)) => "write",
        (Ok(_), push) => {
            assert_eq!(refusal(push), refused(Code::PermissionDenied, "PERMISSION_REQUIRED"));
            "read"
        }
        (read, push) => {
            assert_eq!(refusal(read), missing("REPOSITORY_NOT_FOUND"));
            assert_eq!(refusal(push), missing("REPOSITORY_NOT_FOUND"));
            "nothing"
        }
    }
}

fn missing(what: &str) -> (Code, String) {
    refused(Code::NotFound, what)
}

fn owners_only() -> (Code, String) {
    refused(Code::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED")
}

/// Tokens of Ada, who owns `acme`; Bob, a member; Eve, an outsider; and root, a site administrator.
pub(super) async fn setup() -> (Harness, [String; 4]) {
    let harness = Harness::start().await;
    let (ada, bob, eve) =
        (harness.signed_in("ada").await, harness.signed_in("bob").await, harness.signed_in("eve").await);
    harness.user("root", true).await;
    let root = harness.token("root", "test").await;
    create(&harness, &ada, "acme").await;
    set(&harness, &ada, "acme", "bob", MembershipRole::Member).await.unwrap();
    (harness, [ada, bob, eve, root])
}

#[tokio::test]
async fn teams_are_hidden_from_users_who_are_no_members() {
    let (harness, [ada, bob, eve, root]) = setup().await;
    let devs = team(&harness, &ada, "devs", "write").await.unwrap();
    repository(&harness, &ada, "demo", false).await;
    for who in [&ada, &bob, &root] {
        let names: Vec<_> = teams(&harness, who).await.unwrap().into_iter().map(|team| team.name).collect();
        assert_eq!(names, ["Owners", "devs"]);
        assert_eq!(get(&harness, who, devs.id).await.unwrap(), devs);
        assert_eq!(members(&harness, who, devs.id).await.unwrap(), Vec::<String>::new());
        assert_eq!(repositories(&harness, who, devs.id).await.unwrap(), []);
    }
    let outcome = teams(&harness, &eve).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ORGANIZATION_MEMBER_REQUIRED"));
    for (token, id) in [(&eve, devs.id), (&ada, 999), (&ada, 0), (&ada, i64::MAX), (&root, -1)] {
        let hidden = missing("TEAM_NOT_FOUND");
        assert_eq!(refusal(get(&harness, token, id).await), hidden);
        assert_eq!(refusal(members(&harness, token, id).await), hidden);
        assert_eq!(refusal(repositories(&harness, token, id).await), hidden);
        assert_eq!(refusal(delete(&harness, token, id).await), hidden);
        assert_eq!(refusal(add_member(&harness, token, id, "unknown").await), hidden);
        assert_eq!(refusal(remove_member(&harness, token, id, "bob").await), hidden);
        assert_eq!(refusal(add_repository(&harness, token, id, "demo").await), hidden);
        assert_eq!(refusal(remove_repository(&harness, token, id, "demo").await), hidden);
    }
    assert_eq!(refusal(team(&harness, &bob, "a b", "x").await), owners_only());
    assert_eq!(refusal(team(&harness, &eve, "a", "read").await), owners_only());
    assert_eq!(refusal(delete(&harness, &bob, devs.id).await), owners_only());
    assert_eq!(refusal(add_member(&harness, &bob, devs.id, "bob").await), owners_only());
    assert_eq!(refusal(remove_member(&harness, &bob, devs.id, "bob").await), owners_only());
    assert_eq!(refusal(add_repository(&harness, &bob, devs.id, "demo").await), owners_only());
    assert_eq!(refusal(remove_repository(&harness, &bob, devs.id, "demo").await), owners_only());
    let request = UpdateTeamRequest { team_id: devs.id, permission: Some("admin".into()), ..Default::default() };
    assert_eq!(refusal(update(&harness, &bob, request).await), owners_only());
    narrow(&harness, "test", &[Scope::RepoAdmin]).await;
    assert_eq!(refusal(get(&harness, &ada, devs.id).await), refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
}

#[tokio::test]
async fn a_team_is_created_changed_and_deleted() {
    let (harness, [ada, bob, ..]) = setup().await;
    let readers = team(&harness, &ada, "Readers", "").await.unwrap();
    assert_eq!((readers.name.as_str(), readers.permission()), ("Readers", Permission::Read));
    for taken in ["readers", "OWNERS"] {
        let outcome = team(&harness, &ada, taken, "read").await;
        assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "TEAM_ALREADY_EXISTS"));
    }
    for (name, permission, field) in [("new", "read", "name"), ("", "read", "name"), ("x", "owner", "permission")] {
        let status = team(&harness, &ada, name, permission).await.unwrap_err();
        assert_eq!((status.code(), violations(&status)[0].0.as_str()), (Code::InvalidArgument, field));
    }
    let change = |team_id, name: &str, permission: &str| UpdateTeamRequest {
        team_id,
        name: Some(name.into()).filter(|_| !name.is_empty()),
        description: None,
        permission: Some(permission.into()).filter(|_| !permission.is_empty()),
        ..Default::default()
    };
    let changed = update(&harness, &ada, change(readers.id, "Writers", "write")).await.unwrap();
    assert_eq!((changed.name.as_str(), changed.permission()), ("Writers", Permission::Write));
    assert_eq!(update(&harness, &ada, change(readers.id, "", "")).await.unwrap(), changed);
    team(&harness, &ada, "other", "admin").await.unwrap();
    let outcome = update(&harness, &ada, change(readers.id, "OTHER", "")).await;
    assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "TEAM_ALREADY_EXISTS"));

    let owners = teams(&harness, &bob).await.unwrap().remove(0);
    let as_it_is = || refused(Code::FailedPrecondition, "OWNERS_TEAM");
    assert_eq!(refusal(update(&harness, &ada, change(owners.id, "x", "")).await), as_it_is());
    assert_eq!(refusal(update(&harness, &ada, change(owners.id, "", "admin")).await), as_it_is());
    assert_eq!(refusal(delete(&harness, &ada, owners.id).await), as_it_is());
    delete(&harness, &ada, readers.id).await.unwrap();
    assert_eq!(refusal(delete(&harness, &ada, readers.id).await), missing("TEAM_NOT_FOUND"));
    let log = log_entries(&harness).await;
    assert_eq!(
        log[2..],
        [
            r#"ada team.create acme/Readers {"permission":"read"}"#,
            r#"ada team.update acme/Readers {"fields":"name,permission","name":"Writers","permission":"write"}"#,
            r#"ada team.create acme/other {"permission":"admin"}"#,
            r#"ada team.delete acme/Writers {}"#
        ]
    );
}

#[tokio::test]
async fn members_of_a_team_are_members_of_its_organization_and_an_owner_is_left() {
    let (harness, [ada, bob, eve, _]) = setup().await;
    let devs = team(&harness, &ada, "devs", "write").await.unwrap();
    let owners = teams(&harness, &ada).await.unwrap().remove(0);
    for _ in 0..2 {
        add_member(&harness, &ada, devs.id, "EVE").await.unwrap();
    }
    assert_eq!(members(&harness, &eve, devs.id).await.unwrap(), ["eve"]);
    for name in ["unknown", "acme", "a/b"] {
        assert_eq!(refusal(add_member(&harness, &ada, devs.id, name).await), missing("USER_NOT_FOUND"));
        assert_eq!(refusal(remove_member(&harness, &ada, devs.id, name).await), missing("USER_NOT_FOUND"));
    }
    for _ in 0..2 {
        remove_member(&harness, &ada, devs.id, "eve").await.unwrap();
    }
    assert_eq!(members(&harness, &eve, devs.id).await.unwrap(), Vec::<String>::new(), "still of the organization");

    let outcome = remove_member(&harness, &ada, owners.id, "ada").await;
    assert_eq!(refusal(outcome), refused(Code::FailedPrecondition, "LAST_OWNER"));
    remove_member(&harness, &ada, owners.id, "bob").await.unwrap();
    add_member(&harness, &ada, owners.id, "bob").await.unwrap();
    remove_member(&harness, &bob, owners.id, "ada").await.unwrap();
    assert_eq!(members(&harness, &ada, owners.id).await.unwrap(), ["bob"]);
    assert_eq!(refusal(add_member(&harness, &ada, owners.id, "ada").await), owners_only());
    let log = log_entries(&harness).await;
    assert_eq!(
        log[3..],
        [
            r#"ada member.set acme {"role":"member","user":"eve"}"#,
            r#"ada team_member.add acme/devs {"user":"eve"}"#,
            r#"ada team_member.remove acme/devs {"user":"eve"}"#,
            r#"ada team_member.add acme/Owners {"user":"bob"}"#,
            r#"bob team_member.remove acme/Owners {"user":"ada"}"#
        ]
    );
}

#[tokio::test]
async fn teams_hold_repositories_of_their_organization_only() {
    let (harness, [ada, bob, ..]) = setup().await;
    let devs = team(&harness, &ada, "devs", "write").await.unwrap();
    let owners = teams(&harness, &ada).await.unwrap().remove(0);
    repository(&harness, &ada, "Demo", true).await;
    repository(&harness, &ada, "open", false).await;
    harness.create(&ada, "own", false).await.unwrap();
    for name in ["own", "nothing", "a/b", ""] {
        let hidden = missing("REPOSITORY_NOT_FOUND");
        for team in [devs.id, owners.id] {
            assert_eq!(refusal(add_repository(&harness, &ada, team, name).await), hidden);
            assert_eq!(refusal(remove_repository(&harness, &ada, team, name).await), hidden);
        }
    }
    for _ in 0..2 {
        add_repository(&harness, &ada, devs.id, "dEMO").await.unwrap();
        add_repository(&harness, &ada, owners.id, "demo").await.unwrap();
    }
    let row = |name: &str, permission| (name.to_owned(), permission);
    use Permission::{Owner, Read, Write};
    assert_eq!(repositories(&harness, &ada, devs.id).await.unwrap(), [row("Demo", Owner)]);
    assert_eq!(repositories(&harness, &bob, devs.id).await.unwrap(), [], "no member of the team");
    assert_eq!(repositories(&harness, &ada, owners.id).await.unwrap(), [row("open", Owner), row("Demo", Owner)]);
    assert_eq!(repositories(&harness, &bob, owners.id).await.unwrap(), [row("open", Read)]);
    add_member(&harness, &ada, devs.id, "bob").await.unwrap();
    assert_eq!(repositories(&harness, &bob, devs.id).await.unwrap(), [row("Demo", Write)]);
    let outcome = remove_repository(&harness, &ada, owners.id, "demo").await;
    assert_eq!(refusal(outcome), refused(Code::FailedPrecondition, "OWNERS_TEAM"));
    for _ in 0..2 {
        remove_repository(&harness, &ada, devs.id, "DEMO").await.unwrap();
    }
    assert_eq!(repositories(&harness, &ada, devs.id).await.unwrap(), []);
    let log: Vec<_> = log_entries(&harness).await.into_iter().filter(|row| row.contains("team_repository")).collect();
    assert_eq!(
        log,
        [
            r#"ada team_repository.add acme/devs {"repository":"Demo"}"#,
            r#"ada team_repository.remove acme/devs {"repository":"Demo"}"#
        ]
    );
}

#[tokio::test]
async fn a_change_of_a_team_holds_from_the_next_request() {
    let (harness, [ada, bob, eve, _]) = setup().await;
    let demo = repository(&harness, &ada, "demo", true).await;
    let devs = team(&harness, &ada, "devs", "write").await.unwrap();
    let give = async || {
        let devs = team(&harness, &ada, "again", "write").await.unwrap();
        add_repository(&harness, &ada, devs.id, "demo").await.unwrap();
        add_member(&harness, &ada, devs.id, "bob").await.unwrap();
        assert_eq!(git(&harness, &bob, demo).await, "write");
        devs.id
    };
    assert_eq!(git(&harness, &ada, demo).await, "write");
    assert_eq!(git(&harness, &bob, demo).await, "nothing", "a member has no level without a team");
    add_repository(&harness, &ada, devs.id, "demo").await.unwrap();
    assert_eq!(git(&harness, &bob, demo).await, "nothing");
    add_member(&harness, &ada, devs.id, "bob").await.unwrap();
    assert_eq!((git(&harness, &bob, demo).await, git(&harness, &eve, demo).await), ("write", "nothing"));
    let request = UpdateTeamRequest { team_id: devs.id, permission: Some("read".into()), ..Default::default() };
    update(&harness, &ada, request).await.unwrap();
    assert_eq!(git(&harness, &bob, demo).await, "read");
    remove_member(&harness, &ada, devs.id, "bob").await.unwrap();
    assert_eq!(git(&harness, &bob, demo).await, "nothing");
    delete(&harness, &ada, give().await).await.unwrap();
    assert_eq!(git(&harness, &bob, demo).await, "nothing", "the team is gone");
    let id = give().await;
    remove_repository(&harness, &ada, id, "demo").await.unwrap();
    assert_eq!(git(&harness, &bob, demo).await, "nothing", "the repository was taken away");
    delete(&harness, &ada, id).await.unwrap();
    give().await;
    remove(&harness, &ada, "acme", "bob").await.unwrap();
    assert_eq!(git(&harness, &bob, demo).await, "nothing", "no longer a member");
    set(&harness, &ada, "acme", "bob", MembershipRole::Member).await.unwrap();
    assert_eq!(git(&harness, &bob, demo).await, "nothing", "lost access does not come back");
    set(&harness, &ada, "acme", "bob", MembershipRole::Admin).await.unwrap();
    assert_eq!(git(&harness, &bob, demo).await, "write", "owners hold everything");
    set(&harness, &bob, "acme", "ada", MembershipRole::Member).await.unwrap();
    assert_eq!(git(&harness, &ada, demo).await, "nothing");
}

#[tokio::test]
async fn only_administrators_act_as_administrators() {
    let (harness, [ada, _, _, root]) = setup().await;
    let devs = team(&harness, &ada, "devs", "write").await.unwrap();
    repository(&harness, &ada, "demo", true).await;
    let (team_id, as_administrator) = (devs.id, true);
    let all = async |token: &str| {
        let mut client = client(&harness);
        let new = CreateTeamRequest {
            organization: "ACME".into(),
            name: "made".into(),
            as_administrator,
            ..Default::default()
        };
        let username = "eve".to_owned();
        let repository = "demo".to_owned();
        let member = AddTeamMemberRequest { team_id, username: username.clone(), as_administrator };
        let no_member = RemoveTeamMemberRequest { team_id, username, as_administrator };
        let held = AddTeamRepositoryRequest {
            team_id,
            repository: repository.clone(),
            as_administrator,
            ..Default::default()
        };
        let not_held = RemoveTeamRepositoryRequest { team_id, repository, as_administrator, ..Default::default() };
        let list = ListTeamMembersRequest { team_id, page: 1, page_size: 9, as_administrator };
        [
            client.create_team(with_token(new, token)).await.map(|_| ()),
            client.add_team_member(with_token(member, token)).await.map(|_| ()),
            client.list_team_members(with_token(list, token)).await.map(|response| {
                assert_eq!(response.into_inner().users[0].username, "eve");
            }),
            client.add_team_repository(with_token(held, token)).await.map(|_| ()),
            client.remove_team_repository(with_token(not_held, token)).await.map(|_| ()),
            client.remove_team_member(with_token(no_member, token)).await.map(|_| ()),
        ]
    };
    for outcome in all(&ada).await {
        assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ADMIN_REQUIRED"), "though she owns it");
    }
    for outcome in all(&root).await {
        outcome.unwrap();
    }
    let request =
        CreateTeamRequest { organization: "ada".into(), name: "x".into(), as_administrator, ..Default::default() };
    let outcome = client(&harness).create_team(with_token(request, &root)).await;
    assert_eq!(refusal(outcome), missing("ORGANIZATION_NOT_FOUND"));
    narrow(&harness, "test", &[Scope::Org, Scope::RepoAdmin]).await;
    for outcome in all(&root).await {
        assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
    }
    assert_eq!(refusal(get(&harness, &root, team_id).await), missing("TEAM_NOT_FOUND"));
}

#[tokio::test]
async fn a_search_by_team_finds_what_its_members_may_see() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob, eve) =
            (harness.signed_in("ada").await, harness.signed_in("bob").await, harness.signed_in("eve").await);
        create(&harness, &ada, "acme").await;
        set(&harness, &ada, "acme", "bob", MembershipRole::Member).await.unwrap();
        for (name, is_private) in [("open", false), ("closed", true), ("other", false)] {
            repository(&harness, &ada, name, is_private).await;
        }
        let devs = team(&harness, &ada, "devs", "read").await.unwrap().id;
        let owners = teams(&harness, &ada).await.unwrap().into_iter().find(|team| team.id != devs).unwrap().id;
        for name in ["open", "closed"] {
            add_repository(&harness, &ada, devs, name).await.unwrap();
        }
        let search = async |token: &str, team_id: i64| {
            let request = SearchRepositoriesRequest { team_id, page: 1, page_size: 10, ..Default::default() };
            let found = harness.repository().search_repositories(with_token(request, token)).await.unwrap();
            found.into_inner().repositories.into_iter().map(|row| row.name).collect::<Vec<_>>()
        };
        assert_eq!(search(&ada, devs).await, ["open", "closed"]);
        assert_eq!(search(&ada, owners).await, ["open", "closed", "other"]);
        assert_eq!(search(&bob, devs).await, ["open"]);
        for (token, team) in [(eve.as_str(), devs), ("", devs), (ada.as_str(), 999_999)] {
            assert_eq!(search(token, team).await, [""; 0], "{team}");
        }
        narrow(&harness, "test", &[Scope::RepoRead]).await;
        assert_eq!(search(&ada, devs).await, [""; 0], "without the scope for teams");
    })
    .await;
}
