//! The JSON shape of repositories.

use super::*;

fn message() -> repo::Repository {
    repo::Repository {
        id: 2,
        owner: Some(repo::User {
            id: 1,
            username: "bob".into(),
            email: "bob@example.com".into(),
            ..Default::default()
        }),
        name: "demo".into(),
        create_time: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
        update_time: Some(prost_types::Timestamp { seconds: 2, nanos: 0 }),
        permission: repo::Permission::Write.into(),
        ..Default::default()
    }
}

fn to_json(message: repo::Repository, viewer: Viewer) -> serde_json::Value {
    let links = Links::new("http://git.example.com", "git.example.com:22");
    serde_json::to_value(Repository::new(message, viewer, &links).unwrap()).unwrap()
}

#[test]
fn a_repository_has_the_shape_of_the_contract() {
    insta::assert_json_snapshot!(to_json(message(), Viewer::Authenticated), @r#"
    {
      "clone_url": "http://git.example.com/bob/demo.git",
      "created_at": "1970-01-01T00:00:01Z",
      "default_branch": "",
      "description": "",
      "empty": false,
      "fork": false,
      "forks_count": 0,
      "full_name": "bob/demo",
      "html_url": "http://git.example.com/bob/demo",
      "id": 2,
      "mirror": false,
      "name": "demo",
      "open_issues_count": 0,
      "owner": {
        "avatar_url": "http://git.example.com/avatars/1",
        "email": "bob@example.com",
        "full_name": "",
        "id": 1,
        "login": "bob",
        "username": "bob"
      },
      "permissions": {
        "admin": false,
        "pull": true,
        "push": true
      },
      "private": false,
      "size": 0,
      "ssh_url": "git@git.example.com:bob/demo.git",
      "stars_count": 0,
      "updated_at": "1970-01-01T00:00:02Z",
      "watchers_count": 0,
      "website": ""
    }
    "#);
}

#[test]
fn mail_addresses_are_blank_for_anonymous_callers() {
    assert_eq!(to_json(message(), Viewer::Anonymous)["owner"]["email"], "");
}

#[test]
fn only_a_fork_has_a_parent_and_the_parent_has_none() {
    let grandparent = repo::Repository { id: 9, is_fork: true, ..message() };
    let parent = repo::Repository { id: 8, is_fork: true, parent: Some(Box::new(grandparent)), ..message() };
    let fork = repo::Repository { is_fork: true, parent: Some(Box::new(parent)), ..message() };
    let value = to_json(fork.clone(), Viewer::Authenticated);
    assert_eq!(value["parent"]["id"], 8);
    assert!(value["parent"].get("parent").is_none());
    assert!(to_json(repo::Repository { is_fork: false, ..fork }, Viewer::Authenticated).get("parent").is_none());
}

#[test]
fn an_answer_without_an_owner_is_an_error() {
    let links = Links::new("http://h", "h:22");
    let error =
        Repository::new(repo::Repository { owner: None, ..message() }, Viewer::Authenticated, &links).unwrap_err();
    assert_eq!(error, MissingField("owner"));
}
