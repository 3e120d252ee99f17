use std::{collections::HashSet, time::Duration};

use git2::{Oid, Repository, Signature, Time};
use proptest::prelude::*;

use super::super::*;
use crate::{
    repo::read::pushed::{AddedCommits, MAX_READ_COMMITS, added_among, is_reached, new_commits},
    types::error::GitError,
};

const ZERO: Oid = Oid::ZERO_SHA1;

struct History {
    _folder: tempfile::TempDir,
    repo: Repository,
    tree: Oid,
}

impl History {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        let tree = repo.treebuilder(None).unwrap().write().unwrap();
        Self { _folder: folder, repo, tree }
    }

    fn commit(&self, seconds: i64, message: &str, parents: &[Oid]) -> Oid {
        let who = Signature::new("Ada", "ada@example.com", &Time::new(seconds, 0)).unwrap();
        let tree = self.repo.find_tree(self.tree).unwrap();
        let parents: Vec<_> = parents.iter().map(|id| self.repo.find_commit(*id).unwrap()).collect();
        self.repo.commit(None, &who, &who, message, &tree, &parents.iter().collect::<Vec<_>>()).unwrap()
    }

    /// A chain of commits with these times and their index as message.
    fn chain(&self, seconds: impl IntoIterator<Item = i64>) -> Vec<Oid> {
        let mut ids: Vec<Oid> = Vec::new();
        for (index, seconds) in seconds.into_iter().enumerate() {
            let parent: Vec<_> = ids.last().copied().into_iter().collect();
            ids.push(self.commit(seconds, &index.to_string(), &parent));
        }
        ids
    }

    fn pushed(&self, old: Oid, new: Oid, limit: usize) -> Result<Vec<Oid>, GitError> {
        let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
        let commits = pushed_commits(&self.repo, old, new, limit, &deadline)?;
        Ok(commits.into_iter().map(|commit| commit.id).collect())
    }
}

#[test]
fn an_update_has_the_newest_commits_oldest_first() {
    let history = History::new();
    let ids = history.chain((0..50).map(|index| 1_000 + index));
    assert_eq!(history.pushed(ids[40], ids[49], 1000).unwrap(), ids[41..]);
    assert_eq!(history.pushed(ids[40], ids[49], 3).unwrap(), ids[47..]);
    assert_eq!(history.pushed(ZERO, ids[49], 1000).unwrap(), ids);
    assert_eq!(history.pushed(ZERO, ids[49], 5).unwrap(), ids[45..]);
    assert_eq!(history.pushed(ids[48], ids[49], 1000).unwrap(), ids[49..]);
}

#[test]
fn a_line_of_commits_costs_no_more_reads_than_it_has() {
    let history = History::new();
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
    let read = |old: &[Oid], new| {
        let limits = (1000, MAX_READ_COMMITS);
        new_commits(&history.repo, old.iter().copied(), new, limits, &deadline).unwrap().read
    };
    let ids = history.chain((0..50).map(|index| 1_000 + index));
    assert_eq!(read(&ids[48..49], ids[49]), 2);
    assert_eq!(read(&ids[40..41], ids[49]), 10);
    // Another tip may have commits of the line.
    assert!(read(&[ids[48], ids[10]], ids[49]) > 3);
}

#[test]
fn a_branch_that_goes_back_has_no_new_commits() {
    let history = History::new();
    for clock in [1, 0] {
        let ids = history.chain((0..50).map(|index| 1_000 + clock * index));
        for new in [0, 10, 48, 49] {
            assert!(history.pushed(ids[49], ids[new], 1).unwrap().is_empty(), "{clock} {new}");
            assert!(history.pushed(ids[49], ids[new], 1000).unwrap().is_empty(), "{clock} {new}");
        }
    }
}

#[test]
fn a_merge_comes_after_both_sides_and_without_what_the_branch_had() {
    let history = History::new();
    let base = history.chain([1, 2, 3]);
    let side = history.commit(2, "side", &[base[0]]);
    // From a machine whose clock is behind.
    let later = history.commit(1, "later", &[side]);
    let own = history.commit(4, "own", &[base[2]]);
    let merge = history.commit(5, "merge", &[own, later]);
    let next = history.commit(5, "next", &[merge]);
    assert_eq!(history.pushed(own, next, 1000).unwrap(), [side, later, merge, next]);
    assert_eq!(history.pushed(base[2], next, 1000).unwrap(), [side, later, own, merge, next]);
    assert_eq!(history.pushed(later, next, 2).unwrap(), [merge, next]);
    // A force push without a common ancestor.
    let other = history.chain([10, 11]);
    assert_eq!(history.pushed(next, other[1], 1000).unwrap(), other);
}

