//! Reactions. They change neither the time of their issue nor its timeline, and no event tells of
//! them.

use ferrite_proto::id::UserId;
use ferrite_rpc::version::is_conditional;

use super::Write;
use crate::error::IssueError;
use crate::model::{Reaction, ReactionContent, ReactionSubject, ReactionTarget};
use crate::store::Reader;

impl Write<'_> {
    /// Finds what reactions are to.
    pub(crate) async fn reaction_target(
        &mut self,
        subject: ReactionSubject,
    ) -> Result<Option<ReactionTarget>, IssueError> {
        let reader = Reader::Tx(&mut self.tx);
        Ok(self.writer.store.reaction_target(reader, self.repository, subject).await?)
    }

    /// Checks the request's precondition against the reactions to a target.
    pub(crate) async fn require_reactions(&mut self, target: ReactionTarget) -> Result<(), IssueError> {
        if is_conditional() {
            let version = self.writer.store.reactions_version(Reader::Tx(&mut self.tx), target).await?;
            self.tx.require_version(Some(&version))?;
        }
        Ok(())
    }

    /// Adds a reaction, unless it is there. Returns it, and whether it was not there before.
    pub(crate) async fn add_reaction(
        &mut self,
        target: ReactionTarget,
        user: UserId,
        content: ReactionContent,
    ) -> Result<(Reaction, bool), IssueError> {
        let store = &self.writer.store;
        let (created_us, is_new) = store.add_reaction(&mut self.tx, target, user, content, self.now_us).await?;
        Ok((Reaction { user, content: content.as_str().to_owned(), created_us }, is_new))
    }

    /// Removes a reaction, if it is there.
    pub(crate) async fn remove_reaction(
        &mut self,
        target: ReactionTarget,
        user: UserId,
        content: ReactionContent,
    ) -> Result<(), IssueError> {
        Ok(self.writer.store.delete_reaction(&mut self.tx, target, user, content).await?)
    }
}
