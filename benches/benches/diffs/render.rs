//! Writes data as git prints it, and takes the hunks out of a text.

use git_store::repo::read::diff::{Changes, Diff};

/// As `git diff --numstat -z`.
pub(crate) fn numstat(changes: &Changes) -> Vec<u8> {
    let mut text = Vec::new();
    for file in &changes.files {
        let numbers = match file.is_binary {
            true => "-\t-\t".to_owned(),
            false => format!("{}\t{}\t", file.additions, file.deletions),
        };
        text.extend(numbers.into_bytes());
        if let Some(old_path) = &file.old_path {
            text.extend([b"\0", old_path.as_slice(), b"\0"].concat());
        }
        text.extend([file.path.as_slice(), b"\0"].concat());
    }
    text
}

pub(crate) fn hunks(diff: &Diff) -> Vec<u8> {
    let mut text = Vec::new();
    diff.patches.iter().flat_map(|patch| &patch.hunks).for_each(|hunk| hunk.print(&mut text));
    text
}

/// The lines of a diff from each `@@` on, up to the next file. No line of a hunk begins like those
/// before a hunk, except for `--- ` and `+++ `, which come before `@@` there.
pub(crate) fn hunks_of(text: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut is_in_hunk = false;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.first() {
            Some(b'd') => is_in_hunk = false,
            Some(b'@') => is_in_hunk = true,
            _ => {}
        }
        if is_in_hunk {
            kept.extend_from_slice(line);
        }
    }
    kept
}
