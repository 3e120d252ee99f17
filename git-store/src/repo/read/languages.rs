//! Counts the bytes in each programming and markup language of a tree, by names and sizes. No
//! content is read.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use git2::{Oid, Repository};

use super::{
    deadline::Deadline,
    entry::EntryKind,
    tree::{Step, WalkEntry, blob_size, walk},
};
use crate::{repo::objects, types::error::GitError};

/// Maximum number of entries that are counted, in git's order. Entries of skipped directories are
/// not among them.
pub const MAX_COUNTED_ENTRIES: usize = 200_000;

/// Directories of code from elsewhere, of output and of documentation, in lower case.
const SKIPPED_FOLDERS: [&str; 21] = [
    "3rd-party",
    "3rdparty",
    "bower_components",
    "cache",
    "dist",
    "documentation",
    "extern",
    "external",
    "externals",
    "godeps",
    "javadoc",
    "mathjax",
    "node_modules",
    "pods",
    "testdata",
    "third-party",
    "third_party",
    "thirdparty",
    "vendor",
    "vendored",
    "vendors",
];
/// The same, but only in the root.
const SKIPPED_ROOT_FOLDERS: [&str; 12] = [
    "debian",
    "demo",
    "demos",
    "dependencies",
    "deps",
    "doc",
    "docs",
    "example",
    "examples",
    "man",
    "sample",
    "samples",
];
/// Scripts of build tools that are copied into repositories, in lower case.
const SKIPPED_FILES: [&str; 6] =
    ["cpplint.py", "dotnet-install.ps1", "dotnet-install.sh", "erlang.mk", "gradlew.bat", "mvnw.cmd"];
/// Ends of the names of generated and minified files, in lower case.
const SKIPPED_ENDS: [&str; 19] = [
    "-min.css",
    "-min.js",
    ".bundle.js",
    ".d.ts",
    ".designer.cs",
    ".designer.vb",
    ".freezed.dart",
    ".g.cs",
    ".g.dart",
    ".generated.cs",
    ".min.css",
    ".min.js",
    ".pb.cc",
    ".pb.go",
    ".pb.h",
    "_pb.js",
    "_pb2.py",
    "_pb2_grpc.py",
    "_string.go",
];
/// Libraries for web pages: a script or stylesheet whose name starts with one of these.
const SKIPPED_LIBRARIES: [&str; 6] = ["bootstrap", "font-awesome", "fontawesome", "jquery", "mootools", "normalize"];

/// The languages, see the comment in the file.
const TABLE: &str = include_str!("languages.txt");

struct Languages {
    /// By extension in lower case, such as `rs` or `blade.php`.
    by_extension: HashMap<&'static str, &'static str>,
    by_name: HashMap<&'static str, &'static str>,
}

static LANGUAGES: LazyLock<Languages> = LazyLock::new(|| {
    let mut languages = Languages { by_extension: HashMap::new(), by_name: HashMap::new() };
    for line in TABLE.lines().filter(|line| !line.starts_with("# ")) {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        let (language, extensions, names) = (next(), next(), next());
        languages.by_extension.extend(extensions.split_whitespace().map(|extension| (extension, language)));
        languages.by_name.extend(names.split_whitespace().map(|name| (name, language)));
    }
    languages
});

/// The languages of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanguageCounts {
    /// Bytes by language. None is zero.
    pub bytes: BTreeMap<String, u64>,
    /// Whether entries were left out, because there are more than [`MAX_COUNTED_ENTRIES`] or the
    /// tree is beyond another limit.
    pub is_truncated: bool,
}

impl LanguageCounts {
    /// Returns the languages, the one with most bytes first.
    #[must_use]
    pub fn sorted(&self) -> Vec<(&str, u64)> {
        let mut languages: Vec<_> = self.bytes.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
        // Stable: names are sorted among equals.
        languages.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        languages
    }

    /// Returns the language with most bytes; empty if there is none.
    #[must_use]
    pub fn largest(&self) -> &str {
        self.sorted().first().map_or("", |(name, _)| name)
    }
}

