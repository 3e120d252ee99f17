//! Settings of a repository, and transfers.

use serde_json::{Value, json};

use super::issues::{leads, send};
use super::{page, shows};
use crate::harness::git_server::GitServer;
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, Git, User};
use crate::imports::{import, on_outward_installations, outward};

on_profiles! {
    embedded {
        settings_are_for_administrators
        settings_are_changed_by_forms
        what_cannot_be_undone_needs_the_name
        a_transfer_is_answered_on_a_page
        collaborators_and_teams_are_changed_by_forms
        branches_are_protected_and_renamed_by_forms
        deploy_keys_are_added_and_removed_by_forms
    }
}

on_outward_installations! {
    mirrors Embedded {
        a_mirror_is_scheduled_and_synced_by_a_form
    }
}

const HOSTILE: &str = "<script>alert(1)</script> \"&";
const ESCAPED: &str = "&#60;script&#62;alert(1)&#60;/script&#62; &#34;&#38;";
const PAGES: [&str; 6] =
    ["", "/collaboration", "/branches", "/branches/edit", "/branches/edit?rule_name=main", "/keys"];

/// A repository with a first commit on `main`.
struct Site {
    ada: User,
    /// The paths in the API and on pages.
    repo: String,
    path: String,
    settings: String,
}

impl Site {
    async fn new(cluster: &Cluster) -> Self {
        let ada = cluster.user("ada").await;
        let repo = ada.new_tracker("demo", json!({"auto_init": true, "default_branch": "main"})).await;
        let path = format!("/{}/demo", ada.name);
        Self { ada, repo, settings: format!("{path}/settings"), path }
    }

    fn at(&self, rest: &str) -> String {
        format!("{}{rest}", self.settings)
    }

    /// Where a change leads.
    fn saved(&self, rest: &str) -> String {
        format!("{}{rest}?saved=1", self.settings)
    }

    async fn read(&self) -> Value {
        self.ada.get(&self.repo).await.expect(200).json()
    }
}

async fn settings_are_for_administrators(cluster: &Cluster) {
    let site = Site::new(cluster).await;
    let (admin, writer) = (cluster.user("bob").await, cluster.user("carl").await);
    site.ada.share(&site.repo, &admin, "admin").await;
    site.ada.share(&site.repo, &writer, "write").await;
    site.ada.post(&format!("{}/branch_protections", site.repo), &json!({"pattern": "main"})).await.expect(201);
    let tab = format!("href=\"{}\"", site.settings);
    for rest in PAGES {
        for visitor in [&site.ada, &admin] {
            shows(&page(visitor, &site.at(rest)).await.expect(200), &[&tab, "Deploy keys", "Webhooks"]);
        }
        for visitor in [&writer, &cluster.anonymous()] {
            page(visitor, &site.at(rest)).await.expect(404);
        }
    }
    assert!(page(&site.ada, &site.settings).await.text().contains("Delete the repository"));
    assert!(!page(&admin, &site.settings).await.text().contains("Delete the repository"), "for owners");
    assert!(!page(&writer, &site.path).await.text().contains(&tab));
    for none in ["/branches/edit?rule_name=other", "/branches/delete?rule_name=other", "/branches/delete"] {
        page(&site.ada, &site.at(none)).await.expect(404);
    }
}

