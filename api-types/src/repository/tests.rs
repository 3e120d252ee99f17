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
        has_issues: true,
        has_wiki: true,
        language: "Rust".into(),
        topics: vec!["rust".into(), "web".into()],
        release_count: 3,
        ..Default::default()
    }
}

fn to_json(message: repo::Repository, viewer: Viewer) -> serde_json::Value {
    let links = Links::new("http://git.example.com", "git.example.com:22");
    serde_json::to_value(Repository::new(message, viewer, &links).unwrap()).unwrap()
}

#[test]
fn a_repository_has_the_shape_of_the_contract() {
    let expected = serde_json::json!({
      "allow_fast_forward_only_merge": false,
      "allow_manual_merge": false,
      "allow_merge_commits": false,
      "allow_rebase": false,
      "allow_rebase_explicit": false,
      "allow_rebase_update": false,
      "allow_squash_merge": false,
      "archived": false,
      "autodetect_manual_merge": false,
      "clone_url": "http://git.example.com/bob/demo.git",
      "created_at": "1970-01-01T00:00:01Z",
      "default_branch": "",
      "default_delete_branch_after_merge": false,
      "default_merge_style": "merge",
      "description": "",
      "empty": false,
      "fork": false,
      "forks_count": 0,
      "full_name": "bob/demo",
      "has_issues": true,
      "has_pull_requests": false,
      "has_releases": true,
      "has_wiki": true,
      "html_url": "http://git.example.com/bob/demo",
      "id": 2,
      "internal": false,
      "language": "Rust",
      "languages_url": "http://git.example.com/api/v1/repos/bob/demo/languages",
      "mirror": false,
      "name": "demo",
      "object_format_name": "sha1",
      "open_issues_count": 0,
      "open_pr_counter": 0,
      "owner": {
        "avatar_url": "http://git.example.com/avatars/1",
        "email": "bob@example.com",
        "full_name": "",
        "id": 1,
        "login": "bob",
        "username": "bob",
        "visibility": "public"
      },
      "permissions": {
        "admin": false,
        "pull": true,
        "push": true
      },
      "private": false,
      "release_counter": 3,
      "size": 0,
      "ssh_url": "git@git.example.com:bob/demo.git",
      "stars_count": 0,
      "topics": [
        "rust",
        "web"
      ],
      "updated_at": "1970-01-01T00:00:02Z",
      "url": "http://git.example.com/api/v1/repos/bob/demo",
      "watchers_count": 0,
      "website": ""
    });
    assert_eq!(to_json(message(), Viewer::Authenticated), expected);
}

#[test]
fn settings_of_pull_requests_are_shown_if_they_are_on() {
    let settings = repo::PullSettings {
        has_pulls: true,
        allow_rebase_merge: true,
        allow_squash: true,
        allow_rebase_update: true,
        default_style: "squash".into(),
        ..Default::default()
    };
    let shown = |pulls| to_json(repo::Repository { pulls: Some(pulls), ..message() }, Viewer::Authenticated);
    let on = shown(settings.clone());
    for name in ["has_pull_requests", "allow_rebase_explicit", "allow_squash_merge", "allow_rebase_update"] {
        assert_eq!(on[name], true, "{name}");
    }
    assert_eq!((&on["allow_rebase"], &on["default_merge_style"]), (&false.into(), &"squash".into()));
    let off = shown(repo::PullSettings { has_pulls: false, ..settings });
    assert_eq!((&off["has_pull_requests"], &off["allow_squash_merge"]), (&false.into(), &false.into()));
    assert_eq!(off["default_merge_style"], "merge");
}

#[test]
fn a_tracker_and_a_wiki_elsewhere_are_shown_with_their_addresses() {
    let tracker = repo::ExternalTracker {
        url: "https://bugs.example.com".into(),
        url_format: "https://bugs.example.com/{index}".into(),
        is_alphanumeric: true,
    };
    let external_wiki_url = "https://wiki.example.com".into();
    let elsewhere = repo::Repository {
        has_issues: false,
        has_wiki: false,
        external_tracker: Some(tracker),
        external_wiki_url,
        is_archived: true,
        ..message()
    };
    let value = to_json(elsewhere, Viewer::Authenticated);
    let expected = serde_json::json!({
      "external_tracker_format": "https://bugs.example.com/{index}",
      "external_tracker_style": "alphanumeric",
      "external_tracker_url": "https://bugs.example.com"
    });
    assert_eq!(value["external_tracker"], expected);
    assert_eq!(value["external_wiki"], serde_json::json!({"external_wiki_url": "https://wiki.example.com"}));
    assert_eq!(
        (&value["has_issues"], &value["has_wiki"], &value["archived"]),
        (&false.into(), &false.into(), &true.into())
    );
}

