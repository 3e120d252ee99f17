use ferrite_proto::issue;
use serde::Serialize;

use crate::http::links::RepositoryLinks;

/// A label of a repository.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Label {
    id: i64,
    name: String,
    /// Without `#`, which it has in requests.
    color: String,
    url: String,
}

impl Label {
    pub(crate) fn new(label: issue::Label, urls: &RepositoryLinks) -> Self {
        Self { url: urls.label(label.id), id: label.id, name: label.name, color: label.color }
    }
}