async fn settings_are_changed_by_forms(cluster: &Cluster) {
    let site = Site::new(cluster).await;
    let (ada, settings, saved) = (&site.ada, &site.settings, site.saved(""));
    let text = json!({"description": HOSTILE});
    ada.patch(&site.repo, &text).await.expect(200);
    shows(&page(ada, settings).await.expect(200), &[&format!("value=\"{ESCAPED}\"")]);

    let basics = [("action", "update"), ("name", "demo"), ("description", "New"), ("private", "true")];
    let refused = send(ada, settings, &[&basics[..], &[("website", "no address")]].concat()).await.expect(422);
    shows(&refused, &["class=\"flash bad\"", "website", "value=\"no address\""]);
    shows(&send(ada, settings, &[("action", "update"), ("name", " ")]).await.expect(422), &["name", "required"]);
    assert_eq!(site.read().await["description"], HOSTILE, "nothing is half saved");
    leads(&send(ada, settings, &basics).await, &saved);
    shows(&page(ada, &saved).await.expect(200), &["role=\"status\">Saved."]);
    leads(&send(ada, settings, &[("action", "topics"), ("topics", "rust git, web")]).await, &saved);
    let read = site.read().await;
    assert_eq!((&read["description"], &read["private"]), (&json!("New"), &json!(true)));
    assert_eq!(read["topics"], json!(["rust", "git", "web"]));

    let tracker = [("action", "issues"), ("issues", "external"), ("external_tracker_url", "https://t.example.com")];
    let refused = send(ada, settings, &tracker).await.expect(422);
    shows(&refused, &["tracker_url_format", "value=\"https://t.example.com\""]);
    let whole = [&tracker[..], &[("tracker_url_format", "https://t.example.com/{index}")]].concat();
    leads(&send(ada, settings, &[&whole[..], &[("tracker_issue_style", "numeric")]].concat()).await, &saved);
    let wiki = [("action", "wiki"), ("wiki", "off"), ("allow_public_wiki", "")];
    leads(&send(ada, settings, &wiki).await, &saved);
    let pulls = [
        ("action", "pulls"),
        ("has_pull_requests", "true"),
        ("has_styles", "true"),
        ("allow_squash_merge", "true"),
        ("default_merge_style", "merge"),
    ];
    shows(&send(ada, settings, &pulls).await.expect(422), &["default_merge_style"]);
    let squash = [&pulls[..4], &[("default_merge_style", "squash")]].concat();
    leads(&send(ada, settings, &squash).await, &saved);
    let read = site.read().await;
    assert_eq!(read["external_tracker"]["external_tracker_format"], "https://t.example.com/{index}");
    assert_eq!((&read["has_wiki"], &read["default_merge_style"]), (&json!(false), &json!("squash")));
    assert_eq!((&read["allow_merge_commits"], &read["allow_squash_merge"]), (&json!(false), &json!(true)));
    leads(&send(ada, settings, &[("action", "pulls")]).await, &saved);
    assert_eq!(site.read().await["has_pull_requests"], false);
    leads(&send(ada, settings, &[("action", "pulls"), ("has_pull_requests", "true")]).await, &saved);
    assert_eq!(site.read().await["allow_merge_commits"], false, "the styles stayed");

    leads(&send(ada, settings, &[("action", "archive")]).await, &saved);
    assert_eq!(site.read().await["archived"], true);
    leads(&send(ada, settings, &[("action", "unarchive")]).await, &saved);
    let renamed = [("action", "update"), ("name", "other"), ("description", "New")];
    leads(&send(ada, settings, &renamed).await, &format!("/{}/other/settings?saved=1", ada.name));
    assert_eq!(ada.get(&ada.repo("other", "")).await.expect(200).json()["private"], false);
}

async fn what_cannot_be_undone_needs_the_name(cluster: &Cluster) {
    let site = Site::new(cluster).await;
    let (bob, full_name) = (cluster.user("bob").await, format!("{}/demo", site.ada.name));
    site.ada.share(&site.repo, &bob, "admin").await;
    for action in ["delete", "transfer"] {
        let fields = [("action", action), ("full_name", "demo"), ("new_owner", bob.name.as_str())];
        let refused = send(&site.ada, &site.settings, &fields).await.expect(422);
        shows(&refused, &[&format!("Type {full_name} to confirm.")]);
    }
    let delete = [("action", "delete"), ("full_name", full_name.as_str())];
    send(&bob, &site.settings, &delete).await.expect(422);
    site.read().await;
    leads(&send(&site.ada, &site.settings, &delete).await, &format!("/{}", site.ada.name));
    site.ada.get(&site.repo).await.refused(404);
}

async fn a_transfer_is_answered_on_a_page(cluster: &Cluster) {
    let site = Site::new(cluster).await;
    let (ada, bob) = (&site.ada, cluster.user("bob").await);
    ada.patch(&site.repo, &json!({"private": true})).await.expect(200);
    let full_name = format!("{}/demo", ada.name);
    let start = [("action", "transfer"), ("full_name", full_name.as_str()), ("new_owner", bob.name.as_str())];
    let transfers = "/user/transfers";
    let unknown = [start[0], start[1], ("new_owner", "nobody-at-all")];
    shows(&send(ada, &site.settings, &unknown).await.expect(422), &["new_owner", "value=\"nobody-at-all\""]);
    for action in ["cancel", "reject"] {
        leads(&send(ada, &site.settings, &start).await, &site.saved(""));
        shows(&page(ada, &site.settings).await.expect(200), &["Cancel the transfer", &bob.name]);
        let by = if action == "cancel" { ada } else { &bob };
        leads(&send(by, transfers, &[("action", action), ("repository", &full_name)]).await, transfers);
        assert!(!page(&bob, transfers).await.expect(200).text().contains(&full_name));
    }
    leads(&send(ada, &site.settings, &start).await, &site.saved(""));
    leads(&send(ada, &site.settings, &[("action", "cancel_transfer")]).await, &site.saved(""));
    leads(&send(ada, &site.settings, &start).await, &site.saved(""));
    let (sent, received) = (page(ada, transfers).await.expect(200), page(&bob, transfers).await.expect(200));
    shows(&sent, &[&full_name, "value=\"cancel\""]);
    shows(&received, &[&full_name, "value=\"accept\"", "value=\"reject\""]);
    assert!(!sent.text().contains("value=\"accept\"") && !received.text().contains("value=\"cancel\""));
    let accept = [("action", "accept"), ("repository", full_name.as_str())];
    shows(&send(ada, transfers, &accept).await.expect(422), &["class=\"flash bad\""]);
    leads(&send(&bob, transfers, &accept).await, &format!("/{}/demo", bob.name));
    assert_eq!(bob.get(&bob.repo("demo", "")).await.expect(200).json()["owner"]["login"], bob.name);
    assert!(page(&cluster.anonymous(), transfers).await.expect(303).header("location").contains("/user/login"));
}

