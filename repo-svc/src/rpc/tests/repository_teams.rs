use ferrite_db::testing::on_each_url;
use ferrite_proto::Scope;
use ferrite_proto::repo::repository_team_service_client::RepositoryTeamServiceClient;
use ferrite_proto::repo::*;
use ferrite_rpc::grpc::Channel;
use tonic::{Code, Status};

use super::conditional::{asking, is_refused, requiring, told};
use super::organizations::{client as organizations, create, log_entries, narrow};
use super::teams::{add_member, client as teams, repository, setup, team};
use super::{by_name, refusal, refused};
use crate::testing::{Harness, with_token};

fn client(harness: &Harness) -> RepositoryTeamServiceClient<Channel> {
    RepositoryTeamServiceClient::new(harness.service.clone())
}

async fn list(harness: &Harness, token: &str) -> Result<Vec<String>, Status> {
    let request = ListRepositoryTeamsRequest { repository: by_name("acme", "demo"), page: 1, page_size: 10 };
    let response = client(harness).list_repository_teams(with_token(request, token)).await?.into_inner();
    assert_eq!(response.teams.len() as i64, response.total_count);
    Ok(response.teams.into_iter().map(|team| team.name).collect())
}

async fn get(harness: &Harness, token: &str, team: &str) -> Result<Team, Status> {
    let request = GetRepositoryTeamRequest { repository: by_name("ACME", "Demo"), team: team.into() };
    let response = client(harness).get_repository_team(with_token(request, token)).await?;
    Ok(response.into_inner().team.unwrap())
}

async fn add(harness: &Harness, token: &str, team: &str) -> Result<(), Status> {
    let request = AddRepositoryTeamRequest { repository: by_name("acme", "demo"), team: team.into() };
    client(harness).add_repository_team(with_token(request, token)).await.map(drop)
}

async fn remove(harness: &Harness, token: &str, team: &str) -> Result<(), Status> {
    let request = RemoveRepositoryTeamRequest { repository: by_name("acme", "demo"), team: team.into() };
    client(harness).remove_repository_team(with_token(request, token)).await.map(drop)
}

fn missing(what: &str) -> (Code, String) {
    refused(Code::NotFound, what)
}

#[tokio::test]
async fn a_team_gets_and_loses_a_repository_by_name() {
    let (harness, [ada, bob, _, root]) = setup().await;
    repository(&harness, &ada, "demo", false).await;
    let devs = team(&harness, &ada, "Devs", "write").await.unwrap();
    assert_eq!(list(&harness, &bob).await.unwrap(), ["Owners"]);
    assert_eq!(refusal(get(&harness, &bob, "devs").await), missing("TEAM_NOT_FOUND"));
    for _ in 0..2 {
        add(&harness, &ada, "dEVS").await.unwrap();
        add(&harness, &ada, "owners").await.unwrap();
    }
    assert_eq!(get(&harness, &bob, "DEVS").await.unwrap(), devs);
    for who in [&ada, &bob, &root] {
        assert_eq!(list(&harness, who).await.unwrap(), ["Owners", "Devs"]);
    }
    remove(&harness, &ada, "DEVS").await.unwrap();
    assert_eq!(refusal(remove(&harness, &ada, "devs").await), missing("TEAM_NOT_FOUND"));
    let outcome = remove(&harness, &ada, "Owners").await;
    assert_eq!(refusal(outcome), refused(Code::FailedPrecondition, "OWNERS_TEAM"));
    let log: Vec<_> = log_entries(&harness).await.into_iter().filter(|row| row.contains("team_repository")).collect();
    assert_eq!(
        log,
        [
            r#"ada team_repository.add acme/Devs {"repository":"demo"}"#,
            r#"ada team_repository.remove acme/Devs {"repository":"demo"}"#
        ]
    );
}

