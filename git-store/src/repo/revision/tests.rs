use proptest::prelude::*;

use super::*;

struct Fixture {
    _folder: tempfile::TempDir,
    repo: Repository,
    commits: Vec<Oid>,
    tree: Oid,
    tag: Oid,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    repo.set_head("refs/heads/main").unwrap();
    let tree = repo.treebuilder(None).unwrap().write().unwrap();
    let commits: Vec<Oid> = (0..3)
        .map(|time| {
            let who = git2::Signature::new("a", "a@b", &git2::Time::new(time, 0)).unwrap();
            repo.commit(None, &who, &who, "m", &repo.find_tree(tree).unwrap(), &[]).unwrap()
        })
        .collect();
    let who = git2::Signature::new("a", "a@b", &git2::Time::new(0, 0)).unwrap();
    let tag = repo.tag("v1", &repo.find_object(commits[1], None).unwrap(), &who, "tag", false).unwrap();
    repo.reference("refs/heads/main", commits[0], true, "").unwrap();
    repo.reference("refs/heads/feature/one", commits[1], true, "").unwrap();
    repo.reference("refs/tags/main", commits[2], true, "").unwrap();
    repo.reference("refs/tags/tree", tree, true, "").unwrap();
    repo.reference("refs/ferrite/x", commits[0], true, "").unwrap();
    repo.reference("refs/pull/1/head", commits[2], true, "").unwrap();
    // A branch name that is also the abbreviated id of another commit.
    repo.reference(&format!("refs/heads/{}", &commits[2].to_string()[..8]), commits[0], true, "").unwrap();
    Fixture { _folder: folder, repo, commits, tree, tag }
}

fn resolve(f: &Fixture, text: &str) -> Result<Resolved, GitError> {
    Revision::parse(text.as_bytes())?.resolve(&f.repo)
}

#[test]
fn every_form_leads_to_its_commit() {
    let f = fixture();
    let long = f.commits[2].to_string();
    let cases = [
        ("", f.commits[0], "main"),
        ("HEAD", f.commits[0], "main"),
        ("main", f.commits[0], "main"),
        ("refs/tags/main", f.commits[2], "refs/tags/main"),
        ("refs/heads/main", f.commits[0], "main"),
        ("refs/tags/v1", f.commits[1], "v1"),
        (&format!("refs/heads/{}", &long[..8]), f.commits[0], &format!("refs/heads/{}", &long[..8])),
        ("feature/one", f.commits[1], "feature/one"),
        ("refs/heads/feature/one", f.commits[1], "feature/one"),
        ("v1", f.commits[1], "v1"),
        ("refs/pull/1/head", f.commits[2], "refs/pull/1/head"),
        (&f.tag.to_string(), f.commits[1], &f.commits[1].to_string()),
        (&long, f.commits[2], &long),
        (&long.to_uppercase(), f.commits[2], &long),
        (&long[..8], f.commits[2], &long),
    ];
    for (text, commit, display) in cases {
        let resolved = resolve(&f, text).expect(text);
        assert_eq!((resolved.commit, resolved.display()), (commit, display.as_bytes().to_vec()), "{text}");
    }
}

#[test]
fn nothing_else_leads_anywhere() {
    let f = fixture();
    let tree = f.tree.to_string();
    for text in [
        "-n1",
        "--all",
        "main~1",
        "main~1:file",
        "main@{1}",
        "main^{tree}",
        ":/m",
        "nope",
        "refs/ferrite/x",
        "tree",
        &tree,
        "abcdef",
        "@",
        "heads",
        "../HEAD",
        "refs/heads/main/../feature/one",
        "main\0",
        "0000000",
    ] {
        assert!(matches!(resolve(&f, text), Err(GitError::RevisionNotFound)), "{text:?}");
    }
}

#[test]
fn an_empty_repository_has_no_revision() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    assert!(matches!(Revision::parse(b"").unwrap().resolve(&repo), Err(GitError::RevisionNotFound)));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..50)) {
        if let Ok(revision) = Revision::parse(&text) {
            prop_assert!(!text.starts_with(b"-"));
            prop_assert!(revision.digits.is_some() || !revision.names.is_empty());
        }
    }

    #[test]
    fn ids_keep_their_digits(text in "[0-9a-fA-F]{7,40}") {
        prop_assert_eq!(object_id(text.as_bytes()), Some(text.to_lowercase()));
    }
}