async fn collaborators_and_teams_are_changed_by_forms(cluster: &Cluster) {
    let site = Site::new(cluster).await;
    let (ada, bob, path) = (&site.ada, cluster.user("bob").await, site.at("/collaboration"));
    let permission = async || {
        let read = ada.get(&format!("{}/collaborators/{}/permission", site.repo, bob.name)).await;
        read.expect(200).json()["permission"].as_str().unwrap().to_owned()
    };
    let saved = site.saved("/collaboration");
    for (action, given, expected) in [("add", "write", "write"), ("set", "admin", "admin"), ("remove", "", "read")] {
        let fields = [("action", action), ("collaborator", bob.name.as_str()), ("permission", given)];
        leads(&send(ada, &path, &fields).await, &saved);
        assert_eq!(permission().await, expected, "{action}");
    }
    let unknown = [("action", "add"), ("collaborator", HOSTILE), ("permission", "read")];
    shows(&send(ada, &path, &unknown).await.expect(422), &[&format!("value=\"{ESCAPED}\""), "flash bad"]);
    shows(&send(ada, &path, &[("action", "add"), ("collaborator", " ")]).await.expect(422), &["required"]);
    assert!(!page(ada, &path).await.text().contains("Add the team"), "a user owns it");
    // Who gives up the permission cannot return to the page.
    ada.share(&site.repo, &bob, "admin").await;
    let own = [("action", "set"), ("collaborator", bob.name.as_str()), ("permission", "read")];
    leads(&send(&bob, &path, &own).await, &site.path);
    page(&bob, &path).await.expect(404);

    let acme = ada.new_organization("acme").await;
    ada.new_repository_of(&acme, "tools", true).await;
    ada.new_team(&acme, "makers", "write").await;
    ada.share(&format!("/repos/{acme}/tools"), &bob, "admin").await;
    let path = format!("/{acme}/tools/settings/collaboration");
    let team = format!("/repos/{acme}/tools/teams/makers");
    shows(&page(ada, &path).await.expect(200), &["Add the team", "Owners"]);
    assert!(!page(&bob, &path).await.expect(200).text().contains("Add the team"), "for members");
    leads(&send(ada, &path, &[("action", "add_team"), ("team", "makers")]).await, &format!("{path}?saved=1"));
    ada.get(&team).await.expect(200);
    leads(&send(ada, &path, &[("action", "remove_team"), ("team", "makers")]).await, &format!("{path}?saved=1"));
    ada.get(&team).await.refused(404);
    let unknown = send(ada, &path, &[("action", "add_team"), ("team", "nobody")]).await.expect(422);
    shows(&unknown, &["team does not exist", "value=\"nobody\""]);
}

