use ferrite_proto::id::UserId;
use ferrite_proto::repo::{RepositoryMode, RepositorySort, SearchRepositoriesRequest};

use super::search_text::SearchText;
use super::topic::Topic;
use super::violations::Violations;
use crate::error::RepoError;

/// The checked terms of a search for repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RepositorySearch {
    pub(crate) text: SearchText,
    /// `None` for all owners.
    pub(crate) owner: Option<UserId>,
    pub(crate) sort: RepositorySort,
    pub(crate) is_descending: bool,
    pub(crate) mode: RepositoryMode,
    pub(crate) topic: Option<Topic>,
    /// True for archived repositories only, false for the others only.
    pub(crate) is_archived: Option<bool>,
}

impl RepositorySearch {
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
