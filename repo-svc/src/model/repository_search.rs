use ferrite_proto::id::{TeamId, UserId};
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
    /// If false, the viewer's own repositories include those of others that it has a role on.
    pub(crate) is_exclusive: bool,
    /// True for private repositories only, false for public ones only.
    pub(crate) is_private: Option<bool>,
    pub(crate) excludes_private: bool,
    /// A user who starred them.
    pub(crate) starred_by: Option<UserId>,
    /// A team that holds them. The caller checks that the viewer may see it.
    pub(crate) team: Option<TeamId>,
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
            is_exclusive: request.is_exclusive,
            is_private: request.is_private,
            excludes_private: request.excludes_private,
            starred_by: (request.starred_by_user_id != 0).then_some(UserId(request.starred_by_user_id)),
            team: (request.team_id != 0).then_some(TeamId(request.team_id)),
        })
    }
}
