//! The RPCs of merges: the reviews that count, permits, those that wait, and the mark of one that was
//! made by hand. They are of `PullService`.

mod mark;
mod permit;
mod schedule;

pub(super) use self::mark::mark_merged;
pub(super) use self::permit::{get_merge_reviews, permit_merge};
pub(super) use self::schedule::{cancel_merge, schedule_merge};