#[test]
fn an_old_end_that_is_no_commit_has_no_commits() {
    let history = History::new();
    let ids = history.chain([1, 2]);
    let blob = history.repo.blob(b"x").unwrap();
    for old in [ZERO, blob, history.tree, Oid::from_str(&"a".repeat(40)).unwrap()] {
        assert_eq!(history.pushed(old, ids[1], 1000).unwrap(), ids);
    }
    for new in [ZERO, blob, history.tree, Oid::from_str(&"a".repeat(40)).unwrap()] {
        assert!(matches!(history.pushed(ids[0], new, 1000), Err(GitError::CommitNotFound)), "{new}");
    }
}

#[test]
fn heads_that_an_update_added_are_found_in_one_walk() {
    let history = History::new();
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
    let base = history.chain([1, 2, 3]);
    let side = history.commit(2, "side", &[base[0]]);
    let head = history.commit(3, "head", &[side]);
    let other = history.commit(4, "other", &[base[2]]);
    let merge = history.commit(5, "merge", &[base[2], head]);
    let wanted = HashSet::from([base[1], side, head, other, ZERO]);
    let added = |old, new| added_among(&history.repo, old, new, &wanted, &deadline).unwrap();
    let found = |ids: &[Oid]| AddedCommits { found: ids.iter().copied().collect(), is_partial: false };
    assert_eq!(added(Some(base[2]), merge), found(&[side, head]));
    assert_eq!(added(None, merge), found(&[base[1], side, head]));
    assert_eq!(added(Some(merge), base[2]), found(&[]));
    let gone = Oid::from_str(&"a".repeat(40)).unwrap();
    for (old, new) in [(Some(gone), merge), (Some(base[2]), gone)] {
        assert_eq!(added(old, new), AddedCommits { is_partial: true, ..AddedCommits::default() });
    }
}

#[test]
fn a_commit_is_reached_from_itself_and_its_descendants() {
    let history = History::new();
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
    let ids = history.chain([1, 2, 3]);
    let other = history.commit(2, "other", &[ids[0]]);
    let reached = |tips: &[Oid], id| is_reached(&history.repo, tips.iter().copied(), id, &deadline).unwrap();
    assert!(reached(&ids[2..], ids[0]) && reached(&ids[2..], ids[2]) && reached(&[other, ids[1]], ids[1]));
    assert!(!reached(&ids[..2], ids[2]) && !reached(&ids[2..], other) && !reached(&[], ids[0]));
    assert!(!reached(&[history.tree], ids[0]) && !reached(&ids, history.tree));
}

#[test]
fn a_walk_ends_with_its_caller() {
    let history = History::new();
    let ids = history.chain([1, 2]);
    let (deadline, waiting) = Deadline::start(Duration::from_secs(60));
    drop(waiting);
    assert!(matches!(pushed_commits(&history.repo, ZERO, ids[1], 10, &deadline), Err(GitError::ClientGone)));
}

#[test]
fn messages_are_cut_between_characters_and_fit_a_response() {
    let history = History::new();
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
    let message = |text: &str| {
        let id = history.commit(1, text, &[]);
        pushed_commits(&history.repo, ZERO, id, 1, &deadline).unwrap().remove(0).message
    };
    assert_eq!(message("\n\n one\n\nbody\n"), "\n\n one\n\nbody\n");
    assert_eq!(message(&"x".repeat(70_000)), "x".repeat(65_536));
    for width in ["\u{e9}", "\u{4e16}", "\u{1f980}"] {
        let text = format!("x{}", width.repeat(65_536));
        let cut = message(&text);
        assert!(text.starts_with(&cut) && (65_533..=65_536).contains(&cut.len()), "{width} {}", cut.len());
    }
    let long = "\u{4e16}".repeat(3_000);
    let mut ids: Vec<Oid> = Vec::new();
    for index in 0..MAX_PUSHED_COMMITS {
        let parent: Vec<_> = ids.last().copied().into_iter().collect();
        // Short messages leave their share to the others.
        ids.push(history.commit(1, if index < 500 { "short" } else { &long }, &parent));
    }
    let commits = pushed_commits(&history.repo, ZERO, ids[999], MAX_PUSHED_COMMITS, &deadline).unwrap();
    let bytes: usize = commits.iter().map(|commit| commit.message.len() + 64).sum();
    assert!(bytes <= 2 << 20 && commits[..500].iter().all(|commit| commit.message == "short"), "{bytes}");
    assert!(commits[500..].iter().all(|commit| commit.message.len() > 4_000 && long.starts_with(&commit.message)));
}