async fn branches_are_protected_and_renamed_by_forms(cluster: &Cluster) {
    let site = Site::new(cluster).await;
    let (ada, branches) = (&site.ada, site.at("/branches"));
    let saved = site.saved("/branches");
    let edit = format!("{branches}/edit");
    let rule = [
        ("pattern", "main"),
        ("enable_push", "true"),
        ("push_users", ada.name.as_str()),
        ("required_approvals", "2"),
        ("block_on_rejected_reviews", "true"),
        ("enable_status_check", "true"),
        ("status_check_contexts", "ci / build\r\nlint"),
    ];
    let unknown = [&rule[..2], &[("push_users", "nobody-at-all")]].concat();
    shows(&send(ada, &edit, &unknown).await.expect(422), &["nobody-at-all", "value=\"main\""]);
    leads(&send(ada, &edit, &rule).await, &saved);
    let api = format!("{}/branch_protections/main", site.repo);
    let made = ada.get(&api).await.expect(200).json();
    assert_eq!((&made["push_users"], &made["required_approvals"]), (&json!([ada.name]), &json!(2)));
    assert_eq!(made["status_check_contexts"], json!(["ci / build", "lint"]));
    let summary = format!("only {} can push; merges need 2 approvals; checks must succeed", ada.name);
    shows(&page(ada, &branches).await.expect(200), &[&summary]);
    shows(&send(ada, &edit, &rule).await.expect(422), &["has a rule already"]);

    let change = format!("{edit}?rule_name=main");
    shows(&page(ada, &change).await.expect(200), &["ci / build\nlint", &format!("value=\"{}\"", ada.name)]);
    let fields = [("rule_name", "main"), ("required_approvals", "1"), ("push_users", ""), ("allow_force", "true")];
    leads(&send(ada, &change, &fields).await, &saved);
    let changed = ada.get(&api).await.expect(200).json();
    assert_eq!((&changed["push_users"], &changed["enable_push"]), (&json!([]), &json!(false)));
    assert_eq!((&changed["allow_force"], &changed["enable_status_check"]), (&json!(true), &json!(false)));
    let wrong = [("rule_name", "main"), ("required_approvals", "many")];
    shows(&send(ada, &change, &wrong).await.expect(422), &["required_approvals", "value=\"many\""]);
    let delete = format!("{branches}/delete?rule_name=main");
    leads(&send(ada, &delete, &[("rule_name", "main")]).await, &saved);
    ada.get(&api).await.refused(404);

    ada.post(&format!("{}/branches", site.repo), &json!({"new_branch_name": "next"})).await.expect(201);
    leads(&send(ada, &branches, &[("action", "default"), ("default_branch", "next")]).await, &saved);
    assert_eq!(site.read().await["default_branch"], "next");
    let none = send(ada, &branches, &[("action", "default"), ("default_branch", HOSTILE)]).await.expect(422);
    shows(&none, &["default_branch", &format!("value=\"{ESCAPED}\"")]);
    leads(&send(ada, &branches, &[("action", "rename"), ("branch", "main"), ("name", "old")]).await, &saved);
    ada.get(&format!("{}/branches/old", site.repo)).await.expect(200);
    let taken = send(ada, &branches, &[("action", "rename"), ("branch", "old"), ("name", "next")]).await;
    shows(&taken.expect(422), &["class=\"flash bad\"", "value=\"old\""]);
}

async fn deploy_keys_are_added_and_removed_by_forms(cluster: &Cluster) {
    let site = Site::new(cluster).await;
    let (ada, path) = (&site.ada, site.at("/keys"));
    let bad = [("action", "add"), ("title", HOSTILE), ("key", "no key")];
    shows(&send(ada, &path, &bad).await.expect(422), &["class=\"flash bad\"", &format!("value=\"{ESCAPED}\"")]);
    for (title, read_only) in [("reads", "true"), ("writes", "")] {
        let key = ed25519("ci");
        let fields = [("action", "add"), ("title", title), ("key", key.as_str()), ("read_only", read_only)];
        leads(&send(ada, &path, &fields).await, &site.saved("/keys"));
    }
    shows(&page(ada, &path).await.expect(200), &["Read-only</span>", "Read and write</span>", "SHA256:"]);
    let keys = ada.get(&format!("{}/keys", site.repo)).await.expect(200).json();
    assert_eq!((&keys[0]["read_only"], &keys[1]["read_only"]), (&json!(true), &json!(false)));
    for key in keys.as_array().unwrap() {
        let id = key["id"].to_string();
        leads(&send(ada, &path, &[("action", "remove"), ("id", &id)]).await, &site.saved("/keys"));
    }
    shows(&page(ada, &path).await.expect(200), &["There are no deploy keys"]);
}

async fn a_mirror_is_scheduled_and_synced_by_a_form(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    git.small("work").await;
    git.run("", &["clone", "-q", "--bare", "work", "remote.git"]).await;
    let server = GitServer::start(&git).await;
    let source = server.url("remote.git");
    import(&ada, &source, "mirror", json!({"mirror": true, "mirror_interval": "30m"})).await.expect(201);
    let settings = format!("/{}/mirror/settings", ada.name);
    shows(&page(&ada, &settings).await.expect(200), &["value=\"30m0s\"", &source, "Sync now"]);
    let interval = |text| [("action", "mirror"), ("mirror_interval", text)];
    shows(&send(&ada, &settings, &interval("1s")).await.expect(422), &["mirror_interval", "value=\"1s\""]);
    leads(&send(&ada, &settings, &interval("1h")).await, &format!("{settings}?saved=1"));
    assert_eq!(ada.get(&ada.repo("mirror", "")).await.expect(200).json()["mirror_interval"], "1h0m0s");
    let synced = format!("{settings}?saved=sync");
    leads(&send(&ada, &settings, &[("action", "sync")]).await, &synced);
    shows(&page(&ada, &synced).await.expect(200), &["A sync is queued."]);
    page(&ada, &format!("{settings}/branches/edit")).await.expect(404);
}
