use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::TimelineAction;

use super::Write;
use crate::error::IssueError;
use crate::model::Issue;
use crate::store::TimelineEntry;

/// The users and issues that a text mentions, if its author may read their repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextTargets {
    /// Keys of names, without duplicates.
    pub(crate) mentions: Vec<String>,
    /// Repository and number, without duplicates.
    pub(crate) issues: Vec<(RepositoryId, i64)>,
}

impl Write<'_> {
    /// Adds a reference by `source` to the timeline of every mentioned issue, once each. Skips
    /// numbers without an issue.
    pub(super) async fn refer(
        &mut self,
        source: &Issue,
        targets: &TextTargets,
        actor: UserId,
    ) -> Result<(), IssueError> {
        if targets.issues.is_empty() {
            return Ok(());
        }
        let entry = TimelineEntry {
            source_repository_id: source.repository.0,
            source_issue_id: source.id.0,
            source_number: source.number,
            ..TimelineEntry::new(TimelineAction::Referenced, actor, self.now_us)
        };
        let mut found = self.writer.store.ids(&mut self.tx, &targets.issues).await?;
        found.retain(|target| *target != source.id);
        self.writer.store.add_references(&mut self.tx, &found, &entry).await?;
        Ok(())
    }
}
