//! Who may review, and who is listed as such.

use ferrite_db::args;
use ferrite_proto::error::violations;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::collaborator_service_client::CollaboratorServiceClient;
use ferrite_proto::repo::{
    AddTeamRepositoryRequest, DescribeReviewersRequest, DescribeReviewersResponse, ListAssigneesRequest, Reviewer,
    ReviewingTeam, SetCollaboratorRequest,
};
use ferrite_proto::{Scope, ServiceRole};
use tonic::{Code, Status};

use super::organizations::{narrow, show};
use super::teams::{add_member, client as teams, repository, setup, team};
use super::{by_id, refusal, refused};
use crate::testing::{Harness, with_token};

async fn describe(harness: &Harness, request: DescribeReviewersRequest) -> Result<DescribeReviewersResponse, Status> {
    let mut client = AccessServiceClient::new(harness.channel_of(ServiceRole::IssueSvc));
    client.describe_reviewers(request).await.map(tonic::Response::into_inner)
}

async fn assignees(harness: &Harness, token: &str, id: i64) -> Result<Vec<String>, Status> {
    let request = ListAssigneesRequest { repository: by_id(id), page: 1, page_size: 10 };
    let mut client = CollaboratorServiceClient::new(harness.service.clone());
    let response = client.list_assignees(with_token(request, token)).await?.into_inner();
    assert_eq!(response.users.len() as i64, response.total_count);
    Ok(response.users.into_iter().map(|user| user.username).collect())
}

async fn collaborate(harness: &Harness, token: &str, id: i64, username: &str, permission: &str) {
    let permission = Some(permission.to_owned());
    let request = SetCollaboratorRequest { repository: by_id(id), username: username.into(), permission };
    let mut client = CollaboratorServiceClient::new(harness.service.clone());
    client.set_collaborator(with_token(request, token)).await.unwrap();
}

async fn give(harness: &Harness, token: &str, team_id: i64, repository: &str) {
    let request = AddTeamRepositoryRequest { team_id, repository: repository.into(), ..Default::default() };
    teams(harness).add_team_repository(with_token(request, token)).await.unwrap();
}

async fn id_of(harness: &Harness, name: &str) -> i64 {
    harness.db().await.one::<(i64,)>("SELECT id FROM users WHERE name_key = $1", &args![name]).await.unwrap().0
}

fn names(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[tokio::test]
async fn reviewers_are_described_in_the_order_of_the_request() {
    let (harness, [ada, ..]) = setup().await;
    let demo = repository(&harness, &ada, "demo", true).await;
    let devs = team(&harness, &ada, "Devs", "write").await.unwrap().id;
    let idle = team(&harness, &ada, "idle", "write").await.unwrap().id;
    add_member(&harness, &ada, devs, "bob").await.unwrap();
    give(&harness, &ada, devs, "demo").await;
    collaborate(&harness, &ada, demo, "eve", "read").await;
    let (bob, eve, root) = (id_of(&harness, "bob").await, id_of(&harness, "eve").await, id_of(&harness, "root").await);
    let request = DescribeReviewersRequest {
        repository_id: demo,
        usernames: names(&["EVE", "nobody", "a/b", "acme", "bob"]),
        user_ids: vec![root, bob, 999, bob],
        team_names: names(&["idle", "nothing", "dEVS", ""]),
    };
    let of_bob = Reviewer { user_id: bob, can_read: true, can_write: true, team_ids: vec![devs] };
    let of_eve = Reviewer { user_id: eve, can_read: true, ..Reviewer::default() };
    // A role of its own is what counts of an administrator of the site.
    let of_root = Reviewer { user_id: root, ..Reviewer::default() };
    let none = Reviewer::default;
    let expected = DescribeReviewersResponse {
        users: vec![of_eve, none(), none(), none(), of_bob.clone(), of_root, of_bob.clone(), none(), of_bob],
        teams: vec![
            ReviewingTeam { team_id: idle, name: "idle".into(), can_read: false },
            ReviewingTeam::default(),
            ReviewingTeam { team_id: devs, name: "Devs".into(), can_read: true },
            ReviewingTeam::default(),
        ],
    };
    assert_eq!(describe(&harness, request.clone()).await.unwrap(), expected);
    let off = "UPDATE repositories SET is_archived = $2, has_pulls = $3 WHERE id = $1";
    harness.db().await.execute(off, &args![demo, true, false]).await.unwrap();
    assert_eq!(describe(&harness, request).await.unwrap(), expected, "permissions are what they were");
}

#[tokio::test]
async fn a_request_describes_a_limited_number_of_reviewers() {
    let (harness, [ada, bob, ..]) = setup().await;
    let demo = repository(&harness, &ada, "demo", false).await;
    let request = |users: usize, ids: i64, teams: usize| DescribeReviewersRequest {
        repository_id: demo,
        usernames: vec!["bob".into(); users],
        user_ids: (1..=ids).collect(),
        team_names: vec!["owners".into(); teams],
    };
    let most = describe(&harness, request(100, 100, 10)).await.unwrap();
    assert_eq!((most.users.len(), most.teams.len()), (200, 10));
    assert!(most.users[..100].iter().all(|user| user.can_read) && most.teams.iter().all(|team| team.can_read));
    for (request, field) in [(request(100, 101, 0), "user_ids"), (request(0, 0, 11), "team_names")] {
        let status = describe(&harness, request).await.unwrap_err();
        assert_eq!((status.code(), violations(&status)[0].0.as_str()), (Code::InvalidArgument, field));
    }
    let nowhere = DescribeReviewersRequest { repository_id: 999, ..request(1, 0, 0) };
    assert_eq!(refusal(describe(&harness, nowhere).await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    let by_user = harness.access().describe_reviewers(with_token(request(1, 0, 0), &bob)).await;
    assert_eq!(refusal(by_user).0, Code::PermissionDenied);
}

#[tokio::test]
async fn private_members_are_listed_for_members_and_writers() {
    let (harness, [ada, bob, eve, root]) = setup().await;
    let demo = repository(&harness, &ada, "demo", false).await;
    let devs = team(&harness, &ada, "devs", "read").await.unwrap().id;
    add_member(&harness, &ada, devs, "bob").await.unwrap();
    give(&harness, &ada, devs, "demo").await;
    for who in [&ada, &bob, &root] {
        assert_eq!(assignees(&harness, who, demo).await.unwrap(), ["ada", "bob"]);
    }
    assert_eq!(assignees(&harness, &eve, demo).await.unwrap(), [""; 0]);
    show(&harness, &ada, "acme", true).await.unwrap();
    assert_eq!(assignees(&harness, &eve, demo).await.unwrap(), ["ada"]);
    collaborate(&harness, &ada, demo, "eve", "write").await;
    assert_eq!(assignees(&harness, &eve, demo).await.unwrap(), ["ada", "bob", "eve"]);

    narrow(&harness, "test", &[Scope::RepoRead]).await;
    for who in [&bob, &eve] {
        assert_eq!(assignees(&harness, who, demo).await.unwrap(), ["ada", "eve"], "without the scope `org`");
    }
    assert_eq!(assignees(&harness, "", demo).await.unwrap(), ["ada", "eve"], "without a token");
    narrow(&harness, "test", &Scope::ALL).await;
    let own = harness.create(&bob, "own", true).await.unwrap().id;
    assert_eq!(assignees(&harness, &bob, own).await.unwrap(), ["bob"]);
    assert_eq!(refusal(assignees(&harness, &eve, own).await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
}
