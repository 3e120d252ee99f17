use std::time::Duration;

use git2::{FileMode, Index, IndexEntry, IndexTime, Oid, Repository, Signature, Time};

use super::super::{
    describe::{MAX_DESCRIBED_COMMITS, MAX_DESCRIBED_UPDATES},
    *,
};
use crate::{repo::refs::load, types::error::GitError};

const ZERO: Oid = Oid::ZERO_SHA1;
const LIMITS: DescriptionLimits = DescriptionLimits { commits: 20, paths: 100, message_bytes: 1000 };

struct Fixture {
    _folder: tempfile::TempDir,
    repo: Repository,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        repo.set_head("refs/heads/main").unwrap();
        Self { _folder: folder, repo }
    }

    /// Writes a tree from paths and contents. 40 digits are a submodule's commit.
    fn tree(&self, files: &[(&[u8], &str)]) -> Oid {
        let mut index = Index::new().unwrap();
        for (path, content) in files {
            let (mode, id) = match Oid::from_str(content) {
                Ok(id) if content.len() == 40 => (FileMode::Commit, id),
                _ => (FileMode::Blob, self.repo.blob(content.as_bytes()).unwrap()),
            };
            let time = IndexTime::new(0, 0);
            index
                .add(&IndexEntry {
                    ctime: time,
                    mtime: time,
                    dev: 0,
                    ino: 0,
                    mode: u32::try_from(i32::from(mode)).unwrap(),
                    uid: 0,
                    gid: 0,
                    file_size: 0,
                    id,
                    flags: 0,
                    flags_extended: 0,
                    path: path.to_vec(),
                })
                .unwrap();
        }
        index.write_tree_to(&self.repo).unwrap()
    }

    fn commit(&self, seconds: i64, message: &str, parents: &[Oid], files: &[(&str, &str)]) -> Oid {
        let files: Vec<_> = files.iter().map(|(path, content)| (path.as_bytes(), *content)).collect();
        self.commit_tree(seconds, message, parents, self.tree(&files))
    }

    fn commit_tree(&self, seconds: i64, message: &str, parents: &[Oid], tree: Oid) -> Oid {
        let who = Signature::new("Ada", "ada@example.com", &Time::new(seconds, 60)).unwrap();
        let tree = self.repo.find_tree(tree).unwrap();
        let parents: Vec<_> = parents.iter().map(|id| self.repo.find_commit(*id).unwrap()).collect();
        self.repo.commit(None, &who, &who, message, &tree, &parents.iter().collect::<Vec<_>>()).unwrap()
    }

    fn chain(&self, count: i64, parent: Option<Oid>) -> Vec<Oid> {
        let mut ids: Vec<Oid> = Vec::new();
        for index in 0..count {
            let parent: Vec<_> = ids.last().copied().or(parent).into_iter().collect();
            ids.push(self.commit(index + 1, &format!("commit {index}\n"), &parent, &[]));
        }
        ids
    }

    fn branch(&self, name: &str, id: Oid) {
        self.repo.reference(&format!("refs/heads/{name}"), id, true, "").unwrap();
    }

    fn describe(&self, request: &DescriptionRequest) -> Result<Descriptions, GitError> {
        let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
        describe(&self.repo, &load(&self.repo).unwrap(), request, &deadline)
    }

    fn updates(&self, refs: &[DescribedRef]) -> Vec<UpdateDescription> {
        self.describe(&request(refs, LIMITS)).unwrap().updates
    }

    fn update(&self, name: &str, old: Oid, new: Oid) -> UpdateDescription {
        self.updates(&[changed(name, old, new)]).remove(0)
    }
}

fn changed(name: &str, old: Oid, new: Oid) -> DescribedRef {
    DescribedRef { name: format!("refs/heads/{name}").into_bytes(), old, new }
}

fn request(refs: &[DescribedRef], limits: DescriptionLimits) -> DescriptionRequest {
    DescriptionRequest { refs: refs.to_vec(), with_head: false, limits, allows_missing: true }
}

fn ids(update: &UpdateDescription) -> Vec<Oid> {
    update.commits.iter().map(|commit| commit.id).collect()
}

