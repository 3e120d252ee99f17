//! A site with what people have on theirs, for tests that look at pages as a browser shows them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::receiver::{LOOPBACK, Receiver};
use crate::harness::{Cluster, Git, Options, Profile, Response, User};

const README: &str = "\
# Lantern\n\nA small lamp for the terminal: it shows how long a build has been running.\n\n\
```sh\ncargo install lantern\nlantern -- make test\n```\n\n\
| Color | Meaning |\n|---|---|\n| green | all tests passed |\n| amber | still running |\n| red | a test failed |\n\n\
- [x] colors\n- [ ] sounds\n\nSee the [guide](docs/guide.md#settings).\n";
const GUIDE: &str =
    "# Guide\n\n## Settings\n\nSettings are in `lantern.toml`.\n\n1. Choose a color.\n2. Save the file.\n";
const MAIN: &str = "\
//! Starts a command and shows a lamp while it runs.\n\nuse std::process::Command;\n\nmod lamp;\n\n\
fn main() {\n    let mut words = std::env::args().skip(1);\n    let Some(program) = words.next() else {\n        \
eprintln!(\"usage: lantern PROGRAM\");\n        std::process::exit(2);\n    };\n    let lamp = lamp::Lamp::new();\n    \
let status = Command::new(program).args(words).status();\n    lamp.show(status.is_ok_and(|status| status.success()));\n}\n";
const LAMP: &str = "\
/// A lamp in the last line of the terminal.\npub struct Lamp {\n    started: std::time::Instant,\n}\n\n\
impl Lamp {\n    pub fn new() -> Self {\n        Self { started: std::time::Instant::now() }\n    }\n\n    \
pub fn show(&self, is_green: bool) {\n        let color = if is_green { 32 } else { 31 };\n        \
println!(\"\\x1b[{color}m●\\x1b[0m {:?}\", self.started.elapsed());\n    }\n}\n";
const PICTURE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 8 8\"><circle cx=\"4\" cy=\"4\" r=\"3\" \
                       fill=\"#c80\"/></svg>\n";

pub(super) struct Showcase {
    pub(super) cluster: Cluster,
    pub(super) receiver: Receiver,
    pub(super) admin: User,
    pub(super) ada: User,
    pub(super) grace: User,
    pub(super) organization: String,
    /// The path of the repository's pages.
    pub(super) path: String,
    /// Its path in the API.
    pub(super) repo: String,
    /// The ids of its last commit, and of the head of the open pull request.
    pub(super) commit: String,
    pub(super) head: String,
    pub(super) issue: i64,
    pub(super) pull: i64,
    pub(super) merged: i64,
    pub(super) milestone: i64,
    pub(super) label: i64,
    pub(super) hook: i64,
    /// The path of the pages of a file of a release, below those of the repository.
    pub(super) release_file: String,
}

/// Creates an account with a name of our choice: nothing else is on this site.
async fn person(admin: &User, name: &str, full_name: &str) -> User {
    let mut user = admin.with_token(None);
    user.name = name.to_owned();
    user.password = format!("password of {name}");
    user.email = format!("{name}@example.com");
    let body = json!({
        "username": name, "email": user.email, "password": user.password, "full_name": full_name,
    });
    let made = admin.post("/admin/users", &body).await.expect(201).json();
    user.id = made["id"].as_i64().unwrap();
    user.token = Some(user.new_token("laptop").await);
    user
}

fn number(made: &Value) -> i64 {
    made["number"].as_i64().unwrap()
}

impl Showcase {
    pub(super) async fn new(profile: Profile) -> Self {
        let receiver = Receiver::start().await;
        let cluster = Cluster::start(profile, &Options { settings: LOOPBACK.to_vec(), ..Options::default() });
        let admin = cluster.admin().await;
        let ada = person(&admin, "ada", "Ada Lovelace").await;
        let grace = person(&admin, "grace", "Grace Hopper").await;
        let organization = "workshop".to_owned();
        ada.post("/user/orgs", &json!({"username": organization, "full_name": "The workshop"})).await.expect(201);
        ada.new_repository_of(&organization, "tools", false).await;
        ada.new_team(&organization, "makers", "write").await;
        ada.new_repository("empty", json!({"description": "Nothing yet"})).await;
        let described = json!({"description": "A lamp for the terminal", "website": "https://example.com/lantern"});
        let repo = ada.new_tracker("lantern", described).await;
        let hook = json!({
            "type": "gogs", "config": {"url": receiver.url("/hook"), "content_type": "json"}, "active": true,
            "events": ["create", "push", "issues", "issue_comment", "pull_request", "release"],
        });
        let hook = ada.post(&format!("{repo}/hooks"), &hook).await.expect(201).json()["id"].as_i64().unwrap();
        let chat = json!({
            "type": "slack", "config": {"url": receiver.url("/chat"), "content_type": "json", "channel": "#lantern"}, "active": true,
            "events": ["create", "push", "issues", "issue_comment", "pull_request", "release"],
        });
        ada.post(&format!("{repo}/hooks"), &chat).await.expect(201);
        let commit = push(&ada).await;
        let mut showcase = Self {
            cluster,
            receiver,
            admin,
            ada,
            grace,
            organization,
            path: "/ada/lantern".to_owned(),
            repo,
            commit,
            head: String::new(),
            issue: 0,
            pull: 0,
            merged: 0,
            milestone: 0,
            label: 0,
            hook,
            release_file: String::new(),
        };
        showcase.track().await;
        showcase.propose().await;
        showcase.release().await;
        showcase.describe().await;
        showcase
    }

