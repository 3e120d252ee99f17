//! Each style, with the commits that git makes.

use super::{work_tree::WorkTree, *};
use crate::repo::read;

/// A base with three commits and a head with three, of two authors.
fn diverged(f: &Fixture) -> (Oid, Oid) {
    let text = |replaced| numbered(30, replaced);
    let root = f.commit(&files(&[("a", &text(&[])), ("dir/b", "b\n")]), &[], "root\n");
    let one = f.commit(&files(&[("a", &text(&[(3, "three\n")])), ("dir/b", "b\n")]), &[root], "one\n\nText.\n");
    let two = f.commit(&files(&[("a", &text(&[(3, "three\n")])), ("dir/b", "b\n"), ("new/b", "n\n")]), &[one], "two\n");
    let mine = f.commit_by("Bob", &files(&[("a", &text(&[(20, "twenty\n")])), ("dir/b", "b\n")]), &[root], "mine");
    let more = files(&[("a", &text(&[(20, "twenty\n")])), ("dir/b", "b\n"), ("dir/c", "c\n"), ("x/y/z", "z\n")]);
    let next = f.commit_by("Eve", &more, &[mine], "next\n\nTrailer: x\n");
    let last = [more, files(&[("dir/b", "b\nb\n")])].into_iter().flatten().collect();
    (two, f.commit_by("bob", &last, &[next], "last\n"))
}

async fn prepare(f: &Fixture, base: Oid, head: Oid, style: &MergeStyle) -> Result<MergeOutcome, GitError> {
    let outcome = f.merger().prepare(base, head, style).await;
    assert_eq!(f.left_behind(), 0, "{style:?}");
    outcome
}

#[tokio::test]
async fn a_merge_commit_is_the_one_that_git_makes() {
    let f = Fixture::new().await;
    let ((base, head), work) = (diverged(&f), WorkTree::new(&f));
    let style = MergeStyle::Merge(merger_draft());
    assert_eq!(f.merger().check(base, head).await.unwrap(), Mergeability::Clean);
    let MergeOutcome::Ready(ready) = prepare(&f, base, head, &style).await.unwrap() else { panic!() };
    for object in &ready.objects {
        assert!(!f.repo.odb().unwrap().exists(object.id()), "{object:?} was kept");
    }
    let ours = f.apply(MergeOutcome::Ready(ready));
    assert_eq!(work.make(base, &["merge", "-q", "--no-ff", "-m", "m", &head.to_string()]).unwrap(), ours);
    assert!(work.run(&["fsck", "--strict", &ours.to_string()]).status.success());
    // A merge commit is made where a fast-forward is possible, too.
    let root = f.repo.find_commit(head).unwrap().parent_id(0).unwrap();
    let ours = f.apply(prepare(&f, root, head, &style).await.unwrap());
    assert_eq!(work.make(root, &["merge", "-q", "--no-ff", "-m", "m", &head.to_string()]).unwrap(), ours);
    let error = prepare(&f, head, root, &style).await.unwrap_err();
    assert!(matches!(error, GitError::NothingToMerge), "{error}");
    let empty = MergeDraft { message: " ".to_owned(), ..merger_draft() };
    let error = prepare(&f, base, head, &MergeStyle::Merge(empty)).await.unwrap_err();
    assert!(matches!(&error, GitError::Invalid(violation) if violation.field == "message"), "{error}");
}

#[tokio::test]
async fn a_squash_has_one_parent_and_names_its_co_authors() {
    let f = Fixture::new().await;
    let ((base, head), work) = (diverged(&f), WorkTree::new(&f));
    let poster = Author::new("Eve", "EVE@example.com", 1_700_000_400);
    let draft = MergeDraft { message: "All (#3)\n".to_owned(), author: poster, ..merger_draft() };
    let ours = f.apply(prepare(&f, base, head, &MergeStyle::Squash(draft.clone())).await.unwrap());
    let info = read::commit_info(&Repository::open_bare(f.path()).unwrap(), ours).unwrap();
    assert_eq!((info.parents.as_slice(), info.tree), ([base].as_slice(), work.squash(base, head)));
    assert_eq!((info.author.name.as_str(), info.committer.name.as_str()), ("Eve", "Max"));
    assert_eq!(info.message, "All (#3)\n\nCo-authored-by: Bob <bob@example.com>\n");
    let error = prepare(&f, ours, head, &MergeStyle::Squash(draft)).await.unwrap_err();
    assert!(matches!(error, GitError::NothingToMerge), "{error}");
}

