//! Random histories, merged and rebased as by git.

use super::{
    work_tree::{WorkTree, are_committed, assert_marked, assert_same},
    *,
};

/// Histories of an ordinary run, each with a merge and a rebase, every third with a squash.
/// `FERRITE_TEST_SLOW` is set for a long one, with 100,000 of them.
const CASES: u64 = 150;
const SLOW_CASES: u64 = 43_000;
/// After this many, a new repository keeps folders small.
const CASES_PER_REPOSITORY: u64 = 500;

const NAMES: [&str; 12] =
    ["a", "b.txt", "dir/a", "dir/b.txt", "dir/c", "dir/sub/a", "dir/sub/d", "lib/a", "lib/e", "lib/x/y/z", "top", "A"];
const FOLDERS: [&str; 6] = ["dir", "dir/sub", "lib", "lib/x", "new", "new/dir"];
const WORDS: [&str; 8] = ["{\n", "}\n", "\n", "one\n", "two\n", "three\n", "return;\n", "x\r\n"];

/// SplitMix64: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn lines(&mut self) -> Vec<u8> {
        let count = self.below(40);
        let mut line = |n: usize| if self.chance(60) { format!("line {n}\n") } else { self.pick(&WORDS).to_owned() };
        let mut text: String = (0..count).map(&mut line).collect();
        if self.chance(10) {
            text.push_str("no line feed");
        }
        if self.chance(8) { text.replace('\n', "\r\n").into_bytes() } else { text.into_bytes() }
    }

    /// Mode and content.
    fn file(&mut self) -> (u32, Vec<u8>) {
        match self.below(20) {
            0 => (LINK, self.pick(&["a", "dir/a", "../x"]).as_bytes().to_vec()),
            1 => (SUBMODULE, self.pick(&["1", "2", "3", "4"]).repeat(40).into_bytes()),
            2 => (FILE, [b"\0binary".as_slice(), self.pick(&WORDS).as_bytes(), &[7; 200]].concat()),
            3 => (PROGRAM, self.lines()),
            _ => (FILE, self.lines()),
        }
    }

    fn edited(&mut self, content: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for _ in 0..=self.below(3) {
            let (at, word) = (self.below(lines.len() + 1), self.pick(&WORDS).as_bytes().to_vec());
            match self.below(3) {
                0 => lines.insert(at, word),
                1 if at < lines.len() => drop(lines.remove(at)),
                _ if at < lines.len() => lines[at] = word,
                _ => lines.push(word),
            }
        }
        lines.concat()
    }

    fn change(&mut self, files: &mut Files) {
        let paths: Vec<String> = files.keys().cloned().collect();
        let Some(path) = paths.get(self.below(paths.len().max(1))).cloned() else {
            return put(files, "a".to_owned(), self.file());
        };
        match self.below(16) {
            0..=6 => {
                let (mode, content) = files[&path].clone();
                let content = match mode {
                    LINK | SUBMODULE => self.file(),
                    _ => (mode, self.edited(&content)),
                };
                put(files, path, content);
            }
            7 | 8 => drop(files.remove(&path)),
            9 | 10 => put(files, self.pick(&NAMES).to_owned(), self.file()),
            11 | 12 => {
                let mut file = files.remove(&path).unwrap();
                if matches!(file.0, FILE | PROGRAM) && self.chance(40) {
                    file.1 = self.edited(&file.1);
                }
                put(files, self.pick(&NAMES).to_owned(), file);
            }
            13 => {
                let (from, to) = (self.pick(&FOLDERS), self.pick(&FOLDERS));
                let moved: Vec<_> =
                    paths.iter().filter_map(|path| path.strip_prefix(from)?.strip_prefix('/')).collect();
                for name in moved {
                    let file = files.remove(&format!("{from}/{name}"));
                    file.into_iter().for_each(|file| put(files, format!("{to}/{name}"), file));
                }
            }
            14 => {
                let file = files.get_mut(&path).unwrap();
                file.0 = match file.0 {
                    FILE => PROGRAM,
                    PROGRAM => FILE,
                    other => other,
                };
            }
            _ => put(files, format!("{path}/in"), self.file()),
        }
    }
}

/// Sets a file. What is in its way goes.
fn put(files: &mut Files, path: String, file: (u32, Vec<u8>)) {
    files.retain(|other, _| {
        let is_below = |one: &str, folder: &str| one.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        !is_below(other, &path) && !is_below(&path, other)
    });
    files.insert(path, file);
}

