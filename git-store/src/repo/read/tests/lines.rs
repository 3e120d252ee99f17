//! Lines that are followed from commit to commit, and the hunks that show them.

use std::{ops::Range, sync::Arc, time::Duration};

use ferrite_proto::id::RepositoryId;
use git2::{Oid, Repository};

use crate::{
    disk::repositories::RepositoryStore,
    git::command::{Git, GitOptions},
    repo::{
        pool::{Pool, PoolOptions},
        read::{
            Deadline,
            diff::{ChangeLimits, Comparer, DiffPair, MAX_HUNK_BYTES, read_changes},
            lines::{FileLines, Found, LinesToFind, LinesToFollow, Renames, find_lines, follow},
        },
    },
    types::{error::GitError, name::BranchName, path::TreePath},
};

const ID: RepositoryId = RepositoryId(1);
const FILE: i32 = 0o100_644;
const LINK: i32 = 0o120_000;
const TREE: i32 = 0o040_000;

struct Fixture {
    _folder: tempfile::TempDir,
    pool: Pool,
    git: Git,
    repo: Repository,
}

fn path(text: &str) -> TreePath {
    TreePath::literal(text.as_bytes()).unwrap()
}

fn lines(name: &str, lines: Range<u32>) -> FileLines {
    FileLines { path: path(name), lines }
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(RepositoryStore::open(&folder.path().join("store"), "s", Duration::ZERO).await.unwrap());
        store.create(ID, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
        let pool = Pool::new(Arc::clone(&store), PoolOptions { workers: 1, ..PoolOptions::default() }).unwrap();
        let repo = Repository::open_bare(store.path(ID)).unwrap();
        Self { _folder: folder, pool, git: Git::find(GitOptions::default()).await.unwrap(), repo }
    }

    fn commit(&self, files: &[(&str, &[u8], i32)]) -> Oid {
        let mut tree = self.repo.treebuilder(None).unwrap();
        for (name, content, mode) in files {
            let id = match *mode {
                TREE => {
                    let mut folder = self.repo.treebuilder(None).unwrap();
                    folder.insert("file", self.repo.blob(content).unwrap(), FILE).unwrap();
                    folder.write().unwrap()
                }
                _ => self.repo.blob(content).unwrap(),
            };
            tree.insert(name, id, *mode).unwrap();
        }
        let tree = self.repo.find_tree(tree.write().unwrap()).unwrap();
        let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(1_000, 60)).unwrap();
        self.repo.commit(None, &who, &who, "m", &tree, &[]).unwrap()
    }

    async fn follow(&self, from: Oid, to: Oid, wanted: &[FileLines]) -> Vec<Option<u32>> {
        let requests: Vec<_> = wanted.iter().map(|lines| LinesToFollow { lines: lines.clone(), from, to }).collect();
        let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
        let plan = follow(&self.repo, &requests, &deadline).unwrap();
        let comparer = Comparer::new(&self.git, &self.pool, ID);
        plan.last_lines(&comparer.changed_lines(&plan.pairs).await.unwrap())
    }

    /// Returns whether each exists, and its hunk.
    async fn find(&self, old: Oid, new: Oid, wanted: &[(FileLines, bool)]) -> Vec<(bool, String)> {
        let requests: Vec<_> =
            wanted.iter().map(|(lines, is_old)| LinesToFind { lines: lines.clone(), is_old: *is_old }).collect();
        let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
        let pair = DiffPair { old: Some(old), new };
        let changes = read_changes(&self.git, self.repo.path(), &[pair], ChangeLimits::single()).await.unwrap();
        let renames = Renames::of(&changes.changes[0].clone().unwrap_or_default().files);
        let plan = find_lines(&self.repo, (old, new), &requests, &renames, &deadline).unwrap();
        let comparer = Comparer::new(&self.git, &self.pool, ID);
        let shown: Vec<_> = plan.shown.iter().flatten().copied().collect();
        let mut hunks = comparer.hunks_up_to(&plan.pairs, &shown).await.unwrap().into_iter();
        let hunk = |shown: &Option<_>| shown.map(|_: crate::repo::read::diff::ShownLine| hunks.next().unwrap());
        let hunks: Vec<_> = plan.shown.iter().map(hunk).map(Option::unwrap_or_default).collect();
        plan.found.into_iter().map(|found| found == Found::Lines).zip(hunks).collect()
    }
}

