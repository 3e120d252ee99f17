//! Feeds of activities: who asks, and what is shown.

use ferrite_core::timestamp;
use ferrite_proto::hook::list_activities_request::Subject;
use ferrite_proto::hook::{Activity, ActivityKind, ListActivitiesRequest, ListActivitiesResponse};
use ferrite_proto::repo;
use serde_json::{Value, json};

use super::GOOD;
use super::operations::{Case, repository};

const LIST: &str = "ferrite.hook.v1.ActivityService/ListActivities";

fn user(id: i64, is_organization: bool) -> repo::User {
    repo::User { id, username: format!("u{id}"), is_organization, ..Default::default() }
}

#[tokio::test]
async fn an_activity_has_who_did_what_where() {
    let case = Case::new().await;
    case.script.respond("AccountService/GetUser", &repo::GetUserResponse { user: Some(user(3, false)) });
    let users = repo::GetUsersResponse { users: vec![user(8, false)], ..Default::default() };
    case.script.respond("AccountService/GetUsers", &users);
    let opened = Activity {
        id: 5,
        kind: ActivityKind::OpenIssue.into(),
        user_id: 8,
        repository_id: 7,
        create_time: Some(timestamp(0)),
        number: 2,
        title: "Broken".into(),
        ..Default::default()
    };
    let of_the_future = Activity { kind: 9_999, ..opened.clone() };
    let response = ListActivitiesResponse {
        activities: vec![opened, of_the_future],
        repositories: vec![repository()],
        total_count: 2,
    };
    let expected =
        ListActivitiesRequest { subject: Some(Subject::UserId(3)), only_performed: true, page: 2, page_size: 5 };
    let path = "/users/u3/activities/feeds?only-performed-by=true&page=2&limit=5";
    let (status, shown) = case.check(("GET", path, ""), LIST, expected, response).await;
    assert_eq!((status, shown.as_array().unwrap().len()), (200, 1), "{shown}");
    let about = |name: &str| shown[0][name].clone();
    assert_eq!((about("op_type"), about("content")), (json!("create_issue"), json!("2|Broken")));
    assert_eq!((about("user_id"), about("act_user_id"), about("repo_id")), (json!(3), json!(8), json!(7)));
    assert_eq!((&shown[0]["act_user"]["login"], &shown[0]["repo"]["name"]), (&json!("u8"), &json!("Demo")));
    assert!(case.script.took_request("AccessService/CheckAccess"), "for a grant");
    assert!(!case.script.called()[LIST], "hook-svc gets no token");
}

#[tokio::test]
async fn the_path_names_the_subject() {
    let case = Case::new().await;
    case.script.respond(LIST, &ListActivitiesResponse::default());
    case.script.respond("AccountService/GetUser", &repo::GetUserResponse { user: Some(user(5, true)) });
    let organization = Some(repo::Organization { id: 6, username: "acme".into(), ..Default::default() });
    case.script.respond("OrganizationService/GetOrganization", &repo::GetOrganizationResponse { organization });
    let found = repo::GetRepositoryResponse { repository: Some(repository()) };
    case.script.respond("RepositoryService/GetRepository", &found);
    for (path, subject) in [
        ("/users/acme/activities/feeds", Subject::OwnerId(5)),
        ("/orgs/acme/activities/feeds", Subject::OwnerId(6)),
        ("/repos/bob/demo/activities/feeds", Subject::RepositoryId(7)),
    ] {
        let expected = ListActivitiesRequest { subject: Some(subject), only_performed: false, page: 1, page_size: 10 };
        for token in [None, Some(GOOD)] {
            let (status, _, text) = case.gateway.send("GET", path, token, "").await;
            assert_eq!((status, serde_json::from_str::<Value>(&text).unwrap()), (200, json!([])), "{path}");
            assert_eq!(case.script.take_request(LIST), Some(expected), "{path}");
            assert_eq!(case.script.took_request("AccessService/CheckAccess"), token.is_some(), "{path}");
        }
    }
}
