//! The terms of a search for repositories.
//!
//! Not here: the text (`search_text`), and SQL.

use ferrite_proto::id::UserId;
use ferrite_proto::repo::{RepositoryMode, RepositorySort, SearchRepositoriesRequest};

use super::search_text::SearchText;
use super::topic::Topic;
use super::violations::Violations;
use crate::error::RepoError;

/// The checked terms of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RepositorySearch {
    /// The text.
    pub(crate) text: SearchText,
    /// The owner; `None` for all.
    pub(crate) owner: Option<UserId>,
    /// The order.
    pub(crate) sort: RepositorySort,
    /// True for the reverse order.
    pub(crate) is_descending: bool,
    /// The kind of repositories.
    pub(crate) mode: RepositoryMode,
    /// A topic that they must have.
    pub(crate) topic: Option<Topic>,
    /// True for archived ones only, false for the others only.
    pub(crate) is_archived: Option<bool>,
}

impl RepositorySearch {
    /// Checks the fields of a client's request.
    ///
    /// # Errors
    /// [`RepoError::Invalid`] with every field that breaks a rule.
    pub(crate) fn check(request: &SearchRepositoriesRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let text = violations.take(SearchText::parse(&request.query, "q"));
        let topic = match request.topic.as_str() {
            "" => Some(None),
            topic => violations.take(Topic::parse(topic, "topic")).map(Some),
        };
        let (Some(text), Some(topic)) = (text, topic) else { return Err(violations.into_error()) };
        Ok(Self {
            text,
            owner: (request.owner_id != 0).then_some(UserId(request.owner_id)),
            sort: request.sort(),
            is_descending: request.is_descending,
            mode: request.mode(),
            topic,
            is_archived: request.is_archived,
        })
    }
}
