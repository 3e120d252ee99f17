//! Compares our `ls-refs` responses with git's, byte by byte.

use std::{path::PathBuf, process::Command, time::Duration};

use ferrite_proto::git_transport::GitProtocol;
use git_store::{
    disk::repositories::RepositoryStore,
    git::{
        command::{Exchange, Git, GitOptions},
        pktline::Packet,
    },
    repo::{
        pool::{Pool, PoolOptions},
        refs::{RefEdit, Refs},
    },
    types::name::{BranchName, RefName},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::*;
use crate::http::protocol_v2::{Parser, Step};

const ID: RepositoryId = RepositoryId(1);
const DEADLINE: Duration = Duration::from_secs(20);

struct Fixture {
    _folder: tempfile::TempDir,
    path: PathBuf,
    git: Arc<Git>,
    refs: Refs,
    commits: Vec<Oid>,
    /// An annotated tag, a tag of that tag, and a tag of a tree.
    tags: Vec<Oid>,
}

impl Fixture {
    /// Returns a repository with objects and no refs.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(RepositoryStore::open(folder.path(), "s", Duration::ZERO).await.unwrap());
        let (mut commits, mut tags) = (Vec::new(), Vec::new());
        let fill = |repo: &git2::Repository| {
            let who = |index| git2::Signature::new("a", "a@b", &git2::Time::new(index, 0));
            let tree = repo.find_tree(repo.treebuilder(None)?.write()?)?;
            for index in 0..10 {
                commits.push(repo.commit(None, &who(index)?, &who(index)?, "m", &tree, &[])?);
            }
            let tag = |name, id| repo.tag_annotation_create(name, &repo.find_object(id, None)?, &who(9)?, "m");
            let first = tag("one", commits[0])?;
            tags.extend([first, tag("two", first)?, tag("tree", tree.id())?]);
            Ok(None)
        };
        store.create(ID, &BranchName::parse(b"main").unwrap(), fill).unwrap();
        let pool = Pool::new(Arc::clone(&store), PoolOptions { workers: 2, ..PoolOptions::default() }).unwrap();
        let git = Arc::new(Git::find(GitOptions::default()).await.unwrap());
        let path = store.path(ID);
        let refs = Refs::new(store, pool, Arc::clone(&git));
        Self { _folder: folder, path, git, refs, commits, tags }
    }

    async fn set(&self, names: &[(&str, Oid)]) {
        let edit = |(name, id): &(&str, Oid)| RefEdit { name: full(name), old: None, new: Some(*id) };
        self.refs.transact(ID, &names.iter().map(edit).collect::<Vec<_>>()).await.unwrap();
    }

    fn by_hand(&self, args: &[&str]) {
        let output = Command::new("git").arg("-C").arg(&self.path).args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    async fn ours(&self, request: &[u8]) -> Option<Vec<u8>> {
        let mut parser = Parser::<LsRefsRequest>::default();
        if parser.read(request) != Step::Done {
            return None;
        }
        let table = self.refs.table(ID).await.unwrap();
        table.is_plain().then(|| LsRefsResponse::new(table, parser.command).flatten().collect())
    }

    async fn gits(&self, request: &[u8]) -> Result<Vec<u8>, GitError> {
        let version = GitProtocol::version_2();
        self.git
            .upload_pack(&self.path, Exchange::Request, Some(&version), None)
            .unwrap()
            .finish(request, DEADLINE)
            .await
    }

    /// Asserts that our response equals git's.
    async fn agree(&self, request: &[u8]) {
        let (ours, gits) = (self.ours(request).await, self.gits(request).await.unwrap());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(ours.as_deref().map(text), Some(text(&gits)), "{}", text(request));
        assert!(ours.is_some_and(|ours| ours == gits));
    }

    async fn agree_on_everything(&self) {
        for flags in 0..8 {
            for prefixes in PREFIXES {
                self.agree(&ls_refs(flags, prefixes)).await;
            }
        }
    }
}

const PREFIXES: &[&[&str]] = &[
    &[],
    &[""],
    &["HEAD"],
    &["H", "refs/heads/"],
    &["HEADS", "refs/tags/"],
    &["refs/heads/main"],
    &["refs/heads/m", "refs/heads/main", "refs/heads/", "refs/heads/x"],
    &["refs/tags/v", "refs/heads/a/", "refs/heads/a"],
    &["refs/heads/main/", "refs/nothing/", "main"],
    &["refs/heads/a*", "refs/h?ads", "refs/heads/[am]"],
    &["refs/pull/", "refs/ferrite", "refs/replace/", "refs/pul"],
    &["refs//heads", "refs/../refs/heads", "/refs", "refs/heads/a/b/"],
    &["refs", "zzz"],
];

fn full(name: &str) -> RefName {
    RefName::parse(name.as_bytes()).unwrap()
}

/// Encodes a request of these lines; `""` is the delimiter.
fn request(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let packet = if line.is_empty() { Packet::Delimiter } else { Packet::text(line) };
        packet.encode(&mut bytes).unwrap();
    }
    [bytes.as_slice(), b"0000"].concat()
}

