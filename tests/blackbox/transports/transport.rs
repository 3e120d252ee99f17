use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::ssh::{Client, client_of};
use crate::harness::{Cluster, Git, User};

enum Kind {
    Http(Git),
    Ssh(Client),
}

pub(super) struct Transport {
    kind: Kind,
    pub(super) user: User,
}

/// A repository with its URL for a transport.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) id: i64,
}

/// Runs `case` over both transports concurrently, each with separate repositories.
pub(super) async fn over_both(cluster: &Cluster, case: impl AsyncFn(&Transport)) {
    let user = cluster.user("ada").await;
    let client = client_of(cluster, &user, "ed25519").await;
    let http = Transport { kind: Kind::Http(Git::new()), user: user.clone() };
    let ssh = Transport { kind: Kind::Ssh(client), user };
    tokio::join!(case(&http), case(&ssh));
}

impl Transport {
    pub(super) fn git(&self) -> &Git {
        match &self.kind {
            Kind::Http(git) => git,
            Kind::Ssh(client) => &client.git,
        }
    }

    pub(super) fn ssh(&self) -> Option<&Client> {
        match &self.kind {
            Kind::Http(_) => None,
            Kind::Ssh(client) => Some(client),
        }
    }

    pub(super) fn url(&self, name: &str) -> String {
        match &self.kind {
            Kind::Http(_) => self.user.git_url(&self.user.name, name),
            Kind::Ssh(client) => client.url(&self.user.name, name),
        }
    }

    pub(super) fn with_token(&self, token: &str) -> Self {
        Self { kind: Kind::Http(Git::new()), user: self.user.with_token(Some(token)) }
    }

    /// Creates a repository; `more` is added to the request body.
    pub(super) async fn repository(&self, stem: &str, more: Value) -> Target {
        let name = unique(stem);
        let made = self.user.new_repository(&name, more).await;
        Target { url: self.url(&name), id: made["id"].as_i64().unwrap(), name }
    }

    pub(super) async fn empty(&self, stem: &str) -> Target {
        self.repository(stem, json!({})).await
    }
}
