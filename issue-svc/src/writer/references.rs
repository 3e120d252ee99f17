//! References from the text of one issue to others.

use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::TimelineAction;

use super::Write;
use crate::error::IssueError;
use crate::model::Issue;
use crate::store::TimelineEntry;

/// Names and issues that a text mentions, of repositories that its author may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextTargets {
    /// Keys of names, without duplicates.
    pub(crate) mentions: Vec<String>,
    /// Repository and number, without duplicates.
    pub(crate) issues: Vec<(RepositoryId, i64)>,
}

impl Write<'_> {
    /// Notes in the timelines of all issues that a text names that `source` refers to them, once for each. A number that no issue has
    /// is left out.
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