#[test]
fn only_administrators_see_where_a_repository_came_from_and_all_see_when_it_was_archived() {
    let imported = |permission: repo::Permission| {
        let imported = repo::Repository {
            original_url: "https://example.com/them/demo.git".into(),
            archive_time: Some(prost_types::Timestamp { seconds: 3, nanos: 0 }),
            permission: permission.into(),
            ..message()
        };
        let value = to_json(imported, Viewer::Authenticated);
        (value.get("original_url").cloned(), value["archived_at"].clone())
    };
    let archived_at = serde_json::json!("1970-01-01T00:00:03Z");
    assert_eq!(imported(repo::Permission::Write), (None, archived_at.clone()));
    let url = serde_json::json!("https://example.com/them/demo.git");
    assert_eq!(imported(repo::Permission::Admin), (Some(url), archived_at));
    let value =
        to_json(repo::Repository { permission: repo::Permission::Owner.into(), ..message() }, Viewer::Anonymous);
    assert!(value.get("original_url").is_none() && value.get("archived_at").is_none());
}

#[test]
fn only_administrators_see_the_schedule_of_a_mirror() {
    let mirror = repo::MirrorState {
        interval_seconds: 8 * 3600,
        last_sync_time: None,
        next_sync_time: Some(prost_types::Timestamp { seconds: 3, nanos: 0 }),
        last_error: "address cannot be reached".into(),
    };
    let mirror_info = |permission: repo::Permission| {
        let mirrored = repo::Repository { mirror: Some(mirror.clone()), permission: permission.into(), ..message() };
        to_json(mirrored, Viewer::Authenticated)["mirror_info"].clone()
    };
    for permission in [repo::Permission::Unspecified, repo::Permission::Read, repo::Permission::Write] {
        assert_eq!(mirror_info(permission), serde_json::json!({"interval": "8h0m0s"}));
    }
    let whole = serde_json::json!({
        "interval": "8h0m0s", "last_sync_at": null, "next_sync_at": "1970-01-01T00:00:03Z",
        "last_error": "address cannot be reached"
    });
    assert_eq!(mirror_info(repo::Permission::Admin), whole);
    let synced = repo::MirrorState { last_sync_time: Some(prost_types::Timestamp { seconds: 2, nanos: 0 }), ..mirror };
    for (permission, updated) in
        [(repo::Permission::Read, None), (repo::Permission::Admin, Some("1970-01-01T00:00:02Z"))]
    {
        let mirrored = repo::Repository { mirror: Some(synced.clone()), permission: permission.into(), ..message() };
        let value = to_json(mirrored, Viewer::Authenticated);
        assert_eq!(value["mirror_interval"], "8h0m0s");
        assert_eq!(value.get("mirror_updated").and_then(serde_json::Value::as_str), updated);
    }
    assert!(to_json(message(), Viewer::Authenticated).get("mirror_info").is_none());
}

#[test]
fn durations_are_written_as_go_does() {
    for (seconds, text) in
        [(28_800, "8h0m0s"), (600, "10m0s"), (3_725, "1h2m5s"), (45, "45s"), (0, "0s"), (90_061, "25h1m1s")]
    {
        assert_eq!(go_duration(seconds), text);
    }
}

#[test]
fn mail_addresses_are_hidden_from_anonymous_callers() {
    let message = message();
    let name = message.owner.as_ref().unwrap().username.clone();
    let email = |message| to_json(message, Viewer::Anonymous)["owner"]["email"].clone();
    assert_eq!(email(message.clone()), format!("{name}@noreply.git.example.com"));
    let owner = message.owner.clone().map(|owner| repo::User { is_organization: true, ..owner });
    assert_eq!(email(repo::Repository { owner, ..message }), "");
}

#[test]
fn what_the_members_of_a_private_organization_read_is_internal() {
    use repo::Visibility::{Limited, Private, Public};
    for (owner_visibility, is_private, expected) in
        [(Public, false, false), (Limited, false, false), (Private, false, true), (Private, true, false)]
    {
        let owner_visibility = owner_visibility.into();
        let shown = to_json(repo::Repository { owner_visibility, is_private, ..message() }, Viewer::Authenticated);
        assert_eq!(shown["internal"], expected);
    }
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
