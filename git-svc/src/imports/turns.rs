//! Decides whose job starts next, so that slow remotes of one account do not hold up other
//! accounts.
//!
//! There is a limited number of *slots*. The next job belongs to the account with the fewest
//! running jobs; equals take turns. If an account without a running job waits while all slots are
//! taken, one running job gives up its slot and continues as an extra job: one of an account with
//! several, or else one that has run for long. There are never more extra jobs than slots.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use ferrite_proto::id::RepositoryId;
use tokio::time::Instant;

/// The running jobs of one kind, and the accounts with waiting jobs.
#[derive(Debug)]
pub(super) struct Turns {
    places: usize,
    /// Run time after which a job gives up its slot to waiting jobs.
    slow_after: Duration,
    running: HashMap<RepositoryId, Job>,
    /// Last count of waiting jobs, by account.
    waiting: BTreeMap<i64, usize>,
    /// The account whose job started last.
    last: i64,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    account: i64,
    begin: Instant,
    /// Whether it has given up its slot.
    is_extra: bool,
}

impl Turns {
    pub(super) fn new(places: usize, slow_after: Duration) -> Self {
        Self { places, slow_after, running: HashMap::new(), waiting: BTreeMap::new(), last: 0 }
    }

    /// Sets the number of waiting and running jobs by account.
    pub(super) fn count(&mut self, jobs: impl IntoIterator<Item = (i64, i64)>) {
        let waiting = jobs.into_iter().map(|(account, count)| {
            let running = self.running_of(account);
            (account, usize::try_from(count).unwrap_or(0).saturating_sub(running))
        });
        self.waiting = waiting.filter(|(_, count)| *count > 0).collect();
    }

    pub(super) fn running_of(&self, account: i64) -> usize {
        self.running.values().filter(|job| job.account == account).count()
    }

    /// Returns the number of running jobs without a slot.
    pub(super) fn extra(&self) -> usize {
        self.running.values().filter(|job| job.is_extra).count()
    }

    /// Returns the account that may start a job now; `None` if none waits or no slot is free.
    pub(super) fn next(&mut self, now: Instant) -> Option<i64> {
        let candidates = self.waiting.keys().filter(|account| self.running_of(**account) < self.places);
        // By id, starting after the account that had the last turn.
        let account =
            *candidates.min_by_key(|account| (self.running_of(**account), **account <= self.last, **account))?;
        let has_place = self.running.len() - self.extra() < self.places;
        (has_place || (self.running_of(account) == 0 && self.free_place(now))).then_some(account)
    }

    pub(super) fn begin(&mut self, id: RepositoryId, account: i64, now: Instant) {
        self.running.insert(id, Job { account, begin: now, is_extra: false });
        self.last = account;
        match self.waiting.get_mut(&account) {
            Some(count) if *count > 1 => *count -= 1,
            _ => self.none_waits(account),
        }
    }

    /// Records the end of a job. Afterwards another one of its account may wait even if none was
    /// counted: the count may have taken it for a running one.
    pub(super) fn end(&mut self, id: RepositoryId) {
        if let Some(job) = self.running.remove(&id) {
            self.waiting.entry(job.account).or_insert(1);
        }
    }

    /// Records that no job of an account waits, whatever was counted.
    pub(super) fn none_waits(&mut self, account: i64) {
        self.waiting.remove(&account);
    }

