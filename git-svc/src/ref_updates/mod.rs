//! Changes refs under the journal, and settles the journal entries that a crash left open.

mod announce;
mod audit;
mod changed;
mod default_branch;
pub(crate) mod protection;
mod protection_rules;
mod recovery;
mod subscribers;
mod updater;

pub(crate) use self::{
    audit::AuditContext,
    recovery::{purge_in_background, recover_at_start, recover_in_background},
    subscribers::{HOOK_SVC, ISSUE_SVC, REPO_SVC},
    updater::{CommitSubject, DeliveryWait, IdempotentResponse, RefUpdater, WriteGuard},
};

#[cfg(test)]
mod tests;