    async fn track(&mut self) {
        let (ada, repo) = (&self.ada, &self.repo);
        ada.share(repo, &self.grace, "write").await;
        self.label = ada.new_label(repo, "bug").await;
        self.milestone = ada.new_milestone(repo, "v1.0").await;
        let more = json!({
            "labels": [self.label], "milestone": self.milestone, "assignees": ["grace"], "due_date": "2030-01-02T00:00:00Z",
            "body": format!("The lamp stays **amber** after the build, see {} and `src/lamp.rs`.", &self.commit[..10]),
        });
        self.issue = number(&ada.new_issue(repo, "The lamp stays amber", more).await);
        self.grace.new_comment(repo, self.issue, "Only if the build takes less than a second, @ada.").await;
        let reaction = json!({"content": "+1"});
        ada.post(&format!("{repo}/issues/{}/reactions", self.issue), &reaction).await.expect(201);
        ada.new_issue(repo, "Play a sound when a test fails", json!({})).await;
    }

    async fn propose(&mut self) {
        let (ada, grace, repo) = (&self.ada, &self.grace, &self.repo);
        let open = async |head: &str, title: &str, body: String| {
            let body = json!({"head": head, "base": "main", "title": title, "body": body});
            number(&grace.post(&format!("{repo}/pulls"), &body).await.expect(201).json())
        };
        self.merged = open("typo", "Explain the guide", String::new()).await;
        let merge = json!({"Do": "merge"});
        grace.post(&format!("{repo}/pulls/{}/merge", self.merged), &merge).await.expect(200);
        self.pull = open("short-builds", "Turn green at once", format!("Closes #{}.", self.issue)).await;
        let shown = ada.get(&format!("{repo}/pulls/{}", self.pull)).await.expect(200).json();
        shown["head"]["sha"].as_str().unwrap().clone_into(&mut self.head);
        for (context, state) in [("ci/test", "success"), ("ci/lint", "pending")] {
            let status = json!({"state": state, "context": context, "description": "42 tests"});
            ada.post(&format!("{repo}/statuses/{}", self.head), &status).await.expect(201);
        }
        let comment = json!({"path": "src/lamp.rs", "body": "Is this *always* right?", "new_position": 12});
        let review = json!({"event": "COMMENT", "body": "Nearly.", "comments": [comment]});
        ada.post(&format!("{repo}/pulls/{}/reviews", self.pull), &review).await.expect(200);
        let changed = self.ada.get(&format!("{repo}/branches/main")).await.expect(200).json();
        changed["commit"]["id"].as_str().unwrap().clone_into(&mut self.commit);
    }

    async fn describe(&self) {
        let text = STANDARD.encode("# Lamps\n\nHow the colors were chosen, and [what they mean](Colors).\n");
        let page = json!({"title": "Home", "content_base64": text});
        self.ada.post(&format!("{}/wiki/new", self.repo), &page).await.expect(201);
    }

    async fn release(&mut self) {
        let body =
            json!({"tag_name": "v0.1.0", "name": "First light", "body": "- It *glows*.", "target_commitish": "main"});
        let made = self.ada.post(&format!("{}/releases", self.repo), &body).await.expect(201).json();
        let path = format!("/api/v1{}/releases/{}/assets?name=lantern.txt", self.repo, made["id"]);
        let request =
            self.ada.raw(Method::POST, &path).body("light").header("content-type", "application/octet-stream");
        let token = format!("token {}", self.ada.token.as_deref().unwrap());
        let file = Response::of(request.header("authorization", token)).await.expect(201).json();
        self.release_file = format!("/releases/files/{}/{}", made["id"], file["id"]);
    }
}

/// Pushes the branches `main`, `typo` and `short-builds`, and returns the commit of `main`.
async fn push(ada: &User) -> String {
    let git = Git::new();
    git.small("lantern").await;
    let folder = git.path().join("lantern");
    for (file, content) in [("README.md", README), ("docs/guide.md", GUIDE), ("docs/lamp.svg", PICTURE)] {
        std::fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
        std::fs::write(folder.join(file), content).unwrap();
    }
    git.run("lantern", &["add", "-A"]).await;
    git.run("lantern", &["commit", "-q", "-m", "Describe the lamp\n\nWhat it shows, and how to install it."]).await;
    git.commit("lantern", "src/main.rs", MAIN).await;
    let commit = git.commit("lantern", "src/lamp.rs", LAMP).await;
    git.run("lantern", &["branch", "typo"]).await;
    git.run("lantern", &["checkout", "-q", "-b", "short-builds"]).await;
    git.commit("lantern", "src/lamp.rs", &LAMP.replace("{ 32 } else { 31 }", "{ GREEN } else { RED }")).await;
    git.commit("lantern", "src/colors.rs", "pub const GREEN: u8 = 32;\npub const RED: u8 = 31;\n").await;
    git.run("lantern", &["checkout", "-q", "typo"]).await;
    git.commit("lantern", "docs/guide.md", &GUIDE.replace("Choose a color", "Choose the color of the lamp")).await;
    git.run("lantern", &["push", "-q", &ada.git_url(&ada.name, "lantern"), "main", "typo", "short-builds"]).await;
    commit
}
