mod blame;
mod data;
mod describe;
mod diff;
mod lines;
mod pushed;
mod sizes;
mod tree_commits;

use git2::{Oid, Repository};

use super::{
    contents::{MAX_INLINE_BYTES, MAX_RESPONSE_BYTES},
    *,
};
use crate::{
    repo::{
        refs::{Page, load},
        revision::Revision,
    },
    types::{error::GitError, name::BranchName, path::TreePath},
};

struct Fixture {
    _folder: tempfile::TempDir,
    repo: Repository,
    commit: Oid,
}

const SUBMODULE: &str = "1234567890123456789012345678901234567890";

/// `.gitmodules`, `README`, `big`, `link -> dir/file`, `sub`, `dir/{file,\xff}`, on `main`, `feature/one` and the tag
/// `feature`.
fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    repo.set_head("refs/heads/main").unwrap();
    let commit = {
        let blob = |text: &[u8]| repo.blob(text).unwrap();
        let mut dir = repo.treebuilder(None).unwrap();
        dir.insert("file", blob(b"inside\n"), 0o100_755).unwrap();
        dir.insert(b"\xff".as_slice(), blob(b"odd"), 0o100_644).unwrap();
        let mut root = repo.treebuilder(None).unwrap();
        root.insert("README", blob(b"hello\n"), 0o100_644).unwrap();
        root.insert("big", blob(&vec![b'x'; MAX_INLINE_BYTES as usize + 1]), 0o100_644).unwrap();
        root.insert("link", blob(b"dir/file"), 0o120_000).unwrap();
        root.insert("sub", Oid::from_str(SUBMODULE).unwrap(), 0o160_000).unwrap();
        let modules = b"[submodule \"s\"]\n\tpath = sub\n\turl = https://example.com/s.git\n";
        root.insert(".gitmodules", blob(modules), 0o100_644).unwrap();
        root.insert("dir", dir.write().unwrap(), 0o040_000).unwrap();
        let tree = repo.find_tree(root.write().unwrap()).unwrap();
        let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(1_000, 60)).unwrap();
        repo.commit(Some("refs/heads/main"), &who, &who, "first\n\nbody\n", &tree, &[]).unwrap()
    };
    repo.reference("refs/heads/feature/one", commit, false, "").unwrap();
    repo.reference("refs/tags/feature", commit, false, "").unwrap();
    Fixture { _folder: folder, repo, commit }
}

fn at(f: &Fixture, revision: &str, path: &str) -> Result<Contents, GitError> {
    contents(&f.repo, &Revision::parse(revision.as_bytes())?, &TreePath::clean(path.as_bytes()).unwrap())
}

fn entry(found: Contents) -> Entry {
    match found.target {
        Target::Entry(entry) => entry,
        Target::Directory(_) => panic!("a directory"),
    }
}

#[test]
fn branches_come_with_their_commits() {
    let f = fixture();
    let page = load(&f.repo).unwrap().page(b"refs/heads/", Page { number: 1, size: 1 });
    let shown = branches(&f.repo, &page.entries).unwrap();
    assert_eq!((page.total, shown.len()), (2, 1));
    let first = &shown[0];
    assert_eq!((first.name.as_slice(), first.commit.id), (b"feature/one".as_slice(), f.commit));
    assert_eq!(first.commit.message, "first\n\nbody\n");
    assert_eq!((first.commit.author.seconds, first.commit.author.offset_minutes), (1_000, 60));
    assert!(matches!(branch(&f.repo, &BranchName::parse(b"feature").unwrap()), Err(GitError::BranchNotFound)));
    assert_eq!(branch(&f.repo, &BranchName::parse(b"main").unwrap()).unwrap().commit.id, f.commit);
    assert_eq!(commit(&f.repo, &Revision::parse(b"feature").unwrap()).unwrap().id, f.commit);
}

#[test]
fn every_kind_of_entry_is_shown_as_what_it_is() {
    let f = fixture();
    let file = at(&f, "", "dir/file").unwrap();
    assert_eq!((file.commit, file.display_ref.as_slice()), (Some(f.commit), b"main".as_slice()));
    let file = entry(file);
    assert_eq!((file.kind, file.size, file.content.as_deref()), (EntryKind::File, 7, Some(b"inside\n".as_slice())));
    assert_eq!((file.name.as_slice(), file.path.as_slice()), (b"file".as_slice(), b"dir/file".as_slice()));
    let link = entry(at(&f, "main", "link").unwrap());
    assert_eq!((link.kind, link.content.as_deref()), (EntryKind::Symlink, Some(b"dir/file".as_slice())));
    let sub = entry(at(&f, "main", "sub").unwrap());
    assert_eq!((sub.kind, sub.id.to_string().as_str(), sub.size), (EntryKind::Submodule, SUBMODULE, 0));
    assert_eq!(sub.submodule_url.as_deref(), Some("https://example.com/s.git"));
    let big = entry(at(&f, "main", "big").unwrap());
    assert_eq!((big.size, big.content), (MAX_INLINE_BYTES + 1, None));
}

#[test]
fn directories_list_their_entries() {
    let f = fixture();
    let Target::Directory(root) = at(&f, "main", "").unwrap().target else { panic!("a directory") };
    let names: Vec<_> = root.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
    assert_eq!(names, [".gitmodules", "README", "big", "dir", "link", "sub"]);
    let Target::Directory(dir) = at(&f, "main", "/dir/").unwrap().target else { panic!("a directory") };
    assert_eq!(dir[0].path, b"dir/file");
    assert_eq!(
        entry(contents(&f.repo, &Revision::parse(b"").unwrap(), &TreePath::literal(b"dir/\xff").unwrap()).unwrap())
            .size,
        3
    );
}

