//! Bounds, and histories that cannot be merged.

use super::*;
use crate::repo::merge::output::OutputParser;

fn shown(conflicts: &Conflicts) -> (usize, usize) {
    (conflicts.files.len(), conflicts.total)
}

#[tokio::test]
async fn commits_without_common_history_are_refused() {
    let f = Fixture::new().await;
    let one = f.commit(&files(&[("a", "1\n")]), &[], "one\n");
    let other = f.commit(&files(&[("b", "2\n")]), &[], "other\n");
    assert!(matches!(f.merger().check(one, other).await, Err(GitError::NoCommonHistory)));
    let draft = merger_draft();
    for style in [
        MergeStyle::Merge(draft.clone()),
        MergeStyle::Squash(draft.clone()),
        MergeStyle::Rebase(draft.committer.clone()),
        MergeStyle::RebaseMerge(draft),
        MergeStyle::FastForwardOnly,
    ] {
        let error = f.merger().prepare(one, other, &style).await.unwrap_err();
        assert!(matches!(error, GitError::NoCommonHistory), "{style:?}: {error}");
    }
    let missing = Oid::from_str(&"12".repeat(20)).unwrap();
    for (base, head) in [(one, missing), (missing, one)] {
        assert!(matches!(f.merger().check(base, head).await, Err(GitError::CommitNotFound)));
    }
    let tree = f.tree_of(one);
    assert!(matches!(f.merger().check(one, tree).await, Err(GitError::CommitNotFound)));
    let nowhere = Merger::new(&f.git, &f.pool, RepositoryId(2));
    assert!(matches!(nowhere.check(one, other).await, Err(GitError::RepositoryNotFound)));
    assert_eq!(f.left_behind(), 0);
}

#[tokio::test]
async fn long_histories_are_not_rebased() {
    let f = Fixture::new().await;
    let root = f.commit(&files(&[("a", "1\n")]), &[], "root\n");
    let base = f.commit(&files(&[("a", "2\n")]), &[root], "base\n");
    let mut head = root;
    for count in 0..=MAX_REBASED_COMMITS {
        head = f.commit(&files(&[("a", "1\n"), ("b", &count.to_string())]), &[head], "more\n");
    }
    let style = MergeStyle::Rebase(merger_draft().committer);
    let error = f.merger().prepare(base, head, &style).await.unwrap_err();
    assert!(matches!(error, GitError::TooLarge { limit, .. } if limit == MAX_REBASED_COMMITS as u64), "{error}");
    assert_eq!(f.merger().check(base, head).await.unwrap(), Mergeability::Clean);
}

#[tokio::test]
async fn many_conflicts_are_counted_and_some_named() {
    let f = Fixture::new().await;
    let all = |text: &str| -> Files {
        let path = |n: usize| (format!("{:02}/{n:05}", n % 50), (FILE, format!("{text}{n}\n").into_bytes()));
        (0..2000).map(path).collect()
    };
    let (one, other) = f.three(&all("base"), &all("ours"), &all("theirs"));
    let Mergeability::Conflicts(conflicts) = f.merger().check(one, other).await.unwrap() else { panic!() };
    assert_eq!(shown(&conflicts), (MAX_CONFLICT_FILES, 2000));
    assert!(conflicts.files.iter().all(|file| file.kind == ConflictKind::Content && file.ranges.len() == 1));
    assert_eq!(conflicts.files[0].path, b"00/00000");
}

#[tokio::test]
async fn an_octopus_is_merged_and_left_out_of_a_rebase() {
    let f = Fixture::new().await;
    let root = f.commit(&files(&[("a", "a\n")]), &[], "root\n");
    let base = f.commit(&files(&[("a", "A\n")]), &[root], "base\n");
    let part = |name: &str| f.commit(&files(&[("a", "a\n"), (name, "x\n")]), &[root], name);
    let parts = [part("b"), part("c"), part("d")];
    let octopus = f.commit(&files(&[("a", "a\n"), ("b", "x\n"), ("c", "x\n"), ("d", "x\n")]), &parts, "octopus\n");
    let expected = f.tree(&files(&[("a", "A\n"), ("b", "x\n"), ("c", "x\n"), ("d", "x\n")]));
    for style in [MergeStyle::Merge(merger_draft()), MergeStyle::Rebase(merger_draft().committer)] {
        let merged = f.apply(f.merger().prepare(base, octopus, &style).await.unwrap());
        assert_eq!(f.tree_of(merged), expected, "{style:?}");
    }
}

