use std::fmt::Debug;

use ferrite_core::timestamp;
use ferrite_proto::issue::{self, IssueState};
use ferrite_proto::repo;
pub(super) use ferrite_rpc::testing::failure;
use prost::Message;
use serde_json::{Value, json};

use super::script::Script;
use super::{GOOD, TestGateway};

pub(super) const ISSUES: &str = "ferrite.issue.v1.IssueService";
pub(super) const COMMENTS: &str = "ferrite.issue.v1.CommentService";
pub(super) const LABELS: &str = "ferrite.issue.v1.LabelService";
pub(super) const MILESTONES: &str = "ferrite.issue.v1.MilestoneService";
pub(super) const GET_USERS: &str = "AccountService/GetUsers";

/// The repository `Bob/Demo` with id 7, to which the token `good` has access.
pub(super) struct Tracker {
    pub(super) gateway: TestGateway,
    pub(super) script: Script,
}

pub(super) fn bob() -> repo::User {
    repo::User { id: 3, username: "Bob".into(), email: "bob@example.com".into(), ..Default::default() }
}

/// The JSON of [`bob`].
pub(super) fn shown_bob() -> Value {
    json!({
        "id": 3, "username": "Bob", "login": "Bob", "full_name": "", "email": "bob@example.com",
        "avatar_url": "http://git.example.com/avatars/3", "visibility": "public",
    })
}

/// Issue 2 of [`bob`].
pub(super) fn open_issue() -> issue::Issue {
    issue::Issue {
        id: 11,
        repository_id: 7,
        number: 2,
        user_id: 3,
        title: "t".into(),
        state: IssueState::Open.into(),
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        ..Default::default()
    }
}

pub(super) fn label() -> issue::Label {
    issue::Label {
        id: 5,
        repository_id: 7,
        name: "bug".into(),
        color: "e11d21".into(),
        organization_id: 0,
        description: "Broken".into(),
    }
}

/// The JSON of [`label`].
pub(super) fn shown_label() -> Value {
    let url = "http://git.example.com/api/v1/repos/Bob/Demo/labels/5";
    json!({"id": 5, "name": "bug", "color": "e11d21", "description": "Broken", "url": url})
}

fn access(identity: Option<repo::Identity>) -> repo::ResolveAccessResponse {
    let repository = repo::Repository { id: 7, owner: Some(bob()), name: "Demo".into(), ..Default::default() };
    let (repository, grant) = (Some(repository), "grant".into());
    repo::ResolveAccessResponse { repository, stored_id: 7, grant, identity, ..Default::default() }
}

impl Tracker {
    pub(super) async fn new() -> Self {
        let (gateway, script) = Script::gateway().await;
        script.respond("AccessService/ResolveAccess", &access(None));
        script.respond(GET_USERS, &repo::GetUsersResponse { users: vec![bob()], ..Default::default() });
        Self { gateway, script }
    }

    pub(super) fn sign_in_bob(&self) {
        let bob = bob();
        let identity = repo::Identity {
            user_id: bob.id,
            username: bob.username,
            full_name: bob.full_name,
            email: bob.email,
            ..Default::default()
        };
        self.script.respond("AccessService/ResolveAccess", &access(Some(identity)));
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, _, text) = self.gateway.send(method, path, Some(GOOD), body).await;
        (status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() })
    }

    /// Sends a request, checks that the service got `expected`, and returns the client's status and
    /// JSON.
    pub(super) async fn check<Q: Message + Default + PartialEq + Debug>(
        &self,
        request: (&str, &str, &str),
        rpc: &str,
        expected: Q,
        response: impl Message,
    ) -> (u16, Value) {
        self.script.respond(rpc, &response);
        let (method, path, body) = request;
        let (status, shown) = self.send(method, path, body).await;
        assert_eq!(self.script.take_request::<Q>(rpc), Some(expected), "{method} {path} {body} {shown}");
        (status, shown)
    }

    pub(super) fn lookup(&self) -> Option<repo::GetUsersRequest> {
        self.script.take_request(GET_USERS)
    }
}