fn numbered(lines: impl IntoIterator<Item = u32>) -> Vec<u8> {
    lines.into_iter().map(|line| format!("line {line}\n")).collect::<String>().into_bytes()
}

#[tokio::test]
async fn unchanged_lines_are_followed_by_their_content() {
    let f = Fixture::new().await;
    let mut state = 7_u32;
    let mut random = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    for round in 0..20 {
        let old: Vec<u32> = (0..60).collect();
        let mut new = old.clone();
        for step in 0..8 {
            let at = random(u32::try_from(new.len()).unwrap()) as usize;
            match random(3) {
                0 => drop(new.remove(at)),
                1 => new.insert(at, 1000 + step),
                _ => new[at] = 2000 + step,
            }
        }
        let (from, to) =
            (f.commit(&[("a", &numbered(old.clone()), FILE)]), { f.commit(&[("a", &numbered(new.clone()), FILE)]) });
        let ranges: Vec<_> = (0..57).flat_map(|start| [start..start + 1, start..start + 3]).collect();
        let wanted: Vec<_> = ranges.iter().map(|range| lines("a", range.clone())).collect();
        let found = f.follow(from, to, &wanted).await;
        for (range, found) in ranges.iter().zip(found) {
            let text = &old[range.start as usize..range.end as usize];
            let place = new.windows(text.len()).position(|window| window == text);
            let expected = place.map(|place| u32::try_from(place + text.len()).unwrap());
            assert_eq!(found, expected, "round {round}: {range:?} of {new:?}");
        }
    }
}

#[tokio::test]
async fn lines_are_gone_with_their_file_and_stay_if_it_is_unchanged() {
    let f = Fixture::new().await;
    let (binary, large) = (b"a\0b\n".repeat(3), b"x\n".repeat(600_000));
    let text = numbered(0..5);
    let of = |end: &[u8]| {
        let joined = |content: &[u8]| [content, end].concat();
        f.commit(&[
            ("binary", &joined(&binary), FILE),
            ("large", &joined(&large), FILE),
            ("same", &text, FILE),
            ("link", &joined(b"target"), LINK),
            ("becomes-folder", &text, if end.is_empty() { FILE } else { TREE }),
            ("becomes-link", &text, if end.is_empty() { FILE } else { LINK }),
        ])
    };
    let (from, to) = (of(b""), of(b"more"));
    let wanted = ["binary", "large", "same", "link", "becomes-folder", "becomes-link", "missing"];
    let wanted = wanted.map(|name| lines(name, 0..1));
    assert_eq!(f.follow(from, to, &wanted).await, [None, None, Some(1), None, None, None, None]);
    let unchanged = [Some(1), Some(1), Some(1), Some(1), Some(1), Some(1), None];
    assert_eq!(f.follow(from, from, &wanted).await, unchanged);
    let gone = Oid::from_str(&"9".repeat(40)).unwrap();
    assert_eq!(f.follow(gone, to, &wanted[2..3]).await, [None]);
    assert_eq!(f.follow(from, gone, &wanted[2..3]).await, [None]);
    // Behind the end of a file.
    let (from, to) = (f.commit(&[("a", b"1\n2\n", FILE)]), f.commit(&[("a", b"0\n1\n2\n", FILE)]));
    assert_eq!(f.follow(from, to, &[lines("a", 1..2), lines("a", 1..3)]).await, [Some(3), None]);
}