fn ls_refs(flags: u8, prefixes: &[&str]) -> Vec<u8> {
    let prefixes: Vec<_> = prefixes.iter().map(|prefix| format!("ref-prefix {prefix}\n")).collect();
    let mut lines = vec!["command=ls-refs\n", "agent=git/2.47.3-Linux", "object-format=sha1", ""];
    let options = ["peel", "symrefs\n", "unborn"];
    lines.extend(options.iter().enumerate().filter(|(bit, _)| flags & (1 << bit) != 0).map(|(_, option)| option));
    lines.extend(prefixes.iter().map(String::as_str));
    request(&lines)
}

#[tokio::test]
async fn a_repository_without_refs_is_listed_as_by_git() {
    let f = Fixture::new().await;
    f.agree_on_everything().await;
}

#[tokio::test]
async fn refs_are_listed_as_by_git() {
    let f = Fixture::new().await;
    let (one, two) = (f.commits[0], f.commits[1]);
    f.set(&[("refs/heads/a/b", one), ("refs/heads/a-b", two), ("refs/heads/a.b", two), ("refs/heads/a0", one)]).await;
    f.set(&[("refs/tags/v1", f.tags[0]), ("refs/tags/v2", f.tags[1]), ("refs/tags/tree", f.tags[2])]).await;
    f.set(&[("refs/tags/light", one), ("refs/notes/commits", two), ("refs/x", one), ("refs/changes/1/2", one)]).await;
    f.set(&[("refs/pull/1/head", one), ("refs/ferrite/x", one), ("refs/replace/y", one)]).await;
    let odd = RefName::parse(b"refs/heads/odd-\xff").unwrap();
    f.refs.transact(ID, &[RefEdit { name: odd, old: None, new: Some(one) }]).await.unwrap();
    // The default branch does not exist yet.
    f.agree_on_everything().await;
    f.by_hand(&["pack-refs", "--all"]);
    f.set(&[("refs/heads/main", one), ("refs/heads/z", two), ("refs/tags/v3", f.tags[0])]).await;
    f.agree_on_everything().await;
    f.refs.set_head(ID, BranchName::parse(b"z").unwrap()).await.unwrap();
    f.agree_on_everything().await;
    // The header of other git versions, without `fully-peeled`: refs outside `refs/tags` may lack
    // their peeled id.
    let packed = std::fs::read(f.path.join("packed-refs")).unwrap();
    let header = packed.iter().position(|byte| *byte == b'\n').unwrap();
    let packed = [b"# pack-refs with: peeled ", &packed[header..]].concat();
    std::fs::write(f.path.join("packed-refs"), packed).unwrap();
    f.agree_on_everything().await;
}