#[test]
fn a_commit_has_its_texts_and_the_paths_that_differ_from_its_parent() {
    let fixture = Fixture::new();
    let submodule = "1".repeat(40);
    let first =
        fixture.commit(1, "first\n", &[], &[("a.txt", "a"), ("dir/b.txt", "b"), ("dir/sub/c", "c"), ("x", "x")]);
    let files =
        [("a.txt", "changed"), ("dir/sub/c", "c"), ("moved.txt", "b"), ("x/y", "x"), ("module", submodule.as_str())];
    let second = fixture.commit(2, "caf\u{e9}\n\nbody\n", &[first], &files);
    let update = fixture.update("main", ZERO, second);
    assert_eq!((ids(&update), update.total, update.is_missing), (vec![second, first], 2, false));
    let newest = &update.commits[0];
    assert_eq!((newest.message.as_str(), newest.is_message_cut), ("caf\u{e9}\n\nbody\n", false));
    let ada = Person { name: "Ada".into(), email: "ada@example.com".into(), seconds: 2 };
    assert_eq!((&newest.author, &newest.committer), (&ada, &ada));
    assert_eq!(newest.paths.added, ["module", "moved.txt", "x/y"]);
    assert_eq!(newest.paths.removed, ["dir/b.txt", "x"]);
    assert_eq!((newest.paths.modified.as_slice(), newest.paths.is_cut), (&["a.txt".to_owned()][..], false));
    let oldest = &update.commits[1].paths;
    assert_eq!(oldest.added, ["a.txt", "dir/b.txt", "dir/sub/c", "x"]);
    assert!(oldest.removed.is_empty() && oldest.modified.is_empty());
}

#[test]
fn a_merge_has_no_paths_and_bytes_that_are_no_text_are_replaced() {
    let fixture = Fixture::new();
    let (left, right) = (fixture.commit(1, "left", &[], &[("l", "l")]), fixture.commit(2, "right", &[], &[("r", "r")]));
    let merge = fixture.commit(3, "merge", &[left, right], &[("l", "l"), ("r", "r")]);
    let tree = fixture.tree(&[(b"caf\xe9", "x")]);
    let last = fixture.commit_tree(4, "last", &[merge], tree);
    let update = fixture.update("main", ZERO, last);
    assert_eq!((ids(&update), update.total), (vec![last, merge, right, left], 4));
    assert_eq!(update.commits[0].paths.added, ["caf\u{fffd}"]);
    assert_eq!(update.commits[1].paths, ChangedPaths::default());
}

#[test]
fn a_new_branch_has_the_commits_that_no_other_branch_has_but_at_least_the_newest() {
    let fixture = Fixture::new();
    let main = fixture.chain(5, None);
    let topic = fixture.chain(3, Some(main[1]));
    fixture.branch("main", main[4]);
    for name in ["topic", "topic-2"] {
        fixture.branch("topic", topic[2]);
        let update = fixture.update(name, ZERO, topic[2]);
        let expected = if name == "topic" { vec![topic[2], topic[1], topic[0]] } else { vec![topic[2]] };
        assert_eq!((ids(&update), update.total), (expected.clone(), expected.len()), "{name}");
    }
    let update = fixture.update("old", ZERO, main[2]);
    assert_eq!((ids(&update), update.total), (vec![main[2]], 1));
    // Of branches created together, the first gets the commits.
    fixture.branch("next", topic[2]);
    let updates = fixture.updates(&[changed("topic", ZERO, topic[1]), changed("next", ZERO, topic[2])]);
    assert_eq!([ids(&updates[0]), ids(&updates[1])], [vec![topic[1], topic[0]], vec![topic[2]]]);
}

#[test]
fn an_update_has_what_the_old_end_has_not_and_a_deletion_has_nothing() {
    let fixture = Fixture::new();
    let main = fixture.chain(5, None);
    let forced = fixture.chain(2, Some(main[1]));
    fixture.branch("main", forced[1]);
    assert_eq!(ids(&fixture.update("main", main[1], main[4])), [main[4], main[3], main[2]]);
    assert_eq!(ids(&fixture.update("main", main[4], forced[1])), [forced[1], forced[0]]);
    let back = fixture.update("main", main[4], main[1]);
    assert_eq!((ids(&back), back.total, back.head.map(|head| head.id)), (vec![], 0, Some(main[1])));
    for (old, new) in [(main[4], ZERO), (ZERO, ZERO)] {
        assert_eq!(fixture.update("main", old, new), UpdateDescription::default(), "{old} {new}");
    }
    let tag = fixture.repo.find_object(main[4], None).unwrap();
    let who = Signature::new("Ada", "ada@example.com", &Time::new(1, 0)).unwrap();
    let tag = fixture.repo.tag_annotation_create("v1", &tag, &who, "one").unwrap();
    assert_eq!(ids(&fixture.update("main", main[2], tag)), [main[4], main[3]]);
    let blob = fixture.repo.blob(b"x").unwrap();
    assert_eq!(fixture.update("main", main[2], blob), UpdateDescription::default());
}