#[tokio::test]
async fn owners_change_the_teams_and_outsiders_see_none() {
    let (harness, [ada, bob, eve, _]) = setup().await;
    repository(&harness, &ada, "demo", false).await;
    let admins = team(&harness, &ada, "admins", "admin").await.unwrap();
    add_member(&harness, &ada, admins.id, "bob").await.unwrap();
    add(&harness, &ada, "admins").await.unwrap();
    create(&harness, &eve, "other").await;
    assert_eq!(list(&harness, &eve).await.unwrap(), Vec::<String>::new());
    for (token, name) in [(&eve, "admins"), (&ada, "nobody"), (&ada, ""), (&bob, "a/b")] {
        assert_eq!(refusal(get(&harness, token, name).await), missing("TEAM_NOT_FOUND"));
        assert_eq!(refusal(add(&harness, token, name).await), missing("TEAM_NOT_FOUND"));
        assert_eq!(refusal(remove(&harness, token, name).await), missing("TEAM_NOT_FOUND"));
    }
    let owners_only = refused(Code::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED");
    assert_eq!(refusal(add(&harness, &bob, "admins").await), owners_only);
    assert_eq!(refusal(remove(&harness, &bob, "admins").await), owners_only);
    assert_eq!(refusal(list(&harness, "").await), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    harness.create(&ada, "own", false).await.unwrap();
    let of_user = GetRepositoryTeamRequest { repository: by_name("ada", "own"), team: "admins".into() };
    let outcome = client(&harness).get_repository_team(with_token(of_user, &ada)).await;
    assert_eq!(refusal(outcome), missing("ORGANIZATION_NOT_FOUND"));

    let scope = || refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE");
    narrow(&harness, "test", &[Scope::RepoAdmin]).await;
    assert_eq!(refusal(list(&harness, &ada).await), scope());
    assert_eq!(refusal(remove(&harness, &ada, "admins").await), scope());
    assert_eq!(list(&harness, &eve).await.unwrap(), Vec::<String>::new());
    narrow(&harness, "test", &[Scope::Org, Scope::RepoRead]).await;
    assert_eq!(refusal(add(&harness, &ada, "admins").await), scope());
    remove(&harness, &ada, "admins").await.unwrap();
}

#[tokio::test]
async fn administrators_of_the_repository_change_its_teams_if_the_organization_lets_them() {
    let (harness, [ada, bob, ..]) = setup().await;
    repository(&harness, &ada, "demo", true).await;
    let admins = team(&harness, &ada, "admins", "admin").await.unwrap();
    team(&harness, &ada, "devs", "write").await.unwrap();
    add_member(&harness, &ada, admins.id, "bob").await.unwrap();
    add(&harness, &ada, "admins").await.unwrap();
    let owners_only = refused(Code::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED");
    assert_eq!(refusal(add(&harness, &bob, "devs").await), owners_only);
    let change = UpdateOrganizationRequest {
        organization: "acme".into(),
        repository_admins_change_teams: Some(true),
        ..Default::default()
    };
    organizations(&harness).update_organization(with_token(change, &ada)).await.unwrap();
    add(&harness, &bob, "devs").await.unwrap();
    remove(&harness, &bob, "devs").await.unwrap();
    remove(&harness, &bob, "admins").await.unwrap();
    assert_eq!(refusal(add(&harness, &bob, "admins").await), missing("REPOSITORY_NOT_FOUND"), "no team, no level");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_and_repositories_of_teams_are_changed_under_a_precondition() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        harness.user("bob", false).await;
        create(&harness, &ada, "acme").await;
        repository(&harness, &ada, "demo", true).await;
        let team_id = team(&harness, &ada, "crew", "write").await.unwrap().id;
        let add = || AddRepositoryTeamRequest { repository: by_name("acme", "demo"), team: "crew".into() };
        for precondition in ["exists", "never"] {
            let outcome = client(&harness).add_repository_team(requiring(add(), &ada, precondition)).await;
            assert!(is_refused(&outcome), "{precondition}");
        }
        client(&harness).add_repository_team(requiring(add(), &ada, "absent")).await.unwrap();
        assert!(is_refused(&client(&harness).add_repository_team(requiring(add(), &ada, "absent")).await));
        let get = GetRepositoryTeamRequest { repository: by_name("acme", "demo"), team: "crew".into() };
        let version = told(&client(&harness).get_repository_team(asking(get, &ada)).await.unwrap());
        let remove = || RemoveRepositoryTeamRequest { repository: by_name("acme", "demo"), team: "crew".into() };
        for precondition in ["absent", "never"] {
            let outcome = client(&harness).remove_repository_team(requiring(remove(), &ada, precondition)).await;
            assert!(is_refused(&outcome), "{precondition}");
        }
        client(&harness).remove_repository_team(requiring(remove(), &ada, &version)).await.unwrap();

        let give = || AddTeamRepositoryRequest { team_id, repository: "demo".into(), ..Default::default() };
        assert!(is_refused(&teams(&harness).add_team_repository(requiring(give(), &ada, "exists")).await));
        teams(&harness).add_team_repository(requiring(give(), &ada, "absent")).await.unwrap();
        let get = || GetTeamRepositoryRequest { team_id, repository: "DEMO".into(), organization: "Acme".into() };
        let shown = teams(&harness).get_team_repository(asking(get(), &ada)).await.unwrap();
        assert_eq!(shown.get_ref().repository.as_ref().unwrap().name, "demo");
        let take = |organization: &str| RemoveTeamRepositoryRequest {
            team_id,
            repository: "demo".into(),
            organization: organization.into(),
            ..Default::default()
        };
        let foreign = teams(&harness).remove_team_repository(with_token(take("ada"), &ada)).await;
        assert_eq!(refusal(foreign), missing("REPOSITORY_NOT_FOUND"));
        assert!(is_refused(&teams(&harness).remove_team_repository(requiring(take("acme"), &ada, "absent")).await));
        teams(&harness).remove_team_repository(requiring(take("acme"), &ada, &told(&shown))).await.unwrap();
        let gone = teams(&harness).get_team_repository(with_token(get(), &ada)).await;
        assert_eq!(refusal(gone), missing("REPOSITORY_NOT_FOUND"));

        let join = || AddTeamMemberRequest { team_id, username: "bob".into(), as_administrator: false };
        let member = || GetTeamMemberRequest { team_id, username: "BOB".into() };
        let gone = teams(&harness).get_team_member(with_token(member(), &ada)).await;
        assert_eq!(refusal(gone), missing("MEMBER_NOT_FOUND"));
        assert!(is_refused(&teams(&harness).add_team_member(requiring(join(), &ada, "exists")).await));
        teams(&harness).add_team_member(requiring(join(), &ada, "absent")).await.unwrap();
        let shown = teams(&harness).get_team_member(asking(member(), &ada)).await.unwrap();
        assert_eq!(shown.get_ref().user.as_ref().unwrap().username, "bob");
        let leave = || RemoveTeamMemberRequest { team_id, username: "bob".into(), as_administrator: false };
        assert!(is_refused(&teams(&harness).remove_team_member(requiring(leave(), &ada, "never")).await));
        teams(&harness).remove_team_member(requiring(leave(), &ada, &told(&shown))).await.unwrap();
    })
    .await;
}