/// Counts the languages in the tree of a commit.
///
/// # Errors
/// Those of the deadline, and of objects that are missing.
pub fn languages(repo: &Repository, commit: Oid, deadline: &Deadline) -> Result<LanguageCounts, GitError> {
    count(repo, commit, MAX_COUNTED_ENTRIES, deadline)
}

fn count(repo: &Repository, commit: Oid, max_entries: usize, deadline: &Deadline) -> Result<LanguageCounts, GitError> {
    let odb = repo.odb()?;
    let (mut bytes, mut is_truncated, mut entries) = (BTreeMap::<&str, u64>::new(), false, 0);
    let walked = objects::tree_of(repo, commit).and_then(|tree| {
        walk(repo, tree, |entry| {
            deadline.check()?;
            if entries == max_entries {
                is_truncated = true;
                return Ok(Step::End);
            }
            entries += 1;
            match EntryKind::of(entry.mode) {
                EntryKind::Directory if is_skipped_folder(entry) => Ok(Step::Over),
                EntryKind::Directory => Ok(Step::Into),
                EntryKind::Symlink | EntryKind::Submodule => Ok(Step::Over),
                EntryKind::File => {
                    if let Some(language) = language_of(entry.name) {
                        let size = blob_size(&odb, entry.id)?;
                        let sum = bytes.entry(language).or_default();
                        *sum = sum.saturating_add(size);
                    }
                    Ok(Step::Over)
                }
            }
        })
    });
    match walked {
        Ok(()) => {}
        // What was read before is counted, in git's order.
        Err(error) if error.is_unreadable() => is_truncated = true,
        Err(error) => return Err(error),
    }
    let bytes = bytes.into_iter().filter(|(_, bytes)| *bytes > 0);
    Ok(LanguageCounts { bytes: bytes.map(|(name, bytes)| (name.to_owned(), bytes)).collect(), is_truncated })
}

fn is_skipped_folder(entry: &WalkEntry<'_>) -> bool {
    let Ok(name) = std::str::from_utf8(entry.name) else { return false };
    let name = name.to_ascii_lowercase();
    let is_in_root = entry.path.len() == entry.name.len();
    name.starts_with('.')
        || SKIPPED_FOLDERS.contains(&name.as_str())
        || (is_in_root && SKIPPED_ROOT_FOLDERS.contains(&name.as_str()))
}

/// Returns the language of a file, by its name; `None` if it has none or is not counted.
fn language_of(name: &[u8]) -> Option<&'static str> {
    let name = std::str::from_utf8(name).ok().filter(|name| !name.starts_with('.'))?;
    let lower = name.to_ascii_lowercase();
    if is_skipped_file(&lower) {
        return None;
    }
    if let Some(language) = LANGUAGES.by_name.get(name).copied() {
        return Some(language);
    }
    // The longest known extension of at most two parts: that of `a.b.c` is `b.c`, or else `c`.
    let (stem, last) = lower.rsplit_once('.')?;
    let before = stem.rsplit_once('.').map(|(_, before)| format!("{before}.{last}"));
    let by_extension = &LANGUAGES.by_extension;
    before.and_then(|both| by_extension.get(both.as_str())).or_else(|| by_extension.get(last)).copied()
}

