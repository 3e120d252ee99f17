use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Tokens whose last use is held in memory. A use of a further token is dropped, and noted when the token is used again.
const MAX_NOTED_TOKENS: usize = 10_000;

/// Last uses of tokens by token id, held in memory until a background task writes them, so that a request that only reads writes
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct LastUse(Mutex<BTreeMap<i64, i64>>);

impl LastUse {
    /// Notes that a token was used at `now_us`.
    pub(crate) fn note(&self, token_id: i64, now_us: i64) {
        let mut uses = self.0.lock();
        if let Some(used_us) = uses.get_mut(&token_id) {
            *used_us = now_us.max(*used_us);
        } else if uses.len() < MAX_NOTED_TOKENS {
            uses.insert(token_id, now_us);
        }
    }

    /// Removes and returns the noted uses: token ids and times in microseconds.
    pub(crate) fn take(&self) -> Vec<(i64, i64)> {
        let uses = std::mem::take(&mut *self.0.lock());
        uses.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_use_is_kept_and_taken_once() {
        let uses = LastUse::default();
        for (token, time) in [(2, 10), (1, 30), (2, 20), (1, 5)] {
            uses.note(token, time);
        }
        assert_eq!(uses.take(), [(1, 30), (2, 20)]);
        assert_eq!(uses.take(), []);
    }

    #[test]
    fn memory_is_bounded() {
        let uses = LastUse::default();
        (0..MAX_NOTED_TOKENS as i64 + 50).for_each(|token| uses.note(token, 1));
        uses.note(0, 2);
        let taken = uses.take();
        assert_eq!((taken.len(), taken[0]), (MAX_NOTED_TOKENS, (0, 2)));
    }
}
