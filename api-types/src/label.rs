//! Labels.

use ferrite_proto::issue;
use serde::Serialize;

use crate::links::RepositoryLinks;

/// A label of a repository.
#[derive(Clone, Debug, Serialize)]
pub struct Label {
    id: i64,
    name: String,
    /// Without `#`, which it has in requests.
    color: String,
    url: String,
}

impl Label {
    /// Converts a label.
    #[must_use]
    pub fn new(label: issue::Label, urls: &RepositoryLinks) -> Self {
        Self { url: urls.label(label.id), id: label.id, name: label.name, color: label.color }
    }
}
