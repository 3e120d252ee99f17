//! The exact shape of every resource: each documented field with its type, and no others.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{Cluster, Git, User};

on_profiles! {
    both {
        repositories_have_every_field_wherever_they_appear
    }
    embedded {
        users_have_every_field_wherever_they_appear
        branches_and_commits_have_every_field
        every_kind_of_content_has_its_own_fields
        a_written_file_is_shown_as_it_is_read
        hooks_have_every_field
        issues_have_every_field
        comments_labels_milestones_and_timelines_have_every_field
        dates_that_cannot_be_written_become_the_nearest
    }
}

const USER: &[(&str, &str)] = &[
    ("id", "int"),
    ("username", "str"),
    ("login", "str"),
    ("full_name", "str"),
    ("email", "str"),
    ("avatar_url", "url"),
    ("visibility", "str"),
];

const REPOSITORY: &[(&str, &str)] = &[
    ("id", "int"),
    ("owner", "map"),
    ("name", "str"),
    ("full_name", "str"),
    ("description", "str"),
    ("private", "bool"),
    ("internal", "bool"),
    ("fork", "bool"),
    ("empty", "bool"),
    ("mirror", "bool"),
    ("size", "int"),
    ("url", "url"),
    ("language", "str"),
    ("html_url", "url"),
    ("ssh_url", "str"),
    ("clone_url", "url"),
    ("languages_url", "url"),
    ("website", "str"),
    ("stars_count", "int"),
    ("forks_count", "int"),
    ("watchers_count", "int"),
    ("open_issues_count", "int"),
    ("open_pr_counter", "int"),
    ("release_counter", "int"),
    ("default_branch", "str"),
    ("object_format_name", "str"),
    ("archived", "bool"),
    ("has_issues", "bool"),
    ("has_wiki", "bool"),
    ("has_pull_requests", "bool"),
    ("allow_merge_commits", "bool"),
    ("allow_rebase", "bool"),
    ("allow_rebase_explicit", "bool"),
    ("allow_squash_merge", "bool"),
    ("allow_fast_forward_only_merge", "bool"),
    ("allow_rebase_update", "bool"),
    ("default_delete_branch_after_merge", "bool"),
    ("default_merge_style", "str"),
    ("autodetect_manual_merge", "bool"),
    ("allow_manual_merge", "bool"),
    ("has_releases", "bool"),
    ("topics", "list"),
    ("created_at", "time"),
    ("updated_at", "time"),
    ("permissions", "map"),
];