/// Two commits with a common history, and their files.
fn history(f: &Fixture, random: &mut Random) -> (Oid, Oid) {
    let mut root = Files::new();
    for _ in 0..=random.below(9) {
        put(&mut root, random.pick(&NAMES).to_owned(), random.file());
    }
    // Lines with a number of the history make it differ from others.
    let number = random.next().to_string().into_bytes();
    put(&mut root, "number".to_owned(), (FILE, number));
    let start = f.commit(&root, &[], "root\n");
    let mut sides = [(root.clone(), vec![start]), (root, vec![start])];
    for count in 0..2 + random.below(7) {
        let side = if count < 2 { count } else { random.below(2) };
        let [mut files, other] = [sides[side].0.clone(), sides[1 - side].0.clone()];
        let mut parents = vec![*sides[side].1.last().unwrap()];
        match random.below(20) {
            // A merge, possibly a criss-cross one, with the files of one side.
            0 | 1 => {
                let behind = &sides[1 - side].1;
                parents.push(behind[random.below(behind.len())]);
                if random.chance(50) {
                    files = other;
                }
            }
            // A change that the other side may have as well.
            2 | 3 => put(&mut files, "same".to_owned(), (FILE, b"same\n".to_vec())),
            // An empty commit.
            4 => {}
            _ => {
                for _ in 0..=random.below(3) {
                    random.change(&mut files);
                }
            }
        }
        parents.dedup();
        let commit = f.commit(&files, &parents, &format!("commit {count}\n"));
        let (now, commits) = &mut sides[side];
        *now = files;
        commits.push(commit);
    }
    let [(_, ours), (_, theirs)] = sides;
    (*ours.last().unwrap(), *theirs.last().unwrap())
}

async fn compare_merge(f: &Fixture, work: &WorkTree, base: Oid, head: Oid, what: &str) {
    let style = MergeStyle::Merge(merger_draft());
    let outcome = f.merger().prepare(base, head, &style).await;
    let Some(real) = work.try_make(base, &["merge", "-q", "--no-ff", "-m", "m", &head.to_string()]) else {
        assert!(matches!(outcome, Ok(MergeOutcome::Conflicts(_))), "{what}: {outcome:?}");
        return;
    };
    match outcome {
        Err(GitError::NothingToMerge) => assert_eq!(real, Ok(base), "{what}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(MergeOutcome::Ready(ready)) => assert_eq!(real, Ok(f.apply(MergeOutcome::Ready(ready))), "{what}"),
        Ok(MergeOutcome::Conflicts(conflicts)) if real.is_ok() => {
            assert!(are_committed(&conflicts), "{what}: {conflicts:?}");
        }
        Ok(MergeOutcome::Conflicts(conflicts)) => {
            assert_same(f, &conflicts, real.expect_err(what), what);
            for file in conflicts.files.iter().filter(|file| !file.ranges.is_empty()) {
                assert_marked(work, f, file, what);
            }
        }
    }
}

async fn compare_squash(f: &Fixture, work: &WorkTree, base: Oid, head: Oid, what: &str) {
    match f.merger().prepare(base, head, &MergeStyle::Squash(merger_draft())).await {
        Err(GitError::NothingToMerge) => assert_eq!(work.squash(base, head), f.tree_of(base), "{what}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(MergeOutcome::Conflicts(_)) => {}
        Ok(ready) => assert_eq!(f.tree_of(f.apply(ready)), work.squash(base, head), "{what}"),
    }
}

async fn compare_rebase(f: &Fixture, work: &WorkTree, base: Oid, head: Oid, what: &str) {
    let style = MergeStyle::Rebase(merger_draft().committer);
    let outcome = f.merger().prepare(base, head, &style).await;
    let Some(real) = work.try_make(head, &["rebase", "-q", &base.to_string()]) else {
        assert!(matches!(outcome, Ok(MergeOutcome::Conflicts(_))), "{what}: {outcome:?}");
        return;
    };
    match outcome {
        Err(GitError::NothingToMerge) => assert_eq!(real, Ok(base), "{what}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(MergeOutcome::Ready(ready)) => assert_eq!(real, Ok(f.apply(MergeOutcome::Ready(ready))), "{what}"),
        // git goes on, and may stop at a later commit.
        Ok(MergeOutcome::Conflicts(conflicts)) if are_committed(&conflicts) => {}
        Ok(MergeOutcome::Conflicts(conflicts)) => {
            let real = real.expect_err(what);
            assert_eq!(conflicts.commit, Some(work.stopped()), "{what}");
            assert_same(f, &conflicts, real, what);
        }
    }
}

#[tokio::test]
async fn random_histories_merge_as_by_git() {
    let is_slow = std::env::vars_os().any(|(name, value)| name == "FERRITE_TEST_SLOW" && !value.is_empty());
    let cases = if is_slow { SLOW_CASES } else { CASES };
    let mut repository = None;
    for case in 0..cases {
        if case % CASES_PER_REPOSITORY == 0 {
            let f = Fixture::new().await;
            let work = WorkTree::new(&f);
            repository = Some((f, work));
        }
        let (f, work) = repository.as_ref().unwrap();
        let (base, head) = history(f, &mut Random(case));
        let what = format!("history {case}: {base} {head} in {:?}", f.path());
        compare_merge(f, work, base, head, &what).await;
        if case % 3 == 0 {
            compare_squash(f, work, base, head, &what).await;
        }
        compare_rebase(f, work, base, head, &what).await;
        assert_eq!(f.left_behind(), 0, "{what}");
    }
}