#[tokio::test]
async fn attributes_and_settings_do_not_count() {
    let f = Fixture::new().await;
    let attributes = ("* merge=union text eol=crlf\n*.x merge=program\n", ".gitattributes");
    let version = |text: &str| files(&[(attributes.1, attributes.0), ("f", text), ("f.x", text)]);
    let (one, other) = f.three(&version("1\n"), &version("2\n"), &version("3\n"));
    let program = f.folder.path().join("program");
    let settings = format!(
        "[merge]\n\trenames = false\n\tdirectoryRenames = false\n\tconflictStyle = zdiff3\n[diff]\n\texternal = touch {0}\n\
         [merge \"program\"]\n\tdriver = touch {0}\n",
        program.display()
    );
    let config = f.path().join("config");
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap() + &settings).unwrap();
    // Attributes of HEAD, which some versions of git read in a bare repository.
    f.repo.reference("refs/heads/main", one, true, "").unwrap();
    let Mergeability::Conflicts(conflicts) = f.merger().check(one, other).await.unwrap() else { panic!() };
    let found: Vec<_> = conflicts.files.iter().map(|file| (file.path.as_slice(), file.ranges.len())).collect();
    assert_eq!(found, [(b"f".as_slice(), 1), (b"f.x", 1)]);
    assert!(!program.exists());
    // Renames are found whatever the repository says.
    let text = numbered(20, &[]);
    let moved = files(&[("to", &text)]);
    let (one, other) = f.three(&files(&[("from", &text)]), &moved, &files(&[("from", &numbered(20, &[(3, "x\n")]))]));
    assert_eq!(f.merger().check(one, other).await.unwrap(), Mergeability::Clean);
}

#[tokio::test]
async fn a_merge_makes_no_harmful_submodule() {
    let f = Fixture::new().await;
    let version = |head: &str, url: &str| {
        let text = format!("[{head}]\n\tpath = a\n\tx = 1\n\tx = 2\n\tx = 3\n\turl = {url}\n");
        files(&[(".gitmodules", &text)])
    };
    let (one, other) =
        f.three(&version("x", "https://a"), &version("submodule \"s\"", "https://a"), &version("x", "-u"));
    let error = f.merger().prepare(one, other, &MergeStyle::Merge(merger_draft())).await.unwrap_err();
    assert!(matches!(&error, GitError::Invalid(violation) if violation.field == "head"), "{error}");
}

#[tokio::test]
async fn a_merge_that_is_given_up_leaves_nothing_behind() {
    let f = Fixture::new().await;
    let (one, other) = f.three(&files(&[("a", "1\n")]), &files(&[("a", "2\n")]), &files(&[("a", "3\n")]));
    for polls in 1..6 {
        let merger = f.merger();
        let mut check = Box::pin(merger.check(one, other));
        for _ in 0..polls {
            if futures_util::poll!(&mut check).is_ready() {
                break;
            }
            f.pool.run_blocking(|_| Ok(())).await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(check);
        // The pool drops what it made for a caller that is gone.
        f.pool.run_blocking(|_| Ok(())).await.unwrap();
        assert_eq!(f.left_behind(), 0, "{polls}");
    }
}

#[test]
fn what_git_does_not_print_is_an_error() {
    let id = "12".repeat(20);
    let good = format!("{id}\0100644 {id} 1\ta b\0100644 {id} 3\ta b\0\x001\0a b\0CONFLICT (binary)\0text\n\0");
    for piece in [1, 7, 1000] {
        let mut parser = OutputParser::default();
        good.as_bytes().chunks(piece).for_each(|piece| parser.feed(piece).unwrap());
        assert_eq!(parser.tree().unwrap().to_string(), id);
        let conflicts = parser.conflicts().unwrap();
        let file = &conflicts.files[0];
        assert_eq!(
            (shown(&conflicts), file.path.as_slice(), file.kind),
            ((1, 1), b"a b".as_slice(), ConflictKind::Binary)
        );
        assert_eq!((file.base.is_some(), file.ours.is_some(), file.theirs.is_some()), (true, false, true));
        assert_eq!(file.message, b"text");
    }
    for bad in ["x\0", &format!("{id}\0x\0"), &format!("{id}\0100644 {id} 4\ta\0"), &format!("{id}\0\0-1\0")] {
        assert!(OutputParser::default().feed(bad.as_bytes()).is_err(), "{bad:?}");
    }
    let messages = good.find("\0\x001\0").unwrap() + 2;
    for (end, is_whole) in [(9, false), (41, false), (messages - 1, false), (messages, true), (messages + 9, false)] {
        let mut parser = OutputParser::default();
        parser.feed(&good.as_bytes()[..end]).unwrap();
        assert_eq!(parser.conflicts().is_ok(), is_whole, "{end}");
    }
    let mut parser = OutputParser::default();
    parser.feed(format!("{good}Advice about\nsubmodules").as_bytes()).unwrap();
    assert_eq!(parser.conflicts().unwrap().total, 1);
    let long = [b"12".repeat(20), b"\0".to_vec(), vec![b'1'; 70_000]].concat();
    assert!(matches!(OutputParser::default().feed(&long), Err(GitError::TooLarge { .. })));
}
