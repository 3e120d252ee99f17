//! The lines that conflict in a file: changes of both sides that overlap or touch, as `git
//! merge-file --diff3` marks them.
//!
//! One process compares all files, with the algorithm of the merge. Folders in the scratch folder
//! hold them under numbers.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash as _, Hasher as _},
    ops::Range,
    sync::Arc,
};

use git2::{ObjectType, Oid, Repository};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};

use super::{
    Attempt, MAX_CONFLICT_RANGES,
    conflict_kind::{ConflictKind, FileSide},
    conflicts::{ConflictFile, ConflictRange, LineRange},
    three_way::failed,
};
use crate::{
    disk::loose_objects::NewObject,
    git::command::{MAX_STDERR_BYTES, feed, read_limited},
    repo::{
        objects::{self, full_id},
        read::{diff::numbered_tree, entry::is_binary},
    },
    types::error::GitError,
};

/// Largest file whose lines are compared, in bytes, on any side.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Limit on all versions of all files that are compared, in bytes.
const MAX_COMPARED_BYTES: u64 = 32 << 20;
/// Lines that git prints are cut here for parsing. Headers are shorter.
const MAX_PARSED_BYTES: usize = 256;

/// Base, ours and theirs of a file to compare.
type Versions = [Oid; 3];

/// A change of a side. Lines count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    base: Range<u32>,
    side: Range<u32>,
    /// Hash of the new lines.
    lines: u64,
}

/// The changes of both sides to one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changes([Vec<Hunk>; 2]);

impl Attempt<'_> {
    /// Adds the ranges of conflicting text files.
    pub(super) async fn add_ranges(&self, files: &mut [ConflictFile]) -> Result<(), GitError> {
        let empty = NewObject::new(ObjectType::Blob, Vec::new())?;
        let candidates: Vec<_> = files.iter().map(|file| versions(file, empty.id())).collect();
        if candidates.iter().all(Option::is_none) {
            return Ok(());
        }
        self.write_scratch(vec![empty]).await?;
        let scratch = Arc::clone(&self.scratch);
        let choose = self.merger.pool.run_blocking({
            let path = self.path.clone();
            move |_| {
                let repo = Repository::open_bare(path)?;
                repo.odb()?.add_disk_alternate(&scratch.path().to_string_lossy())?;
                within_limits(&repo, candidates)
            }
        });
        let chosen = choose.await?;
        let of_chosen: Vec<_> = chosen.iter().enumerate().filter_map(|(at, one)| Some((at, (*one)?))).collect();
        let compared: Vec<Versions> = of_chosen.iter().map(|(_, versions)| *versions).collect();
        let changes = self.compare(&compared).await?;
        for ((at, _), Changes([ours, theirs])) in of_chosen.iter().zip(&changes) {
            files[*at].ranges = overlaps(ours, theirs);
        }
        Ok(())
    }

    /// Compares base and sides of files.
    async fn compare(&self, files: &[Versions]) -> Result<Vec<Changes>, GitError> {
        let trees = [0, 1, 2].map(|side| numbered_tree(files.iter().map(|versions| Some(versions[side]))));
        let [base, ours, theirs] = trees;
        let (base, ours, theirs) = (base?, ours?, theirs?);
        let input = format!("{0} {1}\n{0} {2}\n", base.id(), ours.id(), theirs.id());
        self.write_scratch(vec![base, ours, theirs]).await?;
        let mut child = self.merger.git.compare_for_merge(&self.path, self.scratch.path())?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let stdout = stdout.ok_or_else(|| GitError::Internal("git has no output".to_owned()))?;
        let work = async {
            let feeding = async {
                feed(stdin, input.as_bytes()).await;
                Ok(())
            };
            let complaints = async { Ok(read_limited(stderr, MAX_STDERR_BYTES).await) };
            let parsing = parse(BufReader::new(stdout), files.len());
            let (changes, (), complaints) = tokio::try_join!(parsing, feeding, complaints)?;
            Ok((child.wait().await?, changes, complaints))
        };
        let outcome = tokio::time::timeout_at(self.deadline, work).await;
        match outcome.unwrap_or(Err(GitError::TimedOut { what: "merging" })) {
            Ok((status, changes, _)) if status.success() => Ok(changes),
            Ok((status, _, complaints)) => Err(failed("diff-tree", status, &complaints)),
            Err(error) => {
                child.end().await;
                Err(error)
            }
        }
    }
}

/// Returns the blobs to compare; `None` if the conflict is not one of lines.
fn versions(file: &ConflictFile, empty: Oid) -> Option<Versions> {
    if !matches!(file.kind, ConflictKind::Content | ConflictKind::AddAdd | ConflictKind::RenameRename) {
        return None;
    }
    let (ours, theirs) = (file.ours?, file.theirs?);
    let base = file.base.unwrap_or(FileSide { mode: ours.mode, id: empty });
    [base, ours, theirs].into_iter().all(FileSide::is_regular).then_some([base.id, ours.id, theirs.id])
}

