//! Teams as programs written for Gitea make them, with units and flags.

use ferrite_proto::repo;
use serde_json::{Map, Value, json};

use super::GOOD;
use super::operations::Case;
use super::organizations::team;

#[tokio::test]
async fn teams_are_made_by_the_bodies_of_clients_of_gitea() {
    let case = Case::new().await;
    let units = ["repo.code", "repo.issues", "repo.ext_issues", "repo.wiki", "repo.pulls", "repo.releases"];
    let map = |word: &str| units.map(|unit| (unit.to_owned(), json!(word))).into_iter().collect::<Map<_, _>>();
    let flags = json!({"name": "devs", "includes_all_repositories": true, "can_create_org_repo": true});
    let with = |more: Value| {
        let mut body = flags.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    for (body, permission) in [
        (with(json!({"permission": "write", "units": units, "units_map": {}})), "write"),
        (with(json!({"permission": "admin", "units": null, "description": ""})), "admin"),
        (with(json!({"units_map": map("write")})), "write"),
        (with(json!({})), ""),
    ] {
        let expected = repo::CreateTeamRequest {
            organization: "acme".into(),
            name: "devs".into(),
            permission: permission.into(),
            includes_all_repositories: true,
            can_create_repositories: true,
            ..Default::default()
        };
        let response = repo::CreateTeamResponse { team: team() };
        let rpc = "TeamService/CreateTeam";
        assert_eq!(case.check(("POST", "/orgs/acme/teams", &body), rpc, expected, response).await.0, 201);
    }
    let expected = repo::UpdateTeamRequest {
        team_id: 7,
        permission: Some("read".into()),
        includes_all_repositories: Some(false),
        ..Default::default()
    };
    let body = json!({"includes_all_repositories": false, "units_map": map("read")}).to_string();
    let response = repo::UpdateTeamResponse { team: team() };
    assert_eq!(case.check(("PATCH", "/teams/7", &body), "TeamService/UpdateTeam", expected, response).await.0, 200);
    for (body, field) in [
        (with(json!({"permission": "write", "units": ["repo.code"]})), "units"),
        (with(json!({"units_map": {"repo.code": "write"}})), "units_map"),
        (with(json!({"permission": "read", "units_map": map("write")})), "units_map"),
    ] {
        let (status, _, text) = case.gateway.send("POST", "/orgs/acme/teams", Some(GOOD), &body).await;
        let refused: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
}