#[tokio::test]
async fn what_git_may_see_differently_is_left_to_git() {
    let f = Fixture::new().await;
    let (one, all) = (f.commits[0], ls_refs(7, &[]));
    f.set(&[("refs/heads/main", one), ("refs/heads/other", one)]).await;
    let missing = "12".repeat(20);
    let (garbage, symbolic) = ("no id at all\n".to_owned(), "ref: refs/heads/main\n".to_owned());
    for (name, content) in [
        ("refs/heads/broken", garbage.clone()),
        ("refs/heads/empty", String::new()),
        ("refs/heads/bad name", format!("{one}\n")),
        ("refs/heads/symbolic", symbolic.clone()),
        ("refs/heads/lost", format!("{missing}\n")),
        ("refs/pull/1/head", garbage.clone()),
        ("refs/remotes/origin/HEAD", "ref: refs/nowhere\n".to_owned()),
        ("HEAD", format!("{one}\n")),
        ("HEAD", "ref: refs/tags/x\n".to_owned()),
        ("packed-refs", format!("{one} refs/heads/bad name\n")),
        ("packed-refs", format!("{missing} refs/tags/lost\n")),
    ] {
        let file = f.path.join(name);
        let before = std::fs::read(&file).ok();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, content).unwrap();
        // The cache does not notice files written below `refs`.
        f.refs.forget(ID);
        assert_eq!(f.ours(&all).await, None, "{name}");
        match before {
            Some(before) => std::fs::write(&file, before).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        f.refs.forget(ID);
        f.agree(&all).await;
    }
    for name in ["refs/ferrite/pull/1", "refs/ferrite/x"] {
        let file = f.path.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &garbage).unwrap();
        f.refs.forget(ID);
        f.agree(&all).await;
    }
}

#[tokio::test]
async fn only_plain_requests_for_refs_are_understood() {
    let f = Fixture::new().await;
    f.set(&[("refs/heads/main", f.commits[0])]).await;
    for lines in [
        &["command=ls-refs"][..],
        &["agent=x", "command=ls-refs\n", ""],
        &["command=ls-refs", "", "peel", "peel", "symrefs", "unborn", "ref-prefix HEAD", "ref-prefix HEAD"],
    ] {
        f.agree(&request(lines)).await;
    }
    let long = "ref-prefix x".repeat(1000);
    for lines in [
        &[][..],
        &["agent=x"],
        &["command=fetch", "", "done"],
        &["command=ls-refs", "command=ls-refs"],
        &["command=ls-refs", "command=fetch"],
        &["command=ls-refs", "server-option=x"],
        &["command=ls-refs", "session-id=x"],
        &["command=ls-refs", "object-format=sha256"],
        &["command=ls-refs", "agent"],
        &["command=ls-refs", "agent=x\0y"],
        &["command=ls-refs\n\n"],
        &["command=ls-refs", "", "peel", ""],
        &["command=ls-refs", "", "peeled"],
        &["command=ls-refs", "", "peel\0x"],
        &["command=ls-refs", "", "ref-prefix"],
        &["command=ls-refs", "", "ref-prefix a\0b"],
        &["command=ls-refs", "", "ERR no"],
        &["", "command=ls-refs"],
    ] {
        let request = request(lines);
        assert_eq!(Parser::<LsRefsRequest>::default().read(&request), Step::Other, "{lines:?}");
    }
    let whole = ls_refs(7, &[&long]);
    assert_eq!(Parser::<LsRefsRequest>::default().read(&[whole.clone(), whole.clone()].concat()), Step::Other);
    assert_eq!(Parser::<LsRefsRequest>::default().read(&[whole.as_slice(), b"x"].concat()), Step::Other);
    let mut parser = Parser::<LsRefsRequest>::default();
    for end in 0..whole.len() {
        assert_eq!(parser.read(&whole[..end]), Step::More, "{end}");
    }
    assert_eq!(parser.read(&whole), Step::Done);
}

#[tokio::test]
async fn long_responses_come_in_chunks() {
    let f = Fixture::new().await;
    let mut lines: Vec<_> = (0..3000).map(|number| format!("refs/heads/branch/number/{number}\n")).collect();
    lines.sort_unstable();
    let lines: String = lines.iter().map(|name| format!("{} {name}", f.commits[0])).collect();
    std::fs::write(f.path.join("packed-refs"), format!("# pack-refs with: peeled fully-peeled sorted \n{lines}"))
        .unwrap();
    let some = ["refs/heads/branch/number/1", "refs/heads/branch/number/29"];
    for request in [ls_refs(7, &[]), ls_refs(0, &["refs/heads/"]), ls_refs(3, &some)] {
        f.agree(&request).await;
    }
    let table = f.refs.table(ID).await.unwrap();
    let chunks: Vec<_> = LsRefsResponse::new(table, LsRefsRequest::default()).collect();
    assert!(chunks.len() >= 3, "{}", chunks.len());
    assert!(chunks.iter().all(|chunk| chunk.len() < CHUNK_BYTES + 2048));
}