/// Drops files that are too large, and those with a binary version.
fn within_limits(repo: &Repository, files: Vec<Option<Versions>>) -> Result<Vec<Option<Versions>>, GitError> {
    let mut left = MAX_COMPARED_BYTES;
    let mut choose = |versions: Versions| -> Result<Option<Versions>, GitError> {
        let mut bytes = 0;
        for id in versions {
            let (_, size) = objects::header(repo, id)?;
            if size > MAX_FILE_BYTES {
                return Ok(None);
            }
            bytes += size;
            // A renamed file has the kind of its rename, whatever its content.
            if is_binary(repo.find_blob(id)?.content()) {
                return Ok(None);
            }
        }
        let Some(rest) = left.checked_sub(bytes) else { return Ok(None) };
        left = rest;
        Ok(Some(versions))
    };
    files.into_iter().map(|versions| versions.map_or(Ok(None), &mut choose)).collect()
}

/// Parses both comparisons of `count` files.
async fn parse(mut text: impl AsyncBufRead + Unpin, count: usize) -> Result<Vec<Changes>, GitError> {
    let unexpected = || GitError::Internal("git printed a comparison in an unknown form".to_owned());
    let mut files = vec![Changes::default(); count];
    // A line with both trees begins each comparison.
    let (mut comparisons, mut file, mut line) = (0_usize, None, Vec::new());
    loop {
        line.clear();
        let read = text.read_until(b'\n', &mut line).await.map_err(GitError::io("reading a comparison"))?;
        if read == 0 {
            return if comparisons == 2 { Ok(files) } else { Err(unexpected()) };
        }
        let head = &line[..line.len().min(MAX_PARSED_BYTES)];
        if head.get(40) == Some(&b' ') && full_id(&head[..40]).is_some() {
            (comparisons, file) = (comparisons + 1, None);
        } else if let Some(names) = head.strip_prefix(b"diff --git a/") {
            let number = std::str::from_utf8(&names[..names.len().min(8)]).ok().and_then(|name| name.parse().ok());
            file = Some(number.filter(|number: &usize| *number < count).ok_or_else(unexpected)?);
        } else if let (Some(file), Some(side)) = (file, comparisons.checked_sub(1).filter(|side| *side < 2)) {
            let hunks = &mut files[file].0[side];
            if head.starts_with(b"@@ ") {
                hunks.push(hunk(head).ok_or_else(unexpected)?);
            } else if let (Some(b'+'), Some(hunk)) = (head.first(), hunks.last_mut()) {
                let mut hasher = DefaultHasher::new();
                (hunk.lines, &line).hash(&mut hasher);
                hunk.lines = hasher.finish();
            }
        }
    }
}

/// Parses `@@ -<line>[,<count>] +<line>[,<count>] @@`. A line of the file follows, as context.
fn hunk(header: &[u8]) -> Option<Hunk> {
    let mut words = header.split(|byte| *byte == b' ').skip(1);
    let mut range = |sign: u8| {
        let word = std::str::from_utf8(words.next()?.strip_prefix(&[sign])?).ok()?;
        let (line, count) = word.split_once(',').unwrap_or((word, "1"));
        let (line, count) = (line.parse::<u32>().ok()?, count.parse::<u32>().ok()?);
        let start = if count == 0 { line } else { line.checked_sub(1)? };
        Some(start..start.checked_add(count)?)
    };
    Some(Hunk { base: range(b'-')?, side: range(b'+')?, lines: 0 })
}

/// Returns where changes of both sides overlap or touch, unless they are the same.
fn overlaps(ours: &[Hunk], theirs: &[Hunk]) -> Vec<ConflictRange> {
    let (mut found, mut ours, mut theirs) = (Vec::new(), ours, theirs);
    while let (Some(one), Some(other)) = (ours.first(), theirs.first())
        && found.len() < MAX_CONFLICT_RANGES
    {
        let start = one.base.start.min(other.base.start);
        let mut end = start;
        let (mut of_ours, mut of_theirs) = (0, 0);
        loop {
            let next = |hunks: &[Hunk], taken: usize| hunks.get(taken).filter(|hunk| hunk.base.start <= end).cloned();
            if let Some(hunk) = next(ours, of_ours) {
                (end, of_ours) = (end.max(hunk.base.end), of_ours + 1);
            } else if let Some(hunk) = next(theirs, of_theirs) {
                (end, of_theirs) = (end.max(hunk.base.end), of_theirs + 1);
            } else {
                break;
            }
        }
        let ((mine, ours_left), (yours, theirs_left)) = (ours.split_at(of_ours), theirs.split_at(of_theirs));
        (ours, theirs) = (ours_left, theirs_left);
        if let (Some(mine_in), Some(yours_in)) = (side_of(mine, start, end), side_of(yours, start, end))
            && !is_same(mine, yours)
        {
            found.push(ConflictRange { base: lines(start..end), ours: lines(mine_in), theirs: lines(yours_in) });
        }
    }
    found
}

/// Returns where a part of the base is in a side that changed it.
fn side_of(hunks: &[Hunk], start: u32, end: u32) -> Option<Range<u32>> {
    let (first, last) = (hunks.first()?, hunks.last()?);
    Some(first.side.start - (first.base.start - start)..last.side.end + (end - last.base.end))
}

fn is_same(mine: &[Hunk], yours: &[Hunk]) -> bool {
    let [one] = mine else { return false };
    let [other] = yours else { return false };
    one.base == other.base && one.side.len() == other.side.len() && one.lines == other.lines
}

fn lines(range: Range<u32>) -> LineRange {
    let count = range.end - range.start;
    LineRange { line: if count == 0 { range.start } else { range.start + 1 }, count }
}
