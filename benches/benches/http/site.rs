//! An installation with the data for the requests, created over REST.

use std::path::{Path, PathBuf};

use ferrite_benches::Failure;
use ferrite_benches::databases::Databases;
use ferrite_benches::installation::{Installation, PASSWORD, Settings, USER, client, create_token, created, id_of};
use reqwest::Method;
use serde_json::{Value, json};

use crate::files;

pub(crate) const REPOSITORY: &str = "demo";
/// Part of the names of the repositories that a search finds. It has more substrings than repo-svc
/// caches pages.
pub(crate) const SEARCHED: &str = "needle-qhzjvwkyxgbpmfudcotirlsnea-qwfpgjluyarstdhneiozxcvbkm-ybvzkjxqwg";
pub(crate) const BRANCHES: usize = 10;
/// Repositories that the search finds.
pub(crate) const FOUND: usize = 50;
const AUTHOR: &str = "bench-author";
/// Repositories that the search does not find, and issues.
const OTHERS: usize = 200;
const ISSUES: usize = 100;
/// Files of the repository with many.
const FILES: usize = 10_000;
/// The same numbers in a test; repositories of each kind.
const TEST_REPOSITORIES: usize = 2;
const TEST_ISSUES: usize = 3;
const TEST_FILES: usize = 20;

/// Without these settings, the bench would reach the limits of one user.
const SETTINGS: [(&str, &str); 4] = [
    ("FERRITE_ISSUE_ISSUES_PER_HOUR", "0"),
    ("FERRITE_ISSUE_COMMENTS_PER_HOUR", "0"),
    ("FERRITE_ISSUE_TEXT_BYTES_PER_HOUR", "0"),
    ("FERRITE_REPO_ADMINISTRATOR_CREATIONS_PER_HOUR", "0"),
];

/// An installation.
pub(crate) struct Site {
    pub(crate) installation: Installation,
    pub(crate) folder: PathBuf,
    /// Host and port of Redis, if there is one.
    pub(crate) redis: Option<String>,
}

impl Site {
    /// Starts an installation and fills it.
    pub(crate) async fn new(
        databases: Databases,
        folder: &Path,
        place: u8,
        redis: Option<&str>,
        is_full: bool,
    ) -> Result<Self, Failure> {
        let mut settings = SETTINGS.to_vec();
        if let Some(url) = redis {
            settings.push(("FERRITE_REDIS_URL", url.to_owned().leak()));
        }
        // Lives as long as the bench.
        let settings: Settings = settings.leak();
        let installation = Installation::new(databases, folder, place, settings).await?;
        let redis = redis.map(|url| url.trim_start_matches("redis://").to_owned());
        let site = Self { installation, folder: folder.to_owned(), redis };
        let counts =
            if is_full { (FOUND, OTHERS, ISSUES) } else { (TEST_REPOSITORIES, TEST_REPOSITORIES, TEST_ISSUES) };
        site.fill(counts).await?;
        files::push(&site.installation, folder, if is_full { FILES } else { TEST_FILES }).await?;
        Ok(site)
    }

    /// Creates repositories that the search finds, others, and issues.
    async fn fill(&self, (found, others, issues): (usize, usize, usize)) -> Result<(), Failure> {
        let account = json!({"username": AUTHOR, "email": "author@example.com", "password": PASSWORD});
        self.installation.create("/admin/users", &account).await?;
        self.installation.create("/user/repos", &json!({"name": REPOSITORY, "auto_init": true})).await?;
        for number in 0..found {
            self.installation.create("/user/repos", &json!({"name": format!("{SEARCHED}-{number}")})).await?;
        }
        for number in 0..others {
            self.installation.create("/user/repos", &json!({"name": format!("other-{number}")})).await?;
        }
        let path = format!("/repos/{USER}/{REPOSITORY}");
        for number in 1..BRANCHES {
            let author = json!({"name": "An author", "email": "author@example.com"});
            let file = json!({"content": "dGV4dAo=", "message": "A change", "branch": "main",
                "new_branch": format!("topic-{number}"), "author": author});
            self.change(Method::PUT, &format!("{path}/contents/file-{number}"), &file).await?;
        }
        self.open_issues(&path, issues).await
    }

    /// Opens issues with labels and a milestone. The owner sets them on issues by another author.
    async fn open_issues(&self, path: &str, count: usize) -> Result<(), Failure> {
        let token = create_token(&client()?, &self.installation.url, AUTHOR, PASSWORD).await?;
        let mut labels = Vec::new();
        for name in ["bug", "late"] {
            let label = json!({"name": name, "color": "#aabbcc"});
            labels.push(id_of(&self.installation.create(&format!("{path}/labels"), &label).await?)?);
        }
        let milestone = self.installation.create(&format!("{path}/milestones"), &json!({"title": "1.0"})).await?;
        let (milestone, client) = (id_of(&milestone)?, client()?);
        for number in 0..count {
            let issue = json!({"title": format!("Issue {number}"), "body": "Some text.\n".repeat(20)});
            let url = format!("{}/api/v1{path}/issues", self.installation.url);
            let made = created(client.post(url).header("authorization", format!("token {token}")).json(&issue)).await?;
            let issue = format!("{path}/issues/{}", made["number"]);
            self.change(Method::PATCH, &issue, &json!({"milestone": milestone, "assignee": USER})).await?;
            self.change(Method::POST, &format!("{issue}/labels"), &json!({"labels": labels})).await?;
        }
        Ok(())
    }

    async fn change(&self, method: Method, path: &str, body: &Value) -> Result<(), Failure> {
        let answer = self.installation.request(&client()?, method, path).json(body).send().await?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("{path}: {status}: {}", answer.text().await?).into()) }
    }
}