#[tokio::test]
async fn a_hunk_is_shown_up_to_the_line() {
    let f = Fixture::new().await;
    let text = numbered(1..=20);
    let mut edited: Vec<u32> = (1..=20).collect();
    edited[9] = 100;
    let old = f.commit(&[("a", &text, FILE), ("removed", b"x\ny", FILE), ("same", &text, FILE)]);
    let new = f.commit(&[("a", &numbered(edited), FILE), ("b", &numbered(1..=60), FILE), ("same", &text, FILE)]);
    let wanted = [
        (lines("a", 9..10), false),
        (lines("a", 9..10), true),
        (lines("a", 6..8), true),
        (lines("a", 0..1), false),
        (lines("a", 19..21), false),
        (lines("removed", 1..2), true),
        (lines("removed", 1..2), false),
        (lines("b", 49..50), false),
        (lines("b", 49..50), true),
        (lines("same", 2..3), false),
    ];
    let found = f.find(old, new, &wanted).await;
    let before = " line 7\n line 8\n line 9\n-line 10";
    let of_b: String = (11..=50).map(|line| format!("\n+line {line}")).collect();
    let expected = [
        (true, format!("@@ -7,4 +7,4 @@\n{before}\n+line 100")),
        (true, format!("@@ -7,4 +7,3 @@\n{before}")),
        (true, "@@ -7,2 +7,2 @@\n line 7\n line 8".to_owned()),
        (true, String::new()),
        (false, String::new()),
        (true, "@@ -1,2 +0,0 @@\n-x\n-y".to_owned()),
        (false, String::new()),
        (true, format!("@@ -0,0 +11,40 @@{of_b}")),
        (false, String::new()),
        (true, String::new()),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_renamed_file_is_compared_with_what_it_was() {
    let f = Fixture::new().await;
    let mut edited: Vec<u32> = (1..=20).collect();
    edited[9] = 100;
    let old = f.commit(&[("a", &numbered(1..=20), FILE), ("moved", &numbered(40..=60), FILE)]);
    let new = f.commit(&[("b", &numbered(edited), FILE), ("to", &numbered(40..=60), FILE)]);
    let wanted = [
        (lines("b", 9..10), false),
        (lines("a", 9..10), true),
        (lines("b", 0..1), false),
        (lines("to", 0..1), false),
        (lines("a", 9..10), false),
    ];
    let before = " line 7\n line 8\n line 9\n-line 10";
    let expected = [
        (true, format!("@@ -7,4 +7,4 @@\n{before}\n+line 100")),
        (true, format!("@@ -7,4 +7,3 @@\n{before}")),
        (true, String::new()),
        (true, String::new()),
        (false, String::new()),
    ];
    assert_eq!(f.find(old, new, &wanted).await, expected);
}

#[tokio::test]
async fn only_texts_have_lines() {
    let f = Fixture::new().await;
    let (large, long) = (b"x\n".repeat(600_000), "ü".repeat(10_000));
    let old = f.commit(&[("large", b"x\n", FILE), ("type", b"x\n", FILE)]);
    let new = f.commit(&[
        ("binary", b"a\0\n", FILE),
        ("empty", b"", FILE),
        ("folder", b"x\n", TREE),
        ("large", &large, FILE),
        ("long", format!("a\n{long}\n").as_bytes(), FILE),
        ("type", b"target", LINK),
    ]);
    let names = ["binary", "empty", "folder", "large", "folder/file", "type"];
    let wanted: Vec<_> = names.map(|name| (lines(name, 0..1), false)).into_iter().collect();
    let added = |line: &str| (true, format!("@@ -0,0 +1,1 @@\n+{line}"));
    let none = || (false, String::new());
    assert_eq!(f.find(old, new, &wanted).await, [none(), none(), none(), none(), added("x"), added("target")]);
    // The other side of a large file has a line, but no hunk.
    let of_old = [(lines("large", 0..1), true), (lines("type", 0..1), true)];
    let shown = "@@ -1,1 +0,0 @@\n-x".to_owned();
    assert_eq!(f.find(old, new, &of_old).await, [(true, String::new()), (true, shown)]);
    let (exists, hunk) = f.find(old, new, &[(lines("long", 1..2), false)]).await.remove(0);
    assert!(exists && hunk.starts_with("@@ -0,0 +2,1 @@\n+üü") && hunk.ends_with('ü'), "{hunk}");
    assert!(hunk.len() <= MAX_HUNK_BYTES && hunk.len() > MAX_HUNK_BYTES - 4, "{}", hunk.len());
    let wanted = ["binary", "large", "none", "empty", "long"];
    let requests = wanted.map(|name| LinesToFind { lines: lines(name, 0..1), is_old: false });
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
    let plan = find_lines(&f.repo, (old, new), &requests, &Renames::default(), &deadline).unwrap();
    assert_eq!(plan.found, [Found::Nothing, Found::Nothing, Found::Nothing, Found::Text, Found::Lines]);
    let gone = Oid::from_str(&"9".repeat(40)).unwrap();
    for ends in [(gone, new), (old, gone)] {
        let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
        let refused = find_lines(&f.repo, ends, &[], &Renames::default(), &deadline);
        assert!(matches!(refused, Err(GitError::CommitNotFound)), "{refused:?}");
    }
}
