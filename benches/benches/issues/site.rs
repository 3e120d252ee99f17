//! An installation with one repository, whose issues are measured.

use std::path::Path;

use ferrite_benches::Failure;
use ferrite_benches::databases::{self, Databases};
use ferrite_benches::installation::{self, Installation, PASSWORD, USER, id_of};
use ferrite_core::Secret;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method};
use serde_json::json;

const REPOSITORY: &str = "tracker";
/// Accounts that open issues and are assigned to them.
const MEMBERS: usize = 10;
pub(crate) const LABELS: usize = 20;
const MILESTONES: usize = 5;

/// An installation with accounts and a repository.
pub(crate) struct Site {
    pub(crate) installation: Installation,
    pub(crate) size: i64,
    pub(crate) repository_id: i64,
    /// Ids of the accounts.
    pub(crate) members: Vec<i64>,
    client: Client,
}

impl Site {
    /// Starts an installation in an empty folder and creates its accounts and its repository with
    /// labels and milestones. `place` distinguishes the installations of a bench.
    pub(crate) async fn new(databases: Databases, folder: &Path, place: u8, size: i64) -> Result<Self, Failure> {
        let installation = Installation::new(databases, folder, place, &[]).await?;
        let mut members = Vec::new();
        for number in 0..MEMBERS {
            let name = member(number);
            let email = format!("{name}@example.com");
            let body = json!({ "username": name, "email": email, "password": PASSWORD });
            members.push(id_of(&installation.create("/admin/users", &body).await?)?);
        }
        let made = installation.create("/user/repos", &json!({ "name": REPOSITORY })).await?;
        let repository_id = id_of(&made)?;
        for number in 0..LABELS {
            installation.create(&repository("/labels"), &json!({ "name": label(number), "color": "#00aabb" })).await?;
        }
        for number in 0..MILESTONES {
            let body = json!({ "title": format!("milestone {number}") });
            installation.create(&repository("/milestones"), &body).await?;
        }
        Ok(Self { installation, size, repository_id, members, client: installation::client()? })
    }

    /// URL of issue-svc's database.
    pub(crate) fn database(&self) -> Result<Secret, Failure> {
        self.installation.databases.url("issue-svc")
    }

    /// Updates the database statistics.
    pub(crate) async fn settle(&self) -> Result<(), Failure> {
        databases::settle(&self.database()?).await
    }

    /// Sends a GET over the shared connection and returns headers and body. Fails unless the status
    /// is 200.
    pub(crate) async fn get(&self, path: &str) -> Result<(HeaderMap, bytes::Bytes), Failure> {
        let answer = self.installation.request(&self.client, Method::GET, path).send().await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = answer.bytes().await?;
        if status == 200 {
            return Ok((headers, body));
        }
        Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into())
    }
}

/// Path of the repository below `/api/v1`, followed by `rest`.
pub(crate) fn repository(rest: &str) -> String {
    format!("/repos/{USER}/{REPOSITORY}{rest}")
}

pub(crate) fn member(number: usize) -> String {
    format!("member{number}")
}

/// Label 0 is the most frequent.
pub(crate) fn label(number: usize) -> String {
    format!("label{number:02}")
}
