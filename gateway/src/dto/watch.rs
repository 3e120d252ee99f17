use ferrite_proto::repo;
use serde::Serialize;

use ferrite_api_types::convert::{MissingField, time};
use ferrite_api_types::links::Links;

/// The watch of the caller on a repository, as Gitea shows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Watch {
    subscribed: bool,
    ignored: bool,
    /// Always null.
    reason: Option<()>,
    created_at: String,
    url: String,
    repository_url: String,
}

impl Watch {
    pub(crate) fn new(watch: &repo::Watch, links: &Links) -> Result<Self, MissingField> {
        let repository = links.repository(&watch.owner, &watch.name);
        Ok(Self {
            subscribed: true,
            ignored: false,
            reason: None,
            created_at: time(watch.create_time, "create_time")?,
            url: repository.subscription(),
            repository_url: repository.api(),
        })
    }
}
