use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_kit::Lifecycle;

use crate::core::Core;

const EVERY: Duration = Duration::from_secs(30);
/// Tokens whose use is kept in mind. Those beyond are noted again when they are used again.
const NOTED: usize = 10_000;

/// When tokens were used, until it is written: a request writes nothing only because it was made.
#[derive(Debug, Default)]
pub(crate) struct LastUse(Mutex<BTreeMap<i64, i64>>);

impl LastUse {
    /// Notes that a token is used now.
    pub(crate) fn note(&self, token_id: i64, now_us: i64) {
        let mut uses = self.0.lock().expect("nothing panics while it is held");
        if let Some(used_us) = uses.get_mut(&token_id) {
            *used_us = now_us.max(*used_us);
        } else if uses.len() < NOTED {
            uses.insert(token_id, now_us);
        }
    }

    /// What was noted since the last time, by token.
    fn take(&self) -> Vec<(i64, i64)> {
        let uses = std::mem::take(&mut *self.0.lock().expect("nothing panics while it is held"));
        uses.into_iter().collect()
    }
}

/// Starts writing when tokens were last used, from time to time, until `life` stops. What is noted after that is written by
/// [`write_last_use`] when the last request is done.
pub(crate) fn start_last_use(core: Arc<Core>, life: &Lifecycle) {
    let life2 = life.clone();
    life.spawn("last use", async move {
        while !life2.is_stopping() {
            tokio::select! {
                () = life2.stopping() => return,
                () = tokio::time::sleep(EVERY) => write_last_use(&core).await,
            }
        }
    });
}

/// Writes when tokens were last used. What cannot be written is kept for the next time.
pub(crate) async fn write_last_use(core: &Core) {
    let uses = core.last_use.take();
    if let Err(error) = core.tokens.record_uses(&uses).await {
        tracing::warn!(%error, "cannot write when tokens were last used; trying again later");
        uses.iter().for_each(|&(token_id, used_us)| core.last_use.note(token_id, used_us));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_use_is_kept_and_told_once() {
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
        (0..NOTED as i64 + 50).for_each(|token| uses.note(token, 1));
        uses.note(0, 2);
        let taken = uses.take();
        assert_eq!((taken.len(), taken[0]), (NOTED, (0, 2)));
    }
}
