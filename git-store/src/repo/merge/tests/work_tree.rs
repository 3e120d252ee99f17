//! git in a work tree that sees the objects of the repository.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use git2::Oid;

use super::{ConflictFile, ConflictRange, Conflicts, FileSide, Fixture, LineRange};

/// What the index has of a file that conflicts: base, ours and theirs.
pub(super) type Sides = [Option<FileSide>; 3];

pub(super) struct WorkTree {
    folder: PathBuf,
}

impl WorkTree {
    pub(super) fn new(f: &Fixture) -> Self {
        let folder = f.folder.path().join("work");
        fs::create_dir_all(&folder).unwrap();
        let tree = Self { folder };
        assert!(tree.run(&["init", "-q"]).status.success());
        fs::write(tree.folder.join(".git/objects/info/alternates"), f.path().join("objects").to_str().unwrap())
            .unwrap();
        tree
    }

    /// Runs git with its own defaults.
    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        let mut git = Command::new("git");
        let path = std::env::vars_os().find(|(name, _)| name == "PATH").unwrap_or_default().1;
        git.env_clear().env("PATH", path).env("HOME", "/nonexistent").env("LC_ALL", "C").env("GIT_EDITOR", "true");
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        for role in ["AUTHOR", "COMMITTER"] {
            let identity = [("NAME", "Max"), ("EMAIL", "max@example.com"), ("DATE", "@1700000500 +0000")];
            git.envs(identity.map(|(part, value)| (format!("GIT_{role}_{part}"), value)));
        }
        git.arg("-C").arg(&self.folder).args(arguments).output().unwrap()
    }

    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn id(&self, arguments: &[&str]) -> Oid {
        Oid::from_str(self.text(arguments).trim()).unwrap()
    }

    /// Checks a commit out into an empty folder.
    pub(super) fn check_out(&self, commit: Oid) {
        for entry in fs::read_dir(&self.folder).unwrap().map(Result::unwrap) {
            if entry.file_name() != ".git" {
                remove(&entry.path());
            }
        }
        for name in
            ["index", "index.lock", "rebase-merge", "MERGE_HEAD", "REVERT_HEAD", "CHERRY_PICK_HEAD", "AUTO_MERGE"]
        {
            remove(&self.folder.join(".git").join(name));
        }
        fs::write(self.folder.join(".git/HEAD"), format!("{commit}\n")).unwrap();
        assert!(self.run(&["reset", "-q", "--hard"]).status.success());
    }

    /// Returns the commit that a command makes on `at`, or the conflicts.
    pub(super) fn make(&self, at: Oid, arguments: &[&str]) -> Result<Oid, BTreeMap<String, Sides>> {
        self.try_make(at, arguments).unwrap_or_else(|| panic!("{arguments:?}: git failed"))
    }

    /// The same, or `None` if git stops with a bug of its own: it cannot write the index of some
    /// conflicts after the rename of a folder.
    pub(super) fn try_make(&self, at: Oid, arguments: &[&str]) -> Option<Result<Oid, BTreeMap<String, Sides>>> {
        self.check_out(at);
        let output = self.run(arguments);
        if output.status.success() {
            return Some(Ok(self.id(&["rev-parse", "HEAD"])));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if text.contains("BUG: merge-ort.c") {
            return None;
        }
        assert!(text.contains("CONFLICT") || text.contains("could not apply"), "{arguments:?}: {text}");
        Some(Err(self.unmerged()))
    }

    /// Returns the tree of a squash that has no conflicts.
    pub(super) fn squash(&self, base: Oid, head: Oid) -> Oid {
        self.check_out(base);
        self.text(&["merge", "-q", "--squash", &head.to_string()]);
        self.id(&["write-tree"])
    }

    /// Returns the commit at which a rebase stopped.
    pub(super) fn stopped(&self) -> Oid {
        self.id(&["rev-parse", "REBASE_HEAD"])
    }

    fn unmerged(&self) -> BTreeMap<String, Sides> {
        let mut found = BTreeMap::<String, Sides>::new();
        for line in self.text(&["ls-files", "-u", "-z"]).split_terminator('\0') {
            let (fields, path) = line.split_once('\t').unwrap();
            let fields: Vec<_> = fields.split(' ').collect();
            let side =
                FileSide { mode: u32::from_str_radix(fields[0], 8).unwrap(), id: Oid::from_str(fields[1]).unwrap() };
            let sides = found.entry(without_label(path)).or_default();
            let place = &mut sides[fields[2].parse::<usize>().unwrap() - 1];
            *place = place.or(Some(side));
        }
        found
    }

    /// Returns what `git merge-file --diff3` puts between its marks: ours, base, theirs.
    pub(super) fn marked(&self, versions: [&[u8]; 3]) -> Vec<[Vec<u8>; 3]> {
        let names = ["base", "ours", "theirs"];
        for (name, content) in names.iter().zip(versions) {
            fs::write(self.folder.join(".git").join(name), content).unwrap();
        }
        let mut arguments =
            vec!["merge-file", "-p", "--diff3", "--diff-algorithm=histogram", "-L", "o", "-L", "b", "-L", "t"];
        arguments.extend([".git/ours", ".git/base", ".git/theirs"]);
        let output = self.run(&arguments);
        let (mut found, mut part) = (Vec::<[Vec<u8>; 3]>::new(), None);
        for line in output.stdout.split_inclusive(|byte| *byte == b'\n') {
            match line.get(..7) {
                Some(b"<<<<<<<") => {
                    found.push(<[Vec<u8>; 3]>::default());
                    part = Some(0);
                }
                Some(b"|||||||") => part = Some(1),
                Some(b"=======") => part = Some(2),
                Some(b">>>>>>>") => part = None,
                _ => {
                    if let (Some(part), Some(last)) = (part, found.last_mut()) {
                        last[part].extend_from_slice(line);
                    }
                }
            }
        }
        found
    }
}