/// Fails unless an object has exactly these fields, of these types.
#[track_caller]
fn shaped(value: &Value, fields: &[(&str, &str)]) {
    let mut found: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut wanted: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{value}");
    for (name, kind) in fields {
        assert!(is_a(&value[name], kind), "{name} is not a {kind}: {value}");
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "int" => value.is_i64(),
        "str" => value.is_string(),
        "bool" => value.is_boolean(),
        "map" => value.is_object(),
        "list" => value.is_array(),
        "null" => value.is_null(),
        "sha" => {
            value.as_str().is_some_and(|text| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        }
        "url" => value.as_str().is_some_and(|text| text.starts_with("http://127.")),
        "time" => value.as_str().is_some_and(is_time),
        _ => panic!("{kind}"),
    }
}

/// Whether the text has the form `YYYY-MM-DDTHH:MM:SSZ`.
fn is_time(text: &str) -> bool {
    let form = "dddd-dd-ddTdd:dd:ddZ";
    text.len() == form.len()
        && form
            .chars()
            .zip(text.chars())
            .all(|(form, char)| if form == 'd' { char.is_ascii_digit() } else { form == char })
}

async fn repositories_have_every_field_wherever_they_appear(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let made = ada.new_repository("shape", json!({"auto_init": true})).await;
    shaped(&made, REPOSITORY);
    shaped(&made["owner"], USER);
    shaped(&made["permissions"], &[("admin", "bool"), ("push", "bool"), ("pull", "bool")]);
    for caller in [&ada, &outsider, &cluster.anonymous(), &cluster.admin().await] {
        let shown = caller.get(&ada.repo("shape", "")).await.expect(200).json();
        shaped(&shown, REPOSITORY);
        let email = if caller.token.is_some() { ada.email.clone() } else { ada.no_reply_address() };
        assert_eq!(shown["owner"]["email"], email.as_str());
        let query = format!("/repos/search?q={}/shape", ada.name);
        let found = caller.get(&query).await.expect(200).json();
        shaped(&found, &[("data", "list"), ("ok", "bool")]);
        shaped(&found["data"][0], REPOSITORY);
        assert_eq!(found["data"][0]["owner"]["email"], email.as_str());
    }
    for path in ["/user/repos".to_owned(), format!("/users/{}/repos", ada.name.to_uppercase())] {
        let list = ada.get(&path).await.expect(200).json();
        shaped(&list[0], REPOSITORY);
        assert_eq!(list[0]["permissions"], json!({"admin": true, "push": true, "pull": true}));
    }
}

async fn users_have_every_field_wherever_they_appear(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let url = format!("{}/avatars/{}", cluster.url, ada.id);
    let expected = |email: &str| {
        json!({
            "id": ada.id, "username": ada.name, "login": ada.name, "full_name": "The ada", "email": email, "avatar_url": url,
            "visibility": "public",
        })
    };
    let profile = format!("/users/{}", ada.name.to_uppercase());
    let mut own = expected(&ada.email);
    own["is_admin"] = json!(false);
    assert_eq!(ada.get("/user").await.expect(200).json(), own);
    let seen = cluster.admin().await.get(&profile).await.expect(200).json();
    let rights = [("is_admin", "bool"), ("active", "bool"), ("prohibit_login", "bool")];
    let about = [("website", "str"), ("location", "str"), ("description", "str")];
    let details = [("login_name", "str"), ("created", "time")];
    shaped(&seen, &[USER, &rights, &about, &details].concat());
    let seen = |email: &str| {
        let mut expected = expected(email);
        about.iter().for_each(|(name, _)| expected[*name] = json!(""));
        expected
    };
    assert_eq!(cluster.user("bob").await.get(&profile).await.expect(200).json(), seen(&ada.email));
    assert_eq!(cluster.anonymous().get(&profile).await.expect(200).json(), seen(&ada.no_reply_address()));
}

/// Creates a repository of `ada` with a merge. Its author has no account; its committer is `ada`,
/// with her address in capitals.
async fn merged(ada: &User) -> Git {
    let git = Git::new();
    ada.new_repository("Shape", json!({})).await;
    git.small("work").await;
    git.run("work", &["checkout", "-q", "-b", "side/way"]).await;
    git.commit("work", "side", "side").await;
    git.run("work", &["checkout", "-q", "main"]).await;
    git.commit("work", "more", "more").await;
    let mut merge = git.command("work", &["merge", "-q", "--no-ff", "-m", "Merge <it>\n\nAll of it.", "side/way"]);
    merge.env("GIT_COMMITTER_EMAIL", ada.email.to_uppercase()).env("GIT_COMMITTER_DATE", "2026-01-02T06:34:05+05:30");
    merge.env("GIT_AUTHOR_DATE", "2026-01-03T01:04:05-01:00");
    assert!(merge.status().await.unwrap().success());
    git.run("work", &["tag", "-a", "-m", "one", "v1"]).await;
    git.run("work", &["tag", "-a", "-m", "of a tag", "v1-again", "v1"]).await;
    let url = ada.git_url(&ada.name, "shape");
    git.run("work", &["push", "-q", &url, "main", "side/way", "v1", "v1-again"]).await;
    git
}

async fn branches_and_commits_have_every_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let git = merged(&ada).await;
    let id = async |name: &str| git.run("work", &["rev-parse", name]).await;
    let (head, tree) = (id("main").await, id("main^{tree}").await);
    let (first, second) = (id("main^1").await, id("main^2").await);
    let (site, api) =
        (format!("{}/{}/Shape", cluster.url, ada.name), format!("{}/api/v1/repos/{}/Shape", cluster.url, ada.name));
    let account = ada.profile().await;
    let (author, committer) = (("Tester", "tester@example.com"), ("Tester", ada.email.to_uppercase()));
    let message = "Merge <it>\n\nAll of it.\n";
    let commit = json!({
        "url": format!("{api}/commits/{head}"),
        "sha": head,
        "created": "2026-01-02T01:04:05Z",
        "html_url": format!("{site}/commits/{head}"),
        "commit": {
            "url": format!("{api}/commits/{head}"),
            "message": message,
            "author": {"name": author.0, "email": author.1, "date": "2026-01-03T02:04:05Z"},
            "committer": {"name": committer.0, "email": committer.1, "date": "2026-01-02T01:04:05Z"},
            "tree": {"url": format!("{api}/git/trees/{tree}"), "sha": tree},
        },
        "author": null,
        "committer": account,
        "parents": [
            {"url": format!("{api}/commits/{first}"), "sha": first},
            {"url": format!("{api}/commits/{second}"), "sha": second},
        ],
    });
    for name in ["main", "v1", "v1-again", "main/", &head[..7], &head.to_uppercase(), &head] {
        assert_eq!(ada.get(&ada.repo("shape", &format!("/commits/{name}"))).await.expect(200).json(), commit, "{name}");
    }
    let branch = json!({
        "name": "main",
        "commit": {
            "id": head, "sha": head, "message": message, "url": format!("{site}/commit/{head}"),
            "timestamp": "2026-01-03T02:04:05Z", "created": "2026-01-02T01:04:05Z",
            "author": {"name": author.0, "email": author.1, "username": ""},
            "committer": {"name": committer.0, "email": committer.1, "username": ada.name},
            "added": [], "removed": [], "modified": [],
        },
        "protected": false,
    });
    assert_eq!(ada.get(&ada.repo("shape", "/branches/main/")).await.expect(200).json(), branch);
    assert_eq!(ada.get(&ada.repo("shape", "/branches")).await.expect(200).json()[0], branch);
}

