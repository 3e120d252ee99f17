//! Issues, labels, milestones and comments of tests, and their lists and timelines. A repository is
//! given by its path below `/api/v1`, such as `/repos/ada-1/tracker`.

use serde_json::{Value, json};

use super::client::{Response, User};

impl Response {
    #[track_caller]
    pub(crate) fn ids(&self, field: &str) -> Vec<i64> {
        let list = self.json();
        let list = list.as_array().unwrap_or_else(|| panic!("not a list: {list}"));
        list.iter().map(|item| item[field].as_i64().unwrap_or_else(|| panic!("no {field}: {item}"))).collect()
    }
}

impl User {
    /// Creates a repository of this user and returns its path; `more` is added to the request body.
    pub(crate) async fn new_tracker(&self, name: &str, more: Value) -> String {
        self.new_repository(name, more).await;
        self.repo(name, "")
    }

    pub(crate) async fn share(&self, repo: &str, user: &User, permission: &str) {
        let path = format!("{repo}/collaborators/{}", user.name);
        self.put(&path, &json!({ "permission": permission })).await.expect(204);
    }

    pub(crate) async fn new_issue(&self, repo: &str, title: &str, more: Value) -> Value {
        let mut body = json!({ "title": title });
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.post(&format!("{repo}/issues"), &body).await.expect(201).json()
    }

    pub(crate) async fn new_label(&self, repo: &str, name: &str) -> i64 {
        let body = json!({"name": name, "color": "#00aabb"});
        let made = self.post(&format!("{repo}/labels"), &body).await.expect(201).json();
        made["id"].as_i64().unwrap()
    }

    pub(crate) async fn new_milestone(&self, repo: &str, title: &str) -> i64 {
        let made = self.post(&format!("{repo}/milestones"), &json!({ "title": title })).await.expect(201).json();
        made["id"].as_i64().unwrap()
    }

    pub(crate) async fn new_comment(&self, repo: &str, number: i64, body: &str) -> i64 {
        let path = format!("{repo}/issues/{number}/comments");
        let made = self.post(&path, &json!({ "body": body })).await.expect(201).json();
        made["id"].as_i64().unwrap()
    }

    pub(crate) async fn edit_issue(&self, repo: &str, number: i64, body: Value) -> Value {
        self.patch(&format!("{repo}/issues/{number}"), &body).await.expect(200).json()
    }

    pub(crate) async fn issue(&self, repo: &str, number: i64) -> Value {
        self.get(&format!("{repo}/issues/{number}")).await.expect(200).json()
    }

    /// Numbers of the issues in a list; `query` follows the question mark.
    pub(crate) async fn issue_numbers(&self, repo: &str, query: &str) -> Vec<i64> {
        self.get(&format!("{repo}/issues?{query}")).await.expect(200).ids("number")
    }

    /// Number of open issues that a repository shows.
    pub(crate) async fn open_issues(&self, repo: &str) -> i64 {
        self.get(repo).await.expect(200).json()["open_issues_count"].as_i64().unwrap()
    }

    pub(crate) async fn milestone_counts(&self, repo: &str, id: i64) -> (i64, i64) {
        let shown = self.get(&format!("{repo}/milestones/{id}")).await.expect(200).json();
        (shown["open_issues"].as_i64().unwrap(), shown["closed_issues"].as_i64().unwrap())
    }

    pub(crate) async fn labels_of(&self, repo: &str, number: i64) -> Vec<String> {
        self.get(&format!("{repo}/issues/{number}/labels")).await.expect(200).each("name")
    }

    /// All pages of an issue's timeline.
    pub(crate) async fn timeline(&self, repo: &str, number: i64) -> Vec<Value> {
        let response = self.get(&format!("{repo}/issues/{number}/timeline")).await.expect(200);
        assert_eq!(response.header("link"), "", "the timeline has more than one page");
        response.json().as_array().unwrap().clone()
    }

    pub(crate) async fn actions(&self, repo: &str, number: i64) -> Vec<String> {
        let timeline = self.timeline(repo, number).await;
        timeline.iter().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
    }
}