fn remove(path: &Path) {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
    drop(if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) });
}

/// git adds names of branches, which differ, to files that it moves out of the way.
fn without_label(path: &str) -> String {
    path.split('~').next().unwrap().to_owned()
}

/// Our conflicts in the form of [`WorkTree::make`].
fn sides(conflicts: &Conflicts) -> BTreeMap<String, Sides> {
    let side = |file: &ConflictFile| [file.base, file.ours, file.theirs];
    let mut found = BTreeMap::<String, Sides>::new();
    for file in conflicts.files.iter().filter(|file| side(file).iter().any(Option::is_some)) {
        let place = found.entry(without_label(std::str::from_utf8(&file.path).unwrap())).or_default();
        for (place, side) in place.iter_mut().zip(side(file)) {
            *place = place.or(side);
        }
    }
    found
}

/// Compares conflicts with those of git. Merged files that are not in the repository have names of
/// branches in them.
pub(super) fn assert_same(f: &Fixture, conflicts: &Conflicts, real: BTreeMap<String, Sides>, what: &str) {
    let odb = f.repo.odb().unwrap();
    let shown = |found: BTreeMap<String, Sides>| -> Vec<_> {
        let id = |side: FileSide| (side.is_submodule() || odb.exists(side.id)).then_some(side.id);
        let shown = |side: Option<FileSide>| side.map(|side| (side.mode, id(side)));
        found.into_iter().map(|(path, sides)| (path, sides.map(shown))).collect()
    };
    let ours = sides(conflicts);
    // What is a file here is a folder there: git shows the one under another name.
    let moved =
        |found: &BTreeMap<String, Sides>| found.values().map(|sides| sides.iter().flatten().count()).sum::<usize>();
    if conflicts.files.iter().any(|file| file.kind == super::ConflictKind::DirectoryFile) {
        assert_eq!(moved(&ours), moved(&real), "{what}: {conflicts:?} {real:?}");
        return;
    }
    assert_eq!(shown(ours), shown(real), "{what}: {conflicts:?}");
}

/// Returns whether git calls a merge with these conflicts clean, and commits the marks.
pub(super) fn are_committed(conflicts: &Conflicts) -> bool {
    let is_committed = |file: &ConflictFile| {
        file.kind == super::ConflictKind::RenameRename
            && [file.base, file.ours, file.theirs].iter().all(Option::is_none)
    };
    conflicts.files.iter().all(is_committed)
}

/// Returns the text of lines.
pub(super) fn text_of(content: &[u8], range: LineRange) -> Vec<u8> {
    let first = if range.count == 0 { range.line } else { range.line - 1 };
    let lines = content.split_inclusive(|byte| *byte == b'\n').skip(first as usize).take(range.count as usize);
    lines.flatten().copied().collect()
}

/// Compares the ranges of a file with what git marks.
pub(super) fn assert_marked(work: &WorkTree, f: &Fixture, file: &ConflictFile, what: &str) {
    let (Some(ours), Some(theirs)) = (file.ours, file.theirs) else { return };
    let content = |side: Option<FileSide>| match side {
        None => Some(Vec::new()),
        Some(side) => f.repo.find_blob(side.id).ok().map(|blob| blob.content().to_vec()),
    };
    let (Some(base), Some(ours), Some(theirs)) = (content(file.base), content(Some(ours)), content(Some(theirs)))
    else {
        return;
    };
    let marked = work.marked([&base, &ours, &theirs]);
    let text = |range: &ConflictRange| {
        [text_of(&ours, range.ours), text_of(&base, range.base), text_of(&theirs, range.theirs)]
    };
    // git ends a last line without a line feed before a mark.
    let unended = |text: Vec<u8>| {
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        String::from_utf8_lossy(text.strip_suffix(b"\r").unwrap_or(text)).into_owned()
    };
    let found: Vec<_> = file.ranges.iter().map(|range| text(range).map(unended)).collect();
    let marked: Vec<_> = marked.into_iter().map(|parts| parts.map(unended)).collect();
    assert_eq!(found, marked, "{what}: {:?} {:?}", String::from_utf8_lossy(&file.path), file.ranges);
}
