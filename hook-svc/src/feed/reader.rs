//! Checks what a reader of a feed may see.
//!
//! repo-svc is asked right before events are sent, once for all of them. The reader's grant is
//! older than its wait and does not cover forks and releases.

use std::collections::{HashMap, HashSet};

use ferrite_proto::events::event::Fact;
use ferrite_proto::grant::{Credential, Grant, Reauthorization};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue;
use ferrite_proto::repo::{ReauthorizeAccessRequest, ResolveFeedAccessRequest};
use ferrite_proto::text_digest;
use ferrite_rpc::auth::{AuthError, Authorizer};

use super::{FeedError, FeedItem};
use crate::payload::redact::{HEAD_REPOSITORY, RELEASE_NOTES, TEXT_BEFORE, TextPath, without_texts, without_value};
use crate::store::events::{Source, StoredEvent};

/// A reader of one repository's feed.
#[derive(Clone, Debug)]
pub(crate) struct FeedReader {
    access: ReauthorizeAccessRequest,
    /// The source of which the reader may see no event.
    pub(super) hidden: Option<Source>,
}

/// The content of an event besides the repository itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    Issue {
        is_pull: bool,
        /// Whether it contains the text that an edit replaced.
        has_text_before: bool,
        /// The repository of the head of a pull request, if it is another one.
        head: Option<i64>,
    },
    /// An unreadable fact about an issue or a pull request.
    Unknown,
    Fork(i64),
    Release {
        id: i64,
        notes_digest: [u8; 32],
    },
}

impl FeedReader {
    /// Returns the reader named by a grant. Fails with [`AuthError::CredentialsRequired`] if the
    /// grant has no user.
    pub(crate) fn new(grant: &Grant) -> Result<Self, AuthError> {
        let user = grant.user.as_ref().ok_or(AuthError::CredentialsRequired)?;
        let credential = Credential::Token(user.token_id);
        let access = Reauthorization { repository: grant.repository, is_wiki: false, is_git: false, credential };
        let hidden = (!grant.issues_enabled && !grant.pulls_enabled).then_some(Source::Issue);
        Ok(Self { access: access.request(grant.operation.clone()), hidden })
    }

    pub(super) fn repository(&self) -> RepositoryId {
        RepositoryId(self.access.repository_id)
    }

    /// Filters at most 100 events down to those that the reader may see now, and removes texts that
    /// have changed since.
    pub(super) async fn readable(
        &mut self,
        authorizer: &Authorizer,
        items: Vec<FeedItem>,
    ) -> Result<Vec<FeedItem>, FeedError> {
        let shown: Vec<_> = items.iter().map(|item| Shown::by(&item.event)).collect();
        let ids = |id: fn(&Shown) -> Option<i64>| {
            let ids: HashSet<_> = shown.iter().filter_map(id).collect();
            ids.into_iter().collect()
        };
        let request = ResolveFeedAccessRequest {
            access: Some(self.access.clone()),
            repository_ids: ids(|shown| match shown {
                Shown::Fork(id) => Some(*id),
                Shown::Issue { head, .. } => *head,
                Shown::Nothing | Shown::Unknown | Shown::Release { .. } => None,
            }),
            release_ids: ids(|shown| if let Shown::Release { id, .. } = shown { Some(*id) } else { None }),
        };
        let response = authorizer.resolve_feed(request).await?;
        let (reads_issues, reads_pulls) = (response.can_read_issues, response.can_read_pulls);
        self.hidden = (!reads_issues && !reads_pulls).then_some(Source::Issue);
        let repositories: HashSet<_> = response.repository_ids.into_iter().collect();
        let releases: HashMap<_, _> =
            response.releases.into_iter().map(|release| (release.id, release.notes_digest)).collect();
        let readable = |(item, shown): (FeedItem, Shown)| match shown {
            Shown::Nothing => Some(item),
            Shown::Issue { is_pull: true, .. } if !reads_pulls => None,
            Shown::Issue { is_pull: false, .. } if !reads_issues => None,
            Shown::Issue { has_text_before, head, .. } => {
                let item = if has_text_before { without(item, TEXT_BEFORE)? } else { item };
                match head {
                    Some(head) if !repositories.contains(&head) => without_head(item),
                    _ => Some(item),
                }
            }
            Shown::Unknown if !reads_issues || !reads_pulls => None,
            Shown::Unknown => without(item, TEXT_BEFORE),
            Shown::Fork(id) => repositories.contains(&id).then_some(item),
            Shown::Release { id, notes_digest } if releases.get(&id)? == &notes_digest => Some(item),
            Shown::Release { .. } => without(item, RELEASE_NOTES),
        };
        Ok(items.into_iter().zip(shown).filter_map(readable).collect())
    }
}

impl Shown {
    fn by(event: &StoredEvent) -> Self {
        let issue = |old_body: &Option<String>, head| Self::Issue {
            is_pull: event.is_of_pull(),
            has_text_before: old_body.is_some(),
            head,
        };
        let head = |pull: Option<&issue::Issue>| {
            let head = pull?.pull_request.as_ref()?.head_repository_id;
            (head != 0 && head != event.repository.0).then_some(head)
        };
        match &event.fact.fact {
            Some(Fact::IssueUpdated(updated)) => issue(&updated.old_body, head(updated.issue.as_ref())),
            Some(Fact::PullReviewed(reviewed)) => issue(&None, head(reviewed.pull.as_ref())),
            Some(Fact::CommentChanged(changed)) => issue(&changed.old_body, None),
            Some(Fact::RepositoryForked(forked)) => Self::Fork(forked.fork.as_ref().map_or(0, |fork| fork.id)),
            Some(Fact::ReleasePublished(published)) => published.release.as_ref().map_or(Self::Nothing, |release| {
                Self::Release { id: release.id, notes_digest: text_digest(&release.body) }
            }),
            _ if event.source == Source::Issue => Self::Unknown,
            _ => Self::Nothing,
        }
    }
}

/// Removes one text from an event's payload. Returns `None` if the payload is unreadable.
fn without(item: FeedItem, text: TextPath) -> Option<FeedItem> {
    let payload = without_texts(&item.payload, &[text]);
    with_payload(item, payload)
}

/// Removes the repository of a pull request's head, which was shown when everybody could see it.
/// Returns `None` if the payload is unreadable.
fn without_head(item: FeedItem) -> Option<FeedItem> {
    let payload = without_value(&item.payload, HEAD_REPOSITORY);
    with_payload(item, payload)
}

fn with_payload(item: FeedItem, payload: Result<String, serde_json::Error>) -> Option<FeedItem> {
    match payload {
        Ok(payload) => Some(FeedItem { payload, ..item }),
        Err(error) => {
            tracing::error!(%error, event.id = item.event.id, "unreadable payload; its feed omits the event");
            None
        }
    }
}