#[test]
fn what_is_gone_is_told_by_a_flag_beside_the_other_updates() {
    let fixture = Fixture::new();
    let main = fixture.chain(2, None);
    let gone = Oid::from_str(&"a".repeat(40)).unwrap();
    let refs = [changed("a", gone, main[1]), changed("b", main[0], main[1]), changed("c", main[0], gone)];
    let updates = fixture.updates(&refs);
    assert_eq!(updates.iter().map(|update| update.is_missing).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!([updates[0].commits.len(), updates[1].commits.len(), updates[2].commits.len()], [0, 1, 0]);
    let strict = DescriptionRequest { allows_missing: false, ..request(&refs, LIMITS) };
    assert!(fixture.describe(&strict).unwrap_err().is_missing_object());
}

#[test]
fn the_head_is_the_newest_commit_of_the_default_branch() {
    let fixture = Fixture::new();
    let head = |fixture: &Fixture| {
        fixture.describe(&DescriptionRequest { with_head: true, ..request(&[], LIMITS) }).unwrap().head
    };
    assert_eq!(head(&fixture), None);
    let main = fixture.chain(2, None);
    fixture.branch("other", main[1]);
    assert_eq!(head(&fixture), None);
    fixture.branch("main", main[0]);
    let first = head(&fixture).unwrap();
    assert_eq!((first.branch.as_bytes(), first.commit.id, first.parent), (&b"main"[..], main[0], None));
    fixture.branch("main", main[1]);
    assert_eq!(head(&fixture).unwrap().parent, Some(main[0]));
}

#[test]
fn commits_paths_and_messages_are_limited_and_cut_ones_are_marked() {
    let fixture = Fixture::new();
    let main = fixture.chain(30, None);
    let update = fixture.update("main", ZERO, main[29]);
    assert_eq!((update.commits.len(), update.total, update.commits[0].id), (20, 30, main[29]));
    let names: Vec<_> = (0..150).map(|index| format!("dir{}/{index:03}", index % 3)).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let many = fixture.commit(40, &"\u{4e16}".repeat(1000), &[main[29]], &files);
    let none = fixture.commit(41, "none", &[many], &[("one", "x")]);
    let update = fixture.update("main", main[29], none);
    let [last, first] = update.commits.as_slice() else { panic!("{update:?}") };
    assert_eq!((first.paths.added.len(), first.paths.is_cut), (100, true));
    assert_eq!((first.message.as_str(), first.is_message_cut), ("\u{4e16}".repeat(333).as_str(), true));
    assert_eq!(
        (last.paths.added.as_slice(), last.paths.removed.len(), last.paths.is_cut),
        (&["one".into()][..], 100, true)
    );
}

#[test]
fn the_largest_response_has_at_most_two_mebibytes() {
    let fixture = Fixture::new();
    let long = "\u{1f980}".repeat(1000);
    let mut refs = Vec::new();
    for update in 0..MAX_DESCRIBED_UPDATES {
        let names: Vec<_> = (0..40).map(|index| format!("{update}/{}{index}", "x".repeat(200))).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let tree = fixture.tree(&files.iter().map(|(name, text)| (name.as_bytes(), *text)).collect::<Vec<_>>());
        let empty = fixture.tree(&[]);
        let mut parent = Vec::new();
        for index in 0..MAX_DESCRIBED_COMMITS {
            let tree = if index % 2 == 0 { tree } else { empty };
            parent = vec![fixture.commit_tree(i64::try_from(update * 100 + index).unwrap(), &long, &parent, tree)];
        }
        refs.push(changed(&format!("b{update}"), ZERO, parent[0]));
    }
    let limits = DescriptionLimits { commits: 20, paths: 1000, message_bytes: 64 << 10 };
    let updates = fixture.describe(&request(&refs, limits)).unwrap().updates;
    let path_bytes = |paths: &[String]| paths.iter().map(|path| path.len() + 4).sum::<usize>();
    let bytes: usize = updates
        .iter()
        .flat_map(|update| &update.commits)
        .map(|commit| {
            let ChangedPaths { added, removed, modified, .. } = &commit.paths;
            128 + 36 + commit.message.len() + path_bytes(added) + path_bytes(removed) + path_bytes(modified)
        })
        .sum();
    assert!(bytes <= 2 << 20 && bytes > 1 << 20, "{bytes}");
    assert!(updates.iter().all(|update| update.commits.len() == 20 && update.total == 20));
    assert!(
        updates.iter().flat_map(|update| &update.commits).all(|commit| commit.is_message_cut && commit.paths.is_cut)
    );
}