async fn every_kind_of_content_has_its_own_fields(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("kinds", json!({})).await;
    let git = Git::new();
    let work = git.small("work").await;
    std::fs::create_dir(work.join("a dir")).unwrap();
    std::fs::write(work.join("a dir/\u{fc}#?.txt"), "text\n").unwrap();
    std::os::unix::fs::symlink("a dir", work.join("link")).unwrap();
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["update-index", "--add", "--cacheinfo", &format!("160000,{},sub", "1".repeat(40))]).await;
    git.run("work", &["commit", "-q", "-m", "Kinds"]).await;
    git.run("work", &["branch", "feature/one"]).await;
    git.run("work", &["push", "-q", "--all", &ada.git_url(&ada.name, "kinds")]).await;
    let common = [
        ("type", "str"),
        ("size", "int"),
        ("name", "str"),
        ("path", "str"),
        ("sha", "sha"),
        ("url", "url"),
        ("git_url", "str"),
        ("html_url", "url"),
        ("download_url", "str"),
        ("_links", "map"),
    ];
    let list = ada.get(&ada.repo("kinds", "/contents?ref=feature%2Fone")).await.expect(200).json();
    let found: Vec<_> = list.as_array().unwrap().iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(found, ["file", "dir", "symlink", "submodule"]);
    for (entry, own) in list.as_array().unwrap().iter().zip([
        &[("encoding", "str"), ("content", "str")][..],
        &[("content", "null")],
        &[("content", "null"), ("target", "str")],
        &[("content", "null"), ("submodule_git_url", "str")],
    ]) {
        shaped(entry, &[&common[..], own].concat());
        shaped(&entry["_links"], &[("git", "str"), ("self", "url"), ("html", "url")]);
        assert_eq!(
            [&entry["_links"]["git"], &entry["_links"]["self"], &entry["_links"]["html"]],
            [&entry["git_url"], &entry["url"], &entry["html_url"]]
        );
    }
    let path = ada.repo("kinds", "/contents/a%20dir/%C3%BC%23%3F.txt?ref=feature/one");
    let file = ada.get(&path).await.expect(200).json();
    let site = format!("{}/{}/kinds", cluster.url, ada.name);
    let api = format!("{}/api/v1{}", cluster.url, ada.repo("kinds", ""));
    for (field, value) in [
        ("name", "\u{fc}#?.txt".to_owned()),
        ("path", "a dir/\u{fc}#?.txt".to_owned()),
        ("content", "dGV4dAo=".to_owned()),
        ("url", format!("{}/api/v1{}", cluster.url, path.replace("feature/one", "feature%2Fone"))),
        ("html_url", format!("{site}/src/feature/one/a%20dir/%C3%BC%23%3F.txt")),
        ("download_url", format!("{api}/raw/feature/one/a%20dir/%C3%BC%23%3F.txt")),
    ] {
        assert_eq!(file[field], value, "{field}");
    }
}

