//! Files of the load: a history that every repository starts with, and changes of a few lines.

use std::path::{Path, PathBuf};

use ferrite_benches::Failure;
use ferrite_benches::history::{MAIN, Random, cached};

/// File lengths, in lines of about 55 bytes: 1 to 20 KB. Most files are short, a few are long.
const MIN_LINES: u64 = 20;
const LONGEST_LINES: [u64; 5] = [40, 60, 90, 180, 360];
/// Maximum number of lines that a change replaces.
const MAX_CHANGED_LINES: u64 = 4;
const FILES_PER_FOLDER: u64 = 20;
/// Maximum number of files that a commit of the history changes. The first one has all files.
const MAX_FILES_PER_COMMIT: u64 = 3;

const WORDS: [&str; 32] = [
    "account", "branch", "buffer", "cache", "channel", "commit", "content", "deadline", "decode", "entry", "field",
    "folder", "grant", "header", "index", "journal", "label", "limit", "merge", "object", "owner", "packet", "parent",
    "query", "record", "request", "session", "signal", "stream", "thread", "update", "window",
];

pub(crate) fn path(number: u64) -> String {
    let folder = number / FILES_PER_FOLDER;
    format!("area-{}/part-{folder}/file-{number}.txt", folder % 5)
}

fn line(random: &mut Random) -> String {
    let mut line = String::new();
    for _ in 0..6 {
        line.push_str(WORDS[random.index(WORDS.len())]);
        line.push(' ');
    }
    line.push_str(&format!("{:08x}\n", random.number() >> 32));
    line
}

/// Text of a file. A few lines differ for each `change`.
pub(crate) fn text(number: u64, change: u64) -> String {
    let mut random = Random::new(number);
    let longest = LONGEST_LINES[random.index(LONGEST_LINES.len())];
    let count = MIN_LINES + random.below(longest - MIN_LINES);
    let mut lines: Vec<_> = (0..count).map(|_| line(&mut random)).collect();
    let mut random = Random::new(number ^ change.rotate_left(32));
    for _ in 0..1 + random.below(MAX_CHANGED_LINES) {
        let at = random.index(lines.len());
        lines[at] = line(&mut random);
    }
    lines.concat()
}

/// Returns the path of a repository with this history, which is created once.
pub(crate) fn history(cache: &Path, commits: u64, files: u64) -> Result<PathBuf, Failure> {
    cached(cache, &format!("soak-{commits}-{files}"), |import| {
        let mut random = Random::new(1);
        for mark in 1..=commits {
            let parents = if mark == 1 { Vec::new() } else { vec![format!(":{}", mark - 1)] };
            import.commit(MAIN, mark, &parents)?;
            if mark == 1 {
                for number in 0..files {
                    import.file(&path(number), text(number, 0).as_bytes())?;
                }
                continue;
            }
            for _ in 0..1 + random.below(MAX_FILES_PER_COMMIT) {
                let number = random.below(files);
                import.file(&path(number), text(number, mark).as_bytes())?;
            }
        }
        Ok(())
    })
}