#[test]
fn messages_are_decoded_and_bytes_that_are_no_text_are_replaced() {
    let history = History::new();
    let text = |message: &[u8], encoding: &str| {
        let who = "Ada <ada@example.com> 1 +0000";
        let head = format!("tree {}\nauthor {who}\ncommitter {who}\n{encoding}\n", history.tree);
        let odb = history.repo.odb().unwrap();
        let id = odb.write(git2::ObjectType::Commit, &[head.as_bytes(), message].concat()).unwrap();
        let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
        pushed_commits(&history.repo, ZERO, id, 1, &deadline).unwrap().remove(0).message
    };
    assert_eq!(text(b"caf\xe9 closes #1\n", "encoding ISO-8859-1\n"), "caf\u{e9} closes #1\n");
    assert_eq!(text(b"caf\xe9 closes #1\n", ""), "caf\u{fffd} closes #1\n");
    assert_eq!(text(b"caf\xe9 closes #1\n", "encoding klingon\n"), "caf\u{fffd} closes #1\n");
    assert_eq!(text(b"as in git, the end\0closes #1", ""), "as in git, the end");
    assert_eq!(text(&[0xff; 65_536], ""), "\u{fffd}".repeat(65_536 / 3));
    assert_eq!(text(&[0xff; 65_536], "encoding latin1\n"), "\u{ff}".repeat(65_536 / 2));
}

/// Returns the commits reachable from `id`, given the parents' indexes of all commits.
fn reachable(commits: &[Vec<usize>], id: usize) -> HashSet<usize> {
    let (mut found, mut open) = (HashSet::from([id]), vec![id]);
    while let Some(id) = open.pop() {
        open.extend(commits[id].iter().copied().filter(|parent| found.insert(*parent)));
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any history in which no commit is older than its parents.
    #[test]
    fn an_update_has_what_the_old_end_cannot_reach(
        history in proptest::collection::vec((0..3_i64, proptest::collection::vec(any::<prop::sample::Index>(), 0..3)), 2..24),
        ends in any::<[prop::sample::Index; 2]>(),
        limit in 1..30_usize,
    ) {
        let fixture = History::new();
        let (mut ids, mut parents, mut times): (Vec<Oid>, Vec<Vec<usize>>, Vec<i64>) = Default::default();
        for (index, (step, links)) in history.iter().enumerate() {
            let mut own: Vec<_> = links.iter().filter(|_| index > 0).map(|link| link.index(index)).collect();
            own.sort_unstable();
            own.dedup();
            let time = own.iter().map(|parent| times[*parent]).max().unwrap_or(1) + step;
            let links: Vec<_> = own.iter().map(|parent| ids[*parent]).collect();
            ids.push(fixture.commit(time, &index.to_string(), &links));
            parents.push(own);
            times.push(time);
        }
        let (old, new) = (ends[0].index(ids.len()), ends[1].index(ids.len()));
        let expected = &reachable(&parents, new) - &reachable(&parents, old);
        let found = fixture.pushed(ids[old], ids[new], limit).unwrap();
        let order: Vec<_> = found.iter().map(|id| ids.iter().position(|other| other == id).unwrap()).collect();
        prop_assert!(order.iter().all(|index| expected.contains(index)), "{order:?} {expected:?}");
        prop_assert_eq!(order.len(), expected.len().min(limit));
        for (place, index) in order.iter().enumerate() {
            prop_assert!(!order[place + 1..].iter().any(|later| parents[*index].contains(later)), "{order:?}");
        }
        let oldest = order.iter().map(|index| times[*index]).min();
        let newest_left_out = expected.iter().filter(|index| !order.contains(index)).map(|index| times[*index]).max();
        prop_assert!(oldest >= newest_left_out, "{order:?} {expected:?}");
    }
}
