//! Events of other parts of this service, written in their transactions: all events of a repository go one way, and stay in order.

use ferrite_db::{DbError, Tx};
use ferrite_events as outbox;
use ferrite_proto::{events::event::Fact, id::RepositoryId};

use super::{subscribers::subscribers, updater::RefUpdater};

impl RefUpdater {
    /// Appends an event about a repository to the outbox. Call [`RefUpdater::wake_relay`] after the commit.
    pub(crate) async fn announce(&self, tx: &mut Tx, id: RepositoryId, fact: Fact) -> Result<(), DbError> {
        let (now, subscribers) = (self.inner().clock.now_us(), subscribers(&fact));
        outbox::append(tx, &outbox::event(id, now, fact), subscribers, now).await
    }

    /// Has the events of committed transactions delivered now.
    pub(crate) fn wake_relay(&self) {
        self.inner().relay.wake();
    }
}