#[tokio::test]
async fn a_tag_that_cannot_be_followed_is_left_to_git() {
    let f = Fixture::new().await;
    let request = ls_refs(1, &[]);
    f.set(&[("refs/tags/v1", f.tags[0])]).await;
    f.agree(&request).await;
    let mut tag = f.tags[0];
    let repo = git2::Repository::open_bare(&f.path).unwrap();
    let who = git2::Signature::new("a", "a@b", &git2::Time::new(0, 0)).unwrap();
    for _ in 0..1001 {
        tag = repo.tag_annotation_create("x", &repo.find_object(tag, None).unwrap(), &who, "m").unwrap();
    }
    f.set(&[("refs/tags/deep", tag)]).await;
    assert_eq!(f.ours(&request).await, None);
}

/// Some versions of git omit such a name once it is packed, so our response is compared with an
/// earlier one of ours.
#[tokio::test]
async fn a_name_that_only_begins_like_a_hidden_one_is_listed() {
    let f = Fixture::new().await;
    f.set(&[("refs/ferrites/1", f.commits[0]), ("refs/ferrite/x", f.commits[0])]).await;
    let request = ls_refs(0, &[]);
    f.agree(&request).await;
    let before = f.ours(&request).await;
    f.by_hand(&["pack-refs", "--all"]);
    assert_eq!(f.ours(&request).await, before);
}

#[tokio::test]
async fn after_any_changes_the_answer_is_still_gits() {
    for seed in 0..3 {
        let f = Fixture::new().await;
        let mut random = StdRng::seed_from_u64(seed);
        let spaces = ["heads", "heads/x", "tags", "tags/t", "notes", "pull"];
        let mut now = std::collections::BTreeMap::new();
        for _ in 0..30 {
            match random.random_range(0..12) {
                0 => f.by_hand(&["pack-refs", "--all"]),
                1 => {
                    let branch = format!("b{}", random.random_range(0..6));
                    f.refs.set_head(ID, BranchName::parse(branch.as_bytes()).unwrap()).await.unwrap();
                }
                2 => f.refs.forget(ID),
                _ => change(&f, &mut random, &spaces, &mut now).await,
            }
            let prefixes = [*PREFIXES.choose(&mut random).unwrap(), &[]];
            for prefixes in prefixes {
                f.agree(&ls_refs(random.random_range(0..8), prefixes)).await;
            }
        }
    }
}

/// Runs one transaction of several refs, some of which may be rejected.
async fn change(f: &Fixture, random: &mut StdRng, spaces: &[&str], now: &mut std::collections::BTreeMap<RefName, Oid>) {
    let mut edits: Vec<RefEdit> = Vec::new();
    for _ in 0..random.random_range(1..6) {
        let (space, number) = (spaces.choose(random).unwrap(), random.random_range(0..6));
        let name = full(&format!("refs/{space}/b{number}{}", if random.random_ratio(1, 20) { "/below" } else { "" }));
        let old = now.get(&name).copied();
        let objects = if space.starts_with("tags") { &f.tags } else { &f.commits };
        let new = if old.is_some() && random.random_ratio(1, 3) { None } else { objects.choose(random).copied() };
        if edits.iter().all(|edit| edit.name != name) {
            edits.push(RefEdit { name, old, new });
        }
    }
    match f.refs.transact(ID, &edits).await {
        Ok(()) => edits.into_iter().for_each(|edit| {
            match edit.new {
                Some(new) => now.insert(edit.name, new),
                None => now.remove(&edit.name),
            };
        }),
        Err(error) => assert!(error.is_refused_transaction(), "{error:?}"),
    }
}