async fn a_written_file_is_shown_as_it_is_read(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("written", json!({"auto_init": true})).await;
    let path = ada.repo("written", "/contents/run.sh");
    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "written"), "work"]).await;
    std::fs::write(git.path().join("work/run.sh"), "old").unwrap();
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["update-index", "--chmod=+x", "run.sh"]).await;
    git.run("work", &["commit", "-q", "-m", "A program"]).await;
    git.run("work", &["push", "-q", "origin", "main"]).await;
    let body = json!({"message": "Newer", "content": STANDARD.encode("new"), "branch": "brand/new"});
    let written = ada.put(&path, &body).await.expect(200).json();
    shaped(&written, &[("content", "map"), ("commit", "map"), ("verification", "map")]);
    assert_eq!(written["content"], ada.get(&format!("{path}?ref=brand/new")).await.expect(200).json());
    let sha = written["commit"]["sha"].as_str().unwrap();
    let read = ada.get(&ada.repo("written", &format!("/commits/{sha}"))).await.expect(200).json();
    let people = ["author", "committer"];
    for (field, value) in read.as_object().unwrap().iter().filter(|(field, _)| !people.contains(&field.as_str())) {
        assert_eq!(written["commit"][field], *value, "{field}");
    }
    assert_eq!(written["commit"]["message"], read["commit"]["message"]);
    assert_eq!(written["commit"]["tree"], read["commit"]["tree"]);
    let author = &written["commit"]["commit"]["author"];
    assert_eq!((&author["name"], &author["email"]), (&json!("The ada"), &json!(ada.email)));
    let mut person = ada.profile().await;
    (person["name"], person["date"]) = (author["name"].clone(), author["date"].clone());
    assert_eq!(written["commit"]["author"], person);
    assert_eq!(written["commit"]["committer"], written["commit"]["author"]);
    let parent = git.run("work", &["rev-parse", "main"]).await;
    assert_eq!(written["commit"]["parents"][0]["sha"], parent, "a new branch starts at the default one");
    git.run("work", &["fetch", "-q", "origin", "brand/new"]).await;
    let listed = git.run("work", &["ls-tree", "FETCH_HEAD", "run.sh"]).await;
    assert!(listed.starts_with("100755 "), "the mode was lost: {listed}");
}

async fn hooks_have_every_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("hooked", json!({})).await;
    let path = ada.repo("hooked", "/hooks");
    let url = "https://example.com/x";
    let slack = json!({
        "url": url, "content_type": "json", "channel": "#dev", "username": "bot", "icon_url": "https://example.com/i.png",
        "color": "#36a64f",
    });
    let mut discord = slack.clone();
    discord.as_object_mut().unwrap().remove("channel");
    let plain = json!({"url": url, "content_type": "form"});
    let all = ["create", "delete", "fork", "push", "issues", "pull_request", "issue_comment", "release", "repository"];
    let backwards: Vec<_> = all.iter().rev().collect();
    for (kind, config, events, expected) in [
        ("slack", &slack, json!([]), json!(["push"])),
        ("discord", &discord, Value::Null, json!(["push"])),
        ("dingtalk", &plain, json!(["issues", "create", "issues"]), json!(["create", "issues"])),
        ("native", &plain, json!(backwards), json!(all)),
        ("gogs", &plain, json!(["release"]), json!(["release"])),
    ] {
        let made = ada.post(&path, &json!({"type": kind, "config": config, "events": events})).await.expect(201).json();
        shaped(
            &made,
            &[
                ("id", "int"),
                ("type", "str"),
                ("config", "map"),
                ("events", "list"),
                ("branch_filter", "str"),
                ("authorization_header", "str"),
                ("active", "bool"),
                ("created_at", "time"),
                ("updated_at", "time"),
            ],
        );
        assert_eq!((&made["type"], &made["config"], &made["events"]), (&json!(kind), config, &expected));
    }
    let list = ada.get(&path).await.expect(200).json();
    let ids: Vec<_> = list.as_array().unwrap().iter().map(|hook| hook["id"].as_i64().unwrap()).collect();
    assert!(ids.len() == 5 && ids.is_sorted(), "{ids:?}");
}

async fn issues_have_every_field(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("tracker", json!({})).await;
    let path = ada.repo("tracker", "/issues");
    // Bodies with every field, empty and null.
    let zeros = json!({"title": "First", "body": "", "assignee": "", "milestone": 0, "labels": [], "closed": false});
    let nulls =
        json!({"title": "First", "body": null, "assignee": null, "milestone": null, "labels": null, "closed": null});
    for body in [zeros, nulls] {
        let made = ada.post(&path, &body).await.expect(201).json();
        shaped(
            &made,
            &[
                ("id", "int"),
                ("number", "int"),
                ("user", "map"),
                ("title", "str"),
                ("body", "str"),
                ("labels", "list"),
                ("milestone", "null"),
                ("assignee", "null"),
                ("assignees", "list"),
                ("repository", "map"),
                ("state", "str"),
                ("comments", "int"),
                ("created_at", "time"),
                ("updated_at", "time"),
                ("closed_at", "null"),
                ("due_date", "null"),
                ("html_url", "url"),
            ],
        );
        shaped(&made["user"], USER);
        assert_eq!(bob.get(&format!("{path}/{}", made["number"])).await.expect(200).json(), made);
    }
    for (field, wrong) in [
        ("labels", json!(["bug"])),
        ("labels", json!(1)),
        ("milestone", json!("1")),
        ("assignee", json!(1)),
        ("closed", json!("no")),
    ] {
        let mut body = json!({"title": "x"});
        body[field] = wrong;
        ada.post(&path, &body).await.refused_fields(&[(field, "type")]);
        bob.post(&path, &body).await.refused_fields(&[(field, "type")]);
    }
    for (field, unknown) in [("labels", json!([9])), ("milestone", json!(9))] {
        let mut body = json!({"title": "x"});
        body[field] = unknown;
        ada.post(&path, &body).await.refused_fields(&[(field, "unknown")]);
        bob.post(&path, &body).await.expect(201);
    }
    for wrong in ["0", "-1", "abc", "1.5", "99", "99999999999999999999"] {
        ada.get(&format!("{path}/{wrong}")).await.refused(404);
    }
}

