//! Progress of a fetch, read from git's progress lines.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

use super::meter::Budget;
use crate::db::{ImportPhase, ImportState};

const MAX_LINE_BYTES: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// Waits for the remote, which counts and compresses.
    Waiting = 0,
    Receiving = 1,
    /// Checks and indexes what was received.
    Indexing = 2,
}

/// State of one transfer, shared with its observers.
#[derive(Debug)]
pub(super) struct Progress {
    stage: AtomicU8,
    /// Objects of the current pack and of those before it.
    objects: AtomicU64,
    earlier_objects: AtomicU64,
    pub(super) budget: Arc<Budget>,
}

impl Progress {
    /// A transfer that has not started and may receive `max_bytes`.
    pub(super) fn new(max_bytes: u64) -> Self {
        let budget = Arc::new(Budget::new(max_bytes));
        Self { stage: AtomicU8::new(0), objects: AtomicU64::new(0), earlier_objects: AtomicU64::new(0), budget }
    }

    /// Starts another fetch of the same transfer.
    pub(super) fn begin_fetch(&self) {
        self.stage.store(Stage::Waiting as u8, Ordering::Relaxed);
        self.earlier_objects.store(self.objects(), Ordering::Relaxed);
        self.objects.store(0, Ordering::Relaxed);
    }

    pub(super) fn note(&self, line: &str) {
        if let Some(rest) = line.strip_prefix("Receiving objects:") {
            self.stage.store(Stage::Receiving as u8, Ordering::Relaxed);
            if let Some(count) = received(rest) {
                self.objects.store(count, Ordering::Relaxed);
                if rest.trim_end().ends_with("done.") {
                    self.stage.store(Stage::Indexing as u8, Ordering::Relaxed);
                }
            }
        } else if ["Resolving deltas:", "Checking connectivity:", "Checking objects:"]
            .iter()
            .any(|start| line.starts_with(start))
        {
            self.stage.store(Stage::Indexing as u8, Ordering::Relaxed);
        }
    }

    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Waiting,
            1 => Stage::Receiving,
            _ => Stage::Indexing,
        }
    }

    pub(super) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed) + self.earlier_objects.load(Ordering::Relaxed)
    }

    /// The state for rows and responses.
    pub(super) fn state(&self) -> ImportState {
        let phase = match self.stage() {
            Stage::Waiting | Stage::Receiving => ImportPhase::Fetching,
            Stage::Indexing => ImportPhase::Indexing,
        };
        ImportState { phase, objects: self.objects(), bytes: self.budget.received(), error: String::new() }
    }
}

/// Returns the first number of `12% (120/1000), 1.20 MiB`.
fn received(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once('(')?;
    rest.split('/').next()?.parse().ok()
}

/// Splits git's standard error into lines, which end with a line feed or a carriage return.
#[derive(Debug, Default)]
pub(super) struct Lines {
    part: Vec<u8>,
    /// The last lines that are neither progress nor sent by the remote.
    kept: Vec<String>,
}

const MAX_KEPT_LINES: usize = 32;

impl Lines {
    pub(super) fn push(&mut self, bytes: &[u8], progress: &Progress) {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end_line(progress),
                byte if self.part.len() < MAX_LINE_BYTES => self.part.push(*byte),
                _ => {}
            }
        }
    }

    /// Returns git's own messages, after the end of the stream.
    pub(super) fn finish(mut self, progress: &Progress) -> String {
        self.end_line(progress);
        self.kept.join("\n")
    }

    fn end_line(&mut self, progress: &Progress) {
        let line = String::from_utf8_lossy(&self.part).into_owned();
        self.part.clear();
        progress.note(&line);
        let is_message = ["fatal:", "error:", "warning:"].iter().any(|start| line.starts_with(start));
        if is_message && self.kept.len() < MAX_KEPT_LINES {
            self.kept.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_from_the_lines_of_git() {
        let (progress, mut lines) = (Progress::new(1000), Lines::default());
        let stage = |text: &str, lines: &mut Lines| {
            lines.push(text.as_bytes(), &progress);
            (progress.stage(), progress.objects())
        };
        assert_eq!(stage("remote: Receiving objects: 9% (1/9)\rremote: Counting", &mut lines), (Stage::Waiting, 0));
        assert_eq!(stage(" objects: 100% (9/9), done.\nReceiving objects:  12% (12", &mut lines), (Stage::Waiting, 0));
        assert_eq!(stage("0/1000), 1.20 MiB | 2.00 MiB/s\r", &mut lines), (Stage::Receiving, 120));
        assert_eq!(stage("Receiving objects: 100% (1000/1000), 9 MiB, done.\n", &mut lines), (Stage::Indexing, 1000));
        assert_eq!(progress.state().phase, ImportPhase::Indexing);
        progress.begin_fetch();
        assert_eq!(stage("Receiving objects: 50% (3/6)\r", &mut lines), (Stage::Receiving, 1003));
        assert_eq!(stage("Resolving deltas: 50% (3/6)\r", &mut lines), (Stage::Indexing, 1003));
        lines.push(b"fatal: one\nremote: fatal: two\nerror: three", &progress);
        assert_eq!(lines.finish(&progress), "fatal: one\nerror: three");
    }
}