#[test]
fn one_answer_holds_a_bounded_number_of_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    repo.set_head("refs/heads/main").unwrap();
    let mut root = repo.treebuilder(None).unwrap();
    for index in 0..10u8 {
        root.insert(format!("f{index}"), repo.blob(&vec![index; MAX_INLINE_BYTES as usize]).unwrap(), 0o100_644)
            .unwrap();
    }
    let tree = repo.find_tree(root.write().unwrap()).unwrap();
    let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
    repo.commit(Some("refs/heads/main"), &who, &who, "m", &tree, &[]).unwrap();
    let found = contents(&repo, &Revision::parse(b"").unwrap(), &TreePath::root()).unwrap();
    let Target::Directory(entries) = found.target else { panic!("a directory") };
    let sent: u64 = entries.iter().filter_map(|entry| entry.content.as_ref()).map(|content| content.len() as u64).sum();
    assert_eq!((entries.len(), sent), (10, MAX_RESPONSE_BYTES));
}

#[test]
fn what_is_not_there_is_not_found() {
    let f = fixture();
    for path in ["nope", "README/x", "link/x", "sub/x", "dir/file/x", ".git/config"] {
        assert!(matches!(at(&f, "main", path), Err(GitError::PathNotFound)), "{path}");
    }
    assert!(matches!(at(&f, "nope", "README"), Err(GitError::RevisionNotFound)));
}

#[test]
fn the_root_of_an_empty_repository_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    repo.set_head("refs/heads/trunk").unwrap();
    let look = |revision: &str, path: &str| {
        contents(&repo, &Revision::parse(revision.as_bytes()).unwrap(), &TreePath::clean(path.as_bytes()).unwrap())
    };
    for revision in ["", "HEAD", "trunk"] {
        let found = look(revision, "").unwrap();
        assert_eq!((found.commit, found.display_ref.as_slice()), (None, b"trunk".as_slice()));
        assert_eq!(found.target, Target::Directory(Vec::new()));
    }
    assert!(matches!(look("", "README"), Err(GitError::PathNotFound)));
    assert!(matches!(look("other", ""), Err(GitError::RevisionNotFound)));
    assert!(load(&repo).unwrap().is_empty());
}

#[test]
fn raw_takes_the_longest_name() {
    let f = fixture();
    let id = f.commit.to_string();
    let cases = [
        "main/dir/file",
        "feature/one/dir/file",
        "feature/dir/file",
        "HEAD/dir/file",
        "refs/heads/main/dir/file",
        "refs/heads/feature/one/dir/file",
        "refs/tags/feature/dir/file",
    ]
    .map(str::to_owned);
    for text in cases.into_iter().chain([format!("{id}/dir/file"), format!("{}/dir/file", &id[..7])]) {
        let found = raw(&f.repo, text.as_bytes()).expect(&text);
        assert_eq!(
            (found.path.as_slice(), found.content.as_deref()),
            (b"dir/file".as_slice(), Some(b"inside\n".as_slice()))
        );
    }
    assert_eq!(raw(&f.repo, b"main/link").unwrap().content.unwrap(), b"dir/file");
    let big = raw(&f.repo, b"main/big").unwrap();
    assert_eq!((big.size, big.content), (MAX_INLINE_BYTES + 1, None));
}

#[test]
fn raw_with_a_revision_takes_the_whole_path() {
    let f = fixture();
    let found = |revision: &[u8], path: &[u8]| raw_at(&f.repo, &Revision::parse(revision)?, path);
    for revision in ["", "HEAD", "main", "feature/one", "refs/tags/feature", &f.commit.to_string()] {
        let file = found(revision.as_bytes(), b"dir/file").expect(revision);
        assert_eq!((file.name.as_slice(), file.commit), (b"file".as_slice(), f.commit), "{revision}");
    }
    for path in ["main/dir/file", "dir", "", "dir/../README", "/README", "README/"] {
        assert!(matches!(found(b"main", path.as_bytes()), Err(GitError::PathNotFound)), "{path}");
    }
    for revision in ["none", "main~1", "feature/two"] {
        assert!(matches!(found(revision.as_bytes(), b"README"), Err(GitError::RevisionNotFound)), "{revision}");
    }
}

#[test]
fn raw_finds_nothing_else() {
    let f = fixture();
    for text in
        ["main/dir", "main/nope", "main/sub", "main/dir/../README", "main//README", "main/", "feature/two/README"]
    {
        assert!(matches!(raw(&f.repo, text.as_bytes()), Err(GitError::PathNotFound)), "{text}");
    }
    for text in [
        "main",
        "",
        "nope/README",
        "-n1/README",
        "main~1/README",
        "abcdef/README",
        "0000000/README",
        "/README",
        "refs/heads/README",
        "refs/pull/1/README",
    ] {
        assert!(matches!(raw(&f.repo, text.as_bytes()), Err(GitError::RevisionNotFound)), "{text}");
    }
    assert!(raw(&f.repo, "a/".repeat(5000).as_bytes()).is_err());
}

mod any_bytes {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn raw_never_panics(text in "(main|feature|[a-z.-]{0,3}|\u{0}|~|/|\\\\){0,8}") {
            let f = fixture();
            if let Ok(found) = raw(&f.repo, text.as_bytes()) {
                prop_assert!(text.ends_with(std::str::from_utf8(&found.path).unwrap()));
            }
        }
    }
}