async fn comments_labels_milestones_and_timelines_have_every_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let body = json!({"title": "One", "due_on": "2030-01-01T00:00:00Z"});
    let milestone = ada.post(&format!("{repo}/milestones"), &body).await.expect(201).json();
    let label = ada.new_label(&repo, "bug").await;
    let more = json!({"assignee": ada.name, "milestone": milestone["id"], "closed": true});
    ada.new_issue(&repo, "Full", more).await;
    ada.put(&format!("{repo}/issues/1/labels"), &json!({"labels": [label]})).await.expect(200);
    ada.new_comment(&repo, 1, "Text").await;
    let issue = ada.issue(&repo, 1).await;
    assert!(is_a(&issue["closed_at"], "time"), "{issue}");
    shaped(&issue["assignee"], USER);
    shaped(
        &issue["labels"][0],
        &[("id", "int"), ("name", "str"), ("color", "str"), ("description", "str"), ("url", "url")],
    );
    let closed = ada.patch(&format!("{repo}/milestones/{}", milestone["id"]), &json!({"state": "closed"})).await;
    for (shown, closed_at) in
        [(&issue["milestone"], "null"), (&milestone, "null"), (&closed.expect(200).json(), "time")]
    {
        let fields = [
            ("id", "int"),
            ("title", "str"),
            ("description", "str"),
            ("state", "str"),
            ("open_issues", "int"),
            ("closed_issues", "int"),
            ("closed_at", closed_at),
            ("due_on", "time"),
        ];
        shaped(shown, &fields);
    }
    let comments = ada.get(&format!("{repo}/issues/1/comments")).await.expect(200).json();
    let fields = [
        ("id", "int"),
        ("html_url", "url"),
        ("user", "map"),
        ("body", "str"),
        ("created_at", "time"),
        ("updated_at", "time"),
    ];
    shaped(&comments[0], &fields);
    shaped(&comments[0]["user"], USER);
    let timeline = ada.timeline(&repo, 1).await;
    let fields = [
        ("id", "int"),
        ("action", "str"),
        ("type", "str"),
        ("user", "map"),
        ("created_at", "time"),
        ("updated_at", "time"),
        ("issue_url", "url"),
        ("body", "str"),
        ("label", "map"),
    ];
    shaped(timeline.last().unwrap(), &fields);
}

async fn dates_that_cannot_be_written_become_the_nearest(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("future", json!({})).await;
    let git = Git::new();
    git.small("work").await;
    let tree = git.run("work", &["rev-parse", "main^{tree}"]).await;
    for (branch, seconds) in [("late", "253402300800"), ("latest", "9223372036854775807")] {
        let signature = format!("A <a@example.com> {seconds} +0000");
        let text = format!("tree {tree}\nauthor {signature}\ncommitter {signature}\n\nFar away\n");
        std::fs::write(git.path().join("commit"), text).unwrap();
        let id = git.run("work", &["hash-object", "-t", "commit", "-w", "--literally", "../commit"]).await;
        git.run("work", &["push", "-q", &ada.git_url(&ada.name, "future"), &format!("{id}:refs/heads/{branch}")]).await;
        let commit = ada.get(&ada.repo("future", &format!("/commits/{branch}"))).await.expect(200).json();
        assert_eq!(commit["commit"]["author"]["date"], "9999-12-31T23:59:59Z");
    }
    let branches = ada.get(&ada.repo("future", "/branches")).await.expect(200).json();
    assert_eq!(branches[1]["commit"]["timestamp"], "9999-12-31T23:59:59Z");
}