    /// Makes one job give up its slot. Returns `false` if none has to.
    fn free_place(&mut self, now: Instant) -> bool {
        if self.extra() >= self.places {
            return false;
        }
        let in_place = || self.running.iter().filter(|(_, job)| !job.is_extra);
        let of_account = |account| in_place().filter(|(_, job)| job.account == account).count();
        let of_several = in_place().filter(|(_, job)| of_account(job.account) > 1);
        let newest = of_several.max_by_key(|(id, job)| (of_account(job.account), job.begin, id.0));
        let slow = in_place().filter(|(_, job)| now.duration_since(job.begin) >= self.slow_after);
        let chosen = newest.or_else(|| slow.min_by_key(|(id, job)| (job.begin, id.0))).map(|(id, _)| *id);
        let Some(job) = chosen.and_then(|id| self.running.get_mut(&id)) else { return false };
        job.is_extra = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_secs(120);

    /// Starts jobs until no more may start. Returns their accounts. `next` is the id of the first.
    fn begin_all(turns: &mut Turns, next: &mut i64, now: Instant) -> Vec<i64> {
        let mut begun = Vec::new();
        while let Some(account) = turns.next(now) {
            turns.begin(RepositoryId(*next), account, now);
            *next += 1;
            begun.push(account);
        }
        begun
    }

    #[test]
    fn an_account_that_is_alone_has_all_places_and_makes_room_for_others() {
        let (mut turns, mut id, start) = (Turns::new(2, SLOW), 1, Instant::now());
        turns.count([(7, 5)]);
        assert_eq!(begin_all(&mut turns, &mut id, start), [7, 7]);
        // A job of another account starts beside the two, however many the first account has.
        turns.count([(7, 5), (8, 1)]);
        assert_eq!((begin_all(&mut turns, &mut id, start), turns.extra()), (vec![8], 1));
        // The next one waits until a job ends or takes long.
        turns.count([(7, 5), (8, 1), (9, 1)]);
        assert_eq!(begin_all(&mut turns, &mut id, start + SLOW / 2), [0; 0]);
        assert_eq!((begin_all(&mut turns, &mut id, start + SLOW), turns.extra()), (vec![9], 2));
        turns.count([(7, 5), (8, 1), (9, 1), (10, 1)]);
        assert_eq!(begin_all(&mut turns, &mut id, start + 2 * SLOW), [0; 0], "twice the places at most");
        turns.end(RepositoryId(3));
        turns.count([(7, 5), (9, 1), (10, 1)]);
        assert_eq!(begin_all(&mut turns, &mut id, start + 2 * SLOW), [10]);
        turns.end(RepositoryId(4));
        turns.count([(7, 5), (10, 1)]);
        assert_eq!(begin_all(&mut turns, &mut id, start + 2 * SLOW), [0; 0], "an account has no more than the places");
        turns.end(RepositoryId(1));
        turns.count([(7, 4), (10, 1)]);
        assert_eq!(begin_all(&mut turns, &mut id, start + 2 * SLOW), [7]);
    }

    #[test]
    fn accounts_with_queues_take_turns() {
        let (mut turns, id, now) = (Turns::new(1, SLOW), RepositoryId(1), Instant::now());
        let mut waiting = BTreeMap::from([(7, 3), (8, 3), (9, 1)]);
        turns.count(waiting.clone());
        let mut order = Vec::new();
        while let Some(account) = turns.next(now) {
            match waiting.get_mut(&account) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    order.push(account);
                    turns.begin(id, account, now);
                    turns.end(id);
                }
                _ => turns.none_waits(account),
            }
        }
        assert_eq!(order, [7, 8, 9, 7, 8, 7, 8]);
    }

    #[test]
    fn jobs_that_were_counted_and_are_gone_are_passed_over() {
        let (mut turns, now) = (Turns::new(1, SLOW), Instant::now());
        turns.count([(7, 3), (8, 1)]);
        assert_eq!(turns.next(now), Some(7));
        turns.none_waits(7);
        assert_eq!(turns.next(now), Some(8));
        turns.begin(RepositoryId(1), 8, now);
        turns.count([(8, 1)]);
        assert_eq!(turns.next(now), None, "what runs does not wait");
    }

    #[test]
    fn a_job_that_ends_makes_way_for_one_that_was_not_counted() {
        let (mut turns, now) = (Turns::new(1, SLOW), Instant::now());
        turns.begin(RepositoryId(1), 7, now);
        // The row of the running job has ended, and the counted one waits.
        turns.count([(7, 1)]);
        assert_eq!(turns.next(now), None);
        turns.end(RepositoryId(1));
        assert_eq!(turns.next(now), Some(7));
    }
}
