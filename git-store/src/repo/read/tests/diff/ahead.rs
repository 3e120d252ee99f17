//! The commits that a branch has and another lacks, compared with what `git rev-list` lists.

use std::collections::HashSet;

use super::*;

fn page(size: usize) -> Page {
    Page { number: 1, size }
}

fn walk(f: &Fixture, base: Oid, head: Oid, page: Page, steps: usize) -> Option<Ahead> {
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(30));
    ahead(&f.repo, base, head, page, steps, &deadline).unwrap()
}

/// Commits that each have up to two of the earlier ones as parents. The state makes the next
/// number.
fn random(f: &Fixture, mut state: u64, count: usize, time: impl Fn(usize, u64) -> i64) -> Vec<Oid> {
    let tree = f.tree(&[]);
    let mut next = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % limit
    };
    let mut commits: Vec<Oid> = Vec::new();
    for at in 0..count {
        let recent = |back: usize| commits[at.saturating_sub(1 + back)];
        let mut parents: Vec<Oid> = match (at, next(10)) {
            (0, _) | (_, 9) => vec![],
            (_, 0..=5) => vec![recent(next(6))],
            _ => vec![recent(next(4)), recent(next(8))],
        };
        parents.dedup();
        let seconds = time(at, next(1000) as u64);
        commits.push(f.commit(tree, &parents, seconds, &at.to_string()));
    }
    commits
}

fn reachable(f: &Fixture, from: Oid) -> HashSet<Oid> {
    let (mut found, mut open) = (HashSet::new(), vec![from]);
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(f.repo.find_commit(id).unwrap().parent_ids());
        }
    }
    found
}

#[tokio::test]
async fn what_a_branch_has_more_is_what_git_lists() {
    let f = Fixture::new().await;
    let mut with_several = 0;
    for state in 0..6 {
        // Some have the same time.
        let commits = random(&f, state, 40, |at, _| 1_000 + (at / 3) as i64);
        for (base, head) in (0..40).step_by(3).flat_map(|base| (1..40).step_by(4).map(move |head| (base, head))) {
            let (base, head) = (commits[base], commits[head]);
            let Some(found) = walk(&f, base, head, page(5), 1000) else {
                with_several += 1;
                continue;
            };
            let range = format!("{base}..{head}");
            let list = String::from_utf8(f.plain(&["rev-list", &range])).unwrap();
            let list: Vec<_> = list.lines().map(|line| Oid::from_str(line).unwrap()).collect();
            assert_eq!(found.total, list.len(), "{range}");
            assert_eq!(found.commits, list[..list.len().min(6)], "{range}");
            let all = f.repo.merge_bases(base, head).map(|bases| bases.to_vec()).unwrap_or_default();
            assert_eq!(found.merge_base.into_iter().collect::<Vec<_>>(), all, "{range}");
        }
    }
    assert!(with_several > 0, "some have several merge bases");
}

#[tokio::test]
async fn clocks_that_differ_change_no_result() {
    let f = Fixture::new().await;
    for state in 10..14 {
        let commits = random(&f, state, 30, |_, random| random as i64);
        for (base, head) in (0..30).step_by(2).flat_map(|base| (1..30).step_by(3).map(move |head| (base, head))) {
            let (base, head) = (commits[base], commits[head]);
            let (of_base, of_head) = (reachable(&f, base), reachable(&f, head));
            let Some(found) = walk(&f, base, head, page(100), 1000) else { continue };
            if let Some(merge_base) = found.merge_base {
                let common: HashSet<_> = of_base.intersection(&of_head).copied().collect();
                assert_eq!(common, reachable(&f, merge_base));
            }
            assert!(found.commits.iter().all(|id| of_head.contains(id)));
            let missing = of_head.difference(&of_base).find(|id| !found.commits.contains(id));
            assert_eq!(missing, None);
        }
    }
}

#[tokio::test]
async fn git_takes_over_where_the_walk_ends() {
    let f = Fixture::new().await;
    let tree = f.tree(&[]);
    let root = f.commit(tree, &[], 1, "root");
    let chain = |start: Oid, count: usize, name: &str| {
        let mut tip = start;
        (0..count).for_each(|n| tip = f.commit(tree, &[tip], 2 + n as i64, &format!("{name} {n}")));
        tip
    };
    let (one, two) = (chain(root, 20, "one"), chain(root, 30, "two"));
    assert_eq!(walk(&f, one, two, page(3), 10), None);
    let walked = walk(&f, one, two, page(3), 1000).unwrap();
    assert_eq!((walked.merge_base, walked.total, walked.commits.len()), (Some(root), 30, 4));
    assert_eq!(ahead_by_git(&f.git, f.path(), one, two, page(3)).await.unwrap(), walked);
    let last = Page { number: 10, size: 3 };
    assert_eq!(walk(&f, one, two, last, 1000), Some(ahead_by_git(&f.git, f.path(), one, two, last).await.unwrap()));
    // Criss-cross: two merge bases of the same age.
    let (left, right) = (f.commit(tree, &[one, two], 100, "left"), f.commit(tree, &[two, one], 100, "right"));
    assert_eq!(walk(&f, left, right, page(3), 1000), None);
    let found = ahead_by_git(&f.git, f.path(), left, right, page(3)).await.unwrap();
    let first = String::from_utf8(f.plain(&["merge-base", &left.to_string(), &right.to_string()])).unwrap();
    assert_eq!((found.merge_base.unwrap().to_string(), found.total), (first.trim().to_owned(), 1));
    let alone = f.commit(tree, &[], 1, "alone");
    let none = Ahead { merge_base: None, total: 1, commits: vec![alone] };
    assert_eq!(walk(&f, one, alone, page(3), 1000).as_ref(), Some(&none));
    assert_eq!(ahead_by_git(&f.git, f.path(), one, alone, page(3)).await.unwrap(), none);
}