#[tokio::test]
async fn a_rebase_makes_the_commits_that_git_makes() {
    let f = Fixture::new().await;
    let ((base, head), work) = (diverged(&f), WorkTree::new(&f));
    let committer = merger_draft().committer;
    let ours = f.apply(prepare(&f, base, head, &MergeStyle::Rebase(committer.clone())).await.unwrap());
    // git ends the message `mine` with a line feed.
    let real = work.make(head, &["rebase", "-q", &base.to_string()]).unwrap();
    assert_eq!(
        f.tree_of(ours),
        Repository::open(f.folder.path().join("work")).unwrap().find_commit(real).unwrap().tree_id()
    );
    let log = |commit: Oid| work.run(&["log", "--format=%T %an %ae %ad %cn %ce %cd%n%B", &commit.to_string()]).stdout;
    assert_eq!(String::from_utf8_lossy(&log(ours)), String::from_utf8_lossy(&log(real)));
    // On a base that it contains, the head stays.
    let root = f.repo.find_commit(head).unwrap().parent_id(0).unwrap();
    let kept = prepare(&f, root, head, &MergeStyle::Rebase(committer.clone())).await.unwrap();
    assert_eq!(kept, MergeOutcome::Ready(PreparedMerge { commit: head, objects: Vec::new() }));
    let merged = f.apply(prepare(&f, base, head, &MergeStyle::RebaseMerge(merger_draft())).await.unwrap());
    let info = read::commit_info(&Repository::open_bare(f.path()).unwrap(), merged).unwrap();
    assert_eq!((info.parents, info.tree), (vec![base, ours], f.tree_of(ours)));
    // Everything is there already: nothing is left to replay.
    let empty = prepare(&f, ours, head, &MergeStyle::Rebase(committer)).await.unwrap();
    assert_eq!(empty, MergeOutcome::Ready(PreparedMerge { commit: ours, objects: Vec::new() }));
    let error = prepare(&f, ours, head, &MergeStyle::RebaseMerge(merger_draft())).await.unwrap_err();
    assert!(matches!(error, GitError::NothingToMerge), "{error}");
}

#[tokio::test]
async fn a_replayed_commit_keeps_its_encoding_and_loses_its_signature() {
    let f = Fixture::new().await;
    let (base, head) = diverged(&f);
    let tree = f.tree_of(head);
    let odb = f.repo.odb().unwrap();
    let header = format!("tree {tree}\nparent {head}\nauthor J\u{f6}rg <j@x> 5 -0730\ncommitter J <j@x> 6 +0000\n");
    let latin: Vec<u8> = header.chars().map(|letter| letter as u8).collect();
    let rest =
        b"gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\nencoding ISO-8859-1\n\ncaf\xe9\n";
    let odd = odb.write(git2::ObjectType::Commit, &[latin, rest.to_vec()].concat()).unwrap();
    let outcome = prepare(&f, base, odd, &MergeStyle::Rebase(merger_draft().committer)).await.unwrap();
    let MergeOutcome::Ready(ready) = outcome else { panic!() };
    let last = ready.objects.last().unwrap();
    let text: String = last.content().iter().map(|byte| char::from(*byte)).collect();
    assert!(text.contains("\nauthor J\u{f6}rg <j@x> 5 -0730\ncommitter Max <"), "{text}");
    assert!(text.ends_with("\nencoding ISO-8859-1\n\ncaf\u{e9}\n") && !text.contains("gpgsig"), "{text}");
}

#[tokio::test]
async fn a_fast_forward_is_made_only_where_it_is_one() {
    let f = Fixture::new().await;
    let (base, head) = diverged(&f);
    let style = MergeStyle::FastForwardOnly;
    let parent = f.repo.find_commit(head).unwrap().parent_id(0).unwrap();
    let done = prepare(&f, parent, head, &style).await.unwrap();
    assert_eq!(done, MergeOutcome::Ready(PreparedMerge { commit: head, objects: Vec::new() }));
    assert!(matches!(prepare(&f, base, head, &style).await, Err(GitError::NotFastForward)));
    assert!(matches!(prepare(&f, head, parent, &style).await, Err(GitError::NothingToMerge)));
    assert!(matches!(prepare(&f, head, head, &style).await, Err(GitError::NothingToMerge)));
}

#[tokio::test]
async fn a_merged_change_is_reverted_however_it_was_merged() {
    let f = Fixture::new().await;
    let ((base, head), work) = (diverged(&f), WorkTree::new(&f));
    let draft = merger_draft();
    let committer = draft.committer.clone();
    for style in [
        MergeStyle::Merge(draft.clone()),
        MergeStyle::Squash(draft.clone()),
        MergeStyle::RebaseMerge(draft.clone()),
        MergeStyle::Rebase(committer),
    ] {
        let merged = f.apply(prepare(&f, base, head, &style).await.unwrap());
        let is_rebase = matches!(style, MergeStyle::Rebase(_));
        // Another commit follows.
        let mut after: Files = files(&[("later", "l\n")]);
        for (path, content) in [
            ("a", numbered(30, &[(3, "three\n"), (20, "twenty\n"), (28, "x\n")]).as_str()),
            ("dir/b", "b\nb\n"),
            ("new/b", "n\n"),
            ("dir/c", "c\n"),
            ("x/y/z", "z\n"),
        ] {
            after.insert(path.to_owned(), (FILE, content.as_bytes().to_vec()));
        }
        let tip = f.commit(&after, &[merged], "later\n");
        let reverted = Reverted { before: is_rebase.then_some(base), after: merged };
        let outcome = f.merger().revert(tip, reverted, &draft).await.unwrap();
        let ours = f.apply(outcome);
        let (range, one) = (format!("{base}..{merged}"), merged.to_string());
        let arguments = match style {
            MergeStyle::Rebase(_) => vec!["revert", "--no-edit", &range],
            MergeStyle::Squash(_) => vec!["revert", "--no-edit", &one],
            _ => vec!["revert", "--no-edit", "-m", "1", &one],
        };
        let real = work.make(tip, &arguments).unwrap();
        let real = Repository::open(f.folder.path().join("work")).unwrap().find_commit(real).unwrap().tree_id();
        assert_eq!(f.tree_of(ours), real, "{style:?}");
        let error = f.merger().revert(ours, reverted, &draft).await.unwrap_err();
        assert!(matches!(error, GitError::NothingToMerge), "{error}");
    }
}
