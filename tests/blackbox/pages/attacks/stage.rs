//! A site on which every text that people can write is hostile, and its pages.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use super::texts::{Rotation, TEXTS, UNIVERSAL, document};
use crate::harness::client::unique;
use crate::harness::concurrent::for_each;
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, Git, Response, User};

/// Of each kind of entries in lists.
const ENTRIES: usize = 10;
/// An address without what addresses must not have.
const ADDRESS: &str = "https://x.example/?javascript:zap()&lt;u&gt;";

pub(super) struct Stage {
    /// An administrator of the site, who owns everything.
    pub(super) ada: User,
    pub(super) organization: String,
    /// The path of the repository in the API, and on pages.
    pub(super) repo: String,
    pub(super) path: String,
    texts: Rotation,
    pages: Vec<String>,
}

/// Returns what was made of a text, if it is allowed.
#[track_caller]
fn made(response: &Response) -> Option<Value> {
    match response.status.as_u16() {
        200 | 201 => Some(response.json()),
        400 | 422 => None,
        _ => panic!("{}: {}", response.status, response.text()),
    }
}

fn id(made: &Value) -> i64 {
    made["id"].as_i64().unwrap()
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl Stage {
    pub(super) async fn new(cluster: &Cluster) -> Self {
        let ada = cluster.user("ada").await;
        let admin = cluster.admin().await;
        admin.patch(&format!("/admin/users/{}", ada.name), &json!({"admin": true})).await.expect(200);
        let texts = Rotation::default();
        let repo = ada.new_tracker("stage", json!({"description": texts.lines(255)})).await;
        let path = format!("/{}/stage", ada.name);
        let mut stage = Self { ada, organization: unique("stage"), repo, path, texts, pages: Vec::new() };
        stage.describe().await;
        let commit = stage.push().await;
        stage.track().await;
        stage.propose(&cluster.user("bob").await, &commit).await;
        stage.release().await;
        stage.write_wiki().await;
        stage.configure().await;
        stage
    }

    /// All pages that show these texts.
    pub(super) fn pages(&self) -> Vec<String> {
        let echoes = [UNIVERSAL, "</title><u class=zap>"];
        let echoes = echoes.iter().flat_map(|text| self.echoes(&encode(text)));
        self.pages.iter().cloned().chain(echoes).collect()
    }

    /// Adds pages of the repository.
    fn add<const COUNT: usize>(&mut self, pages: [&str; COUNT]) {
        self.pages.extend(pages.iter().map(|page| format!("{}{page}", self.path)));
    }

    async fn describe(&mut self) {
        let Self { ada, organization, texts, .. } = self;
        let settings = json!({
            "full_name": texts.lines(100), "description": texts.lines(255), "location": texts.line(50),
            "website": ADDRESS,
        });
        ada.patch("/user/settings", &settings).await.expect(200);
        ada.patch(&self.repo, &json!({"website": ADDRESS})).await.expect(200);
        let body = json!({
            "username": organization, "full_name": texts.lines(100), "description": texts.lines(255),
            "location": texts.line(50), "website": ADDRESS,
        });
        ada.post("/user/orgs", &body).await.expect(201);
        let team = json!({"name": "makers", "description": texts.lines(255), "permission": "write"});
        ada.post(&format!("/orgs/{organization}/teams"), &team).await.expect(201);
        let label = json!({"name": texts.line(50), "color": "#ff8000", "description": texts.lines(255)});
        ada.post(&format!("/orgs/{organization}/labels"), &label).await.expect(201);
        let (name, organization) = (&ada.name, &*organization);
        self.pages.extend([
            "/".to_owned(),
            "/explore/repos".to_owned(),
            "/explore/users".to_owned(),
            "/explore/organizations".to_owned(),
            "/issues".to_owned(),
            "/pulls".to_owned(),
            "/user/settings".to_owned(),
            "/-/admin/users".to_owned(),
            "/-/admin/orgs".to_owned(),
            "/-/admin/audit".to_owned(),
            format!("/-/admin/users/{name}/edit"),
            format!("/{name}"),
            format!("/{name}?tab=activity"),
            format!("/{name}.atom"),
            format!("/{organization}"),
            format!("/org/{organization}/members"),
            format!("/org/{organization}/teams"),
            format!("/org/{organization}/teams/makers"),
            format!("/org/{organization}/teams/makers/edit"),
            format!("/org/{organization}/settings"),
            format!("/org/{organization}/settings/labels"),
        ]);
    }

    /// Pushes files, commits, branches and tags with these names and texts. Returns the id of a
    /// commit.
    async fn push(&mut self) -> String {
        let git = Git::new();
        git.small("work").await;
        let folder = git.path().join("work");
        let all = TEXTS.join("\n");
        fs::create_dir(folder.join("docs")).unwrap();
        fs::write(folder.join("README.md"), document()).unwrap();
        for (number, texts) in TEXTS.chunks(8).enumerate() {
            fs::write(folder.join(format!("docs/{number}.md")), texts.join("\n\n")).unwrap();
            self.add([&format!("/src/branch/main/docs/{number}.md")]);
        }
        for name in ["code.html", "code.rs", "code.diff", "code.txt"] {
            fs::write(folder.join(name), &all).unwrap();
            self.add([&format!("/src/branch/main/{name}")]);
        }
        let is_name = |text: &&&str| !text.contains(['/', '\n']) && text.trim() == **text;
        for name in TEXTS.iter().filter(is_name).step_by(2) {
            fs::write(folder.join(name), &all).unwrap();
        }
        let name = encode(UNIVERSAL);
        self.add([&format!("/src/branch/main/{name}"), &format!("/blame/branch/main/{name}")]);
        self.add([&format!("/commits/branch/main/{name}"), &format!("/_edit/main/{name}")]);
        git.run("work", &["add", "-A"]).await;
        for _ in 0..ENTRIES {
            let message = format!("{}\n\n{}", self.texts.lines(200), self.texts.lines(500));
            let mut command = git.command("work", &["commit", "-q", "--allow-empty", "-m", &message]);
            let done = command.env("GIT_AUTHOR_NAME", self.texts.line(60)).output().await.unwrap();
            assert!(done.status.success(), "{done:?}");
        }
        let commit = git.run("work", &["rev-parse", "HEAD~1"]).await;
        let files = git.run("work", &["rev-parse", &format!("HEAD~{}", ENTRIES - 1)]).await;
        for _ in 0..3 {
            let name = self.texts.reference();
            git.run("work", &["update-ref", &format!("refs/heads/branch-{name}"), "HEAD"]).await;
            let at = encode(&format!("branch-{name}"));
            self.add([&format!("/src/branch/{at}"), &format!("/commits/branch/{at}"), &format!("/atom/branch/{at}")]);
            git.run("work", &["tag", "-a", "-m", &self.texts.lines(200), &format!("tag-{name}")]).await;
        }
        git.run("work", &["tag", "-a", "-m", "x", "v\"><u/class=zap>"]).await;
        git.run("work", &["checkout", "-q", "-b", "topic\"><u/class=zap>"]).await;
        git.commit("work", "changed.html", &all).await;
        git.run("work", &["push", "-q", "--mirror", &self.ada.git_url(&self.ada.name, "stage")]).await;
        self.add(["", "/branches", "/tags", "/tags.atom", "/commits/branch/main", "/atom/branch/main"]);
        self.add(["/find/branch/main?q=zap", &format!("/commit/{commit}"), &format!("/commit/{files}?style=split")]);
        let head = encode("topic\"><u/class=zap>");
        self.add([&format!("/compare/main...{head}"), &format!("/pulls/new/main...{head}"), "/pulls/new"]);
        commit
    }

    async fn track(&mut self) {
        let (ada, repo, texts) = (self.ada.clone(), self.repo.clone(), std::mem::take(&mut self.texts));
        let (mut labels, mut milestone) = (Vec::new(), 0);
        for (number, text) in TEXTS.iter().enumerate().take(ENTRIES) {
            let name = format!("{number} {}", texts.line(40));
            let label = json!({"name": name, "color": "#ff8000", "description": texts.lines(255)});
            labels.push(id(&ada.post(&format!("{repo}/labels"), &label).await.expect(201).json()));
            let body = json!({"title": format!("{number} {}", texts.line(40)), "description": text});
            milestone = id(&ada.post(&format!("{repo}/milestones"), &body).await.expect(201).json());
        }
        let more = json!({"body": document(), "labels": labels, "milestone": milestone, "assignees": [ada.name]});
        let first = ada.new_issue(&repo, &texts.lines(200), more).await["number"].as_i64().unwrap();
        for_each(4, 0..ENTRIES, async |number: usize| {
            let title = texts.lines(200);
            ada.new_issue(&repo, &title, json!({"body": TEXTS[number], "labels": [labels[number]]})).await;
        })
        .await;
        for_each(4, TEXTS.iter().copied(), async |text: &'static str| {
            ada.new_comment(&repo, first, text).await;
        })
        .await;
        ada.edit_issue(&repo, first, json!({"title": texts.lines(200), "milestone": 0})).await;
        ada.edit_issue(&repo, first, json!({"title": UNIVERSAL})).await;
        self.texts = texts;
        let (label, issue) = (labels[0], format!("/issues/{first}"));
        self.add(["/issues", "/issues/new", "/labels", "/milestones", ".atom", &issue, &format!("{issue}?page=2")]);
        self.add([&format!("{issue}/edit"), &format!("{issue}/changes"), &format!("/issues?labels={label}")]);
        self.add([&format!("/milestone/{milestone}"), &format!("/milestones/{milestone}/edit")]);
        self.add([&format!("/labels/{label}/edit"), &format!("/issues?milestone={milestone}")]);
    }

    async fn propose(&mut self, reviewer: &User, commit: &str) {
        let Self { ada, repo, texts, .. } = &*self;
        reviewer.patch("/user/settings", &json!({"full_name": texts.lines(100)})).await.expect(200);
        ada.share(repo, reviewer, "write").await;
        let title = texts.lines(200);
        let body = json!({"head": "topic\"><u/class=zap>", "base": "main", "title": title, "body": document()});
        let number = ada.post(&format!("{repo}/pulls"), &body).await.expect(201).json()["number"].clone();
        let comment = |text: &str| json!({"path": "changed.html", "body": text, "new_position": 1});
        let comments: Vec<_> = TEXTS.iter().step_by(4).map(|text| comment(text)).collect();
        let review = json!({"event": "COMMENT", "body": document(), "comments": comments});
        reviewer.post(&format!("{repo}/pulls/{number}/reviews"), &review).await.expect(200);
        let status = json!({
            "state": "success", "context": texts.lines(255), "description": texts.lines(255),
            "target_url": "javascript:zap()",
        });
        made(&ada.post(&format!("{repo}/statuses/{commit}"), &status).await);
        let pull = format!("/pulls/{number}");
        self.add(["/pulls", &pull, &format!("{pull}/files"), &format!("{pull}/commits")]);
        self.add([&format!("{pull}/files?style=split"), &format!("/issues/{number}/edit")]);
    }

    async fn release(&mut self) {
        let Self { ada, repo, texts, .. } = &*self;
        let tag = "v\"><u/class=zap>";
        let body = json!({"tag_name": tag, "name": texts.lines(200), "body": document()});
        let release = id(&ada.post(&format!("{repo}/releases"), &body).await.expect(201).json());
        for text in [UNIVERSAL, "<img src=x onerror=zap()>", "x\"onload=\"zap()"] {
            let path = format!("{repo}/releases/{release}/assets?name={}", encode(text));
            let request = ada.request(Method::POST, &path).header("content-type", "application/octet-stream");
            made(&Response::of(request.body("x")).await);
        }
        let tag = encode(tag);
        self.add(["/releases", "/releases.atom", "/releases/new", &format!("/releases/tag/{tag}")]);
        self.add([&format!("/releases/edit/{tag}"), &format!("/releases/delete/{tag}")]);
    }

    async fn write_wiki(&mut self) {
        for title in ["Home", "_Sidebar", "_Footer", UNIVERSAL] {
            let message = self.texts.lines(200);
            let page = json!({"title": title, "content_base64": STANDARD.encode(document()), "message": message});
            made(&self.ada.post(&format!("{}/wiki/new", self.repo), &page).await);
        }
        self.add(["/wiki", "/wiki/_pages", "/wiki?action=_edit", "/wiki?action=_revision"]);
    }

    async fn configure(&mut self) {
        let Self { ada, repo, texts, .. } = &*self;
        for path in [format!("{repo}/keys"), "/user/keys".to_owned()] {
            for _ in 0..2 {
                made(&ada.post(&path, &json!({"title": texts.lines(255), "key": ed25519("x")})).await);
            }
        }
        let config = json!({
            "url": ADDRESS, "content_type": "json", "channel": UNIVERSAL, "username": texts.line(50),
            "icon_url": ADDRESS, "color": "#ff8000",
        });
        let hook = json!({"type": "slack", "config": config, "events": ["push"], "active": false});
        let hook = made(&ada.post(&format!("{repo}/hooks"), &hook).await);
        self.pages.push("/user/settings/keys".to_owned());
        self.add(["/settings", "/settings/keys", "/settings/branches", "/settings/collaboration", "/settings/hooks"]);
        if let Some(hook) = hook {
            self.add([&format!("/settings/hooks/{}", hook["id"]), &format!("/settings/hooks/{}/delete", hook["id"])]);
        }
    }

    /// Pages that show a text of their address, encoded.
    fn echoes(&self, text: &str) -> Vec<String> {
        let below = [
            format!("/{text}"),
            format!("/issues?q={text}"),
            format!("/issues?labels={text}&milestone={text}&assignee={text}&sort={text}&state={text}"),
            format!("/pulls?q={text}"),
            format!("/find/branch/main?q={text}"),
            format!("/compare?base={text}"),
            format!("/compare/main...{text}"),
            format!("/pulls/new/main...{text}"),
            format!("/src/branch/{text}"),
            format!("/src/branch/main/{text}/x"),
            format!("/commits/branch/main/{text}"),
            format!("/_new/main?path={text}"),
            format!("/_upload/main/{text}"),
            format!("/branches/delete?name={text}"),
            format!("/releases/tag/{text}"),
            format!("/wiki/{text}"),
            format!("/wiki/_new?title={text}"),
            format!("/settings?saved={text}"),
            format!("/settings/hooks/{text}/new"),
        ];
        let (name, organization) = (&self.ada.name, &self.organization);
        let site = [
            format!("/{text}"),
            format!("/search?q={text}"),
            format!("/search?q={text}&type=users"),
            format!("/search?q={text}&type=issues"),
            format!("/search?q=x&type={text}"),
            format!("/explore/users?q={text}"),
            format!("/explore/repos?q={text}"),
            format!("/{name}?q={text}&tab={text}"),
            format!("/issues?type={text}&state={text}"),
            format!("/org/{organization}/teams/{text}"),
            format!("/-/admin/users?q={text}"),
            format!("/-/admin/audit?actor={text}&action={text}&target={text}"),
            format!("/repo/create?owner={text}"),
            format!("/repo/migrate?clone_addr={text}"),
        ];
        below.iter().map(|rest| format!("{}{rest}", self.path)).chain(site).collect()
    }
}