fn is_skipped_file(lower: &str) -> bool {
    let is_for_pages = || [".js", ".css", ".scss", ".less"].iter().any(|end| lower.ends_with(end));
    SKIPPED_FILES.contains(&lower)
        || SKIPPED_ENDS.iter().any(|end| lower.ends_with(end))
        || (SKIPPED_LIBRARIES.iter().any(|start| lower.starts_with(start)) && is_for_pages())
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use super::*;

    #[test]
    fn a_file_has_the_language_of_its_name() {
        for (name, expected) in [
            ("main.rs", Some("Rust")),
            ("MAIN.RS", Some("Rust")),
            ("a.b.tsx", Some("TypeScript")),
            ("page.blade.php", Some("Blade")),
            ("page.php", Some("PHP")),
            ("Makefile", Some("Makefile")),
            ("CMakeLists.txt", Some("CMake")),
            ("Dockerfile", Some("Dockerfile")),
            ("a.h", Some("C")),
            ("a.m", Some("Objective-C")),
            ("build.zig.zon", Some("Zig")),
            // Data, prose, and names without an extension.
            ("a.json", None),
            ("README.md", None),
            ("notes.txt", None),
            ("makefile.txt", None),
            ("rs", None),
            // Configuration of tools, generated and minified files.
            (".profile.sh", None),
            ("a.min.js", None),
            ("types.d.ts", None),
            ("a.pb.go", None),
            ("jQuery-3.7.js", None),
            ("jquery_helper.rb", Some("Ruby")),
        ] {
            assert_eq!(language_of(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(language_of(b"\xff.rs"), None);
    }

    #[test]
    fn the_table_names_everything_once() {
        let lines: Vec<_> = TABLE.lines().filter(|line| !line.starts_with("# ")).collect();
        let words: Vec<_> =
            lines.iter().flat_map(|line| line.split('\t').skip(1)).flat_map(str::split_whitespace).collect();
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len());
        assert_eq!(LANGUAGES.by_extension.len() + LANGUAGES.by_name.len(), words.len());
        assert!(LANGUAGES.by_extension.keys().all(|extension| *extension == extension.to_ascii_lowercase()));
        assert!(lines.iter().all(|line| matches!(line.split('\t').count(), 2 | 3)), "a line without a tab");
    }

    struct Fixture {
        _folder: tempfile::TempDir,
        repo: Repository,
        commit: Oid,
    }

    /// Commits files of the given sizes.
    fn commit(files: &[(&str, usize)]) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        let commit = {
            let mut index = git2::Index::new().unwrap();
            for (path, size) in files {
                let id = repo.blob(&vec![b'x'; *size]).unwrap();
                let time = git2::IndexTime::new(0, 0);
                let mode = if path.ends_with("-link.rs") { 0o120_000 } else { 0o100_644 };
                index
                    .add(&git2::IndexEntry {
                        ctime: time,
                        mtime: time,
                        dev: 0,
                        ino: 0,
                        mode,
                        uid: 0,
                        gid: 0,
                        file_size: 0,
                        id,
                        flags: 0,
                        flags_extended: 0,
                        path: path.as_bytes().to_vec(),
                    })
                    .unwrap();
            }
            let tree = repo.find_tree(index.write_tree_to(&repo).unwrap()).unwrap();
            let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
            repo.commit(None, &who, &who, "m", &tree, &[]).unwrap()
        };
        Fixture { _folder: folder, repo, commit }
    }

    #[test]
    fn bytes_are_summed_by_language_without_foreign_files() {
        let fixture = commit(&[
            ("src/main.rs", 10),
            ("src/deep/lib.rs", 5),
            ("src/docs/guide.rs", 3),
            ("src/a-link.rs", 7),
            ("src/empty.go", 0),
            ("web/app.js", 18),
            ("web/page.html", 6),
            ("docs/example.rs", 100),
            (".github/script.py", 100),
            ("vendor/big.c", 100),
            ("web/node_modules/x/index.js", 100),
            ("README.md", 100),
            ("package.json", 100),
        ]);
        let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
        let counts = languages(&fixture.repo, fixture.commit, &deadline).unwrap();
        assert_eq!(counts.sorted(), [("JavaScript", 18), ("Rust", 18), ("HTML", 6)]);
        assert_eq!((counts.largest(), counts.is_truncated), ("JavaScript", false));
        assert_eq!(LanguageCounts::default().largest(), "");
    }

    #[test]
    fn a_count_stops_at_its_bound_in_the_order_of_the_tree() {
        let fixture = commit(&[("a.rs", 1), ("b/c.rs", 2), ("b/d.rs", 4), ("e.rs", 8)]);
        let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
        // Five entries: `b` is one.
        for (max_entries, bytes, is_truncated) in [(1, 1, true), (3, 3, true), (4, 7, true), (5, 15, false)] {
            let counts = count(&fixture.repo, fixture.commit, max_entries, &deadline).unwrap();
            assert_eq!((counts.sorted(), counts.is_truncated), (vec![("Rust", bytes)], is_truncated), "{max_entries}");
        }
        let (over, _waiting) = Deadline::start(Duration::ZERO);
        assert!(matches!(languages(&fixture.repo, fixture.commit, &over), Err(GitError::TimedOut { .. })));
    }
}
