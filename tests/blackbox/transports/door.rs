//! A way in, and git that takes it.

use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::ssh::{Client, client_of};
use crate::harness::{Cluster, Git, User};

/// Which way.
enum Way {
    Http(Git),
    Ssh(Client),
}

/// One door, a user who has its key, and a folder in which git runs.
pub(super) struct Door {
    way: Way,
    pub(super) user: User,
}

/// A repository behind a door.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) id: i64,
}

/// Does the same through both doors, at once: each time with repositories of its own.
pub(super) async fn through_both(cluster: &Cluster, case: impl AsyncFn(&Door)) {
    let user = cluster.user("ada").await;
    let client = client_of(cluster, &user, "ed25519").await;
    let http = Door { way: Way::Http(Git::new()), user: user.clone() };
    let ssh = Door { way: Way::Ssh(client), user };
    tokio::join!(case(&http), case(&ssh));
}

impl Door {
    /// git, whose URLs over SSH find the key.
    pub(super) fn git(&self) -> &Git {
        match &self.way {
            Way::Http(git) => git,
            Way::Ssh(client) => &client.git,
        }
    }

    /// The key's holder, if this door wants a key.
    pub(super) fn ssh(&self) -> Option<&Client> {
        match &self.way {
            Way::Http(_) => None,
            Way::Ssh(client) => Some(client),
        }
    }

    /// Where a repository of the user's is.
    pub(super) fn url(&self, name: &str) -> String {
        match &self.way {
            Way::Http(_) => self.user.git_url(&self.user.name, name),
            Way::Ssh(client) => client.url(&self.user.name, name),
        }
    }

    /// The same over HTTP, with another token.
    pub(super) fn with_token(&self, token: &str) -> Self {
        Self { way: Way::Http(Git::new()), user: self.user.with_token(Some(token)) }
    }

    /// A new repository; `more` is added to the request.
    pub(super) async fn repository(&self, stem: &str, more: Value) -> Target {
        let name = unique(stem);
        let made = self.user.new_repository(&name, more).await;
        Target { url: self.url(&name), id: made["id"].as_i64().unwrap(), name }
    }

    /// An empty one.
    pub(super) async fn empty(&self, stem: &str) -> Target {
        self.repository(stem, json!({})).await
    }
}
