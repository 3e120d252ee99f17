//! Checks two rules of the source tree: a noun has the same name in every layer, and each layer has
//! one file for it, neither tiny nor long.
//!
//! Tests and test support are ignored: files named `tests` or `testing`, and everything below such
//! folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Allowed lines of a file, without its test module.
const LINES: RangeInclusive<usize> = 30..=500;
/// A shorter `mod.rs` only wires.
const MIN_CODE_LINES: usize = 40;
/// Allowed files in the folder of a noun.
const FILES: RangeInclusive<usize> = 2..=4;
/// Files that wire others and may be short.
const WIRING: [&str; 3] = ["mod.rs", "lib.rs", "main.rs"];
/// Folders of a service with one file or folder per noun.
const LAYERS: [&str; 3] = ["rpc", "store", "db"];
/// Forbidden names of files and folders, in the singular, each with the name to use.
const NAMES: [(&str, &str); 9] = [
    ("key", "public_keys, deploy_keys or key_fingerprints"),
    ("migration", "imports"),
    ("org", "organizations"),
    ("relation", "stars or watches"),
    ("repo", "repositories"),
    ("repository_migration", "imports"),
    ("starred", "stars"),
    ("subscription", "watches"),
    ("tracker", "issue_trackers"),
];

/// Files with a forbidden name. This list only shrinks.
const MISNAMED: &[&str] = &[];

/// Files that are too short, each with the reason why it stands alone. This list only shrinks.
const SHORT: &[&str] = &[
    "git-svc/src/http/query.rs",          // shared by five HTTP handlers
    "hook-svc/src/secrets.rs",            // shared by wiring and store
    "hook-svc/src/telemetry.rs",          // one per service, see architecture.md
    "issue-svc/src/telemetry.rs",         // one per service, see architecture.md
    "kit/core/src/panic.rs",              // shared by three crates
    "proto/src/asset.rs",                 // named by gateway/src/api, as raw.rs
    "proto/src/metadata.rs",              // names shared by all crates
    "proto/src/raw.rs",                   // shared by gateway and git-svc
    "repo-svc/src/model/collaborator.rs", // shared by models, store, RPCs
    "repo-svc/src/model/git_store.rs",    // shared by admin, store, RPCs
    "repo-svc/src/telemetry.rs",          // one per service, see architecture.md
    "src/password.rs",                    // shared by four commands
];

/// Faults by path, each with what to do.
type Faults = BTreeMap<String, String>;

/// Adds the files below `folder` with the extension, as paths from the repository root.
fn add_files(folder: &Path, extension: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.file_stem().is_some_and(|name| name == "tests" || name == "testing") {
            continue;
        }
        if path.is_dir() {
            add_files(&path, extension, found);
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path.strip_prefix(root()).expect("it is below the root").display().to_string());
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Line count of every production file.
fn sources() -> BTreeMap<String, usize> {
    let folders = [root().to_owned(), root().join("kit")].into_iter().flat_map(|folder| {
        let entries = fs::read_dir(folder).expect("the folder can be read");
        entries.map(|entry| entry.expect("the folder can be read").path())
    });
    let crates: Vec<PathBuf> =
        folders.chain([root().to_owned()]).filter(|path| path.join("Cargo.toml").is_file()).collect();
    let mut files = Vec::new();
    for folder in crates.iter().map(|path| path.join("src")).filter(|folder| folder.is_dir()) {
        add_files(&folder, "rs", &mut files);
    }
    let count = |path: &String| lines(&fs::read_to_string(root().join(path)).expect("the file can be read"));
    files.into_iter().map(|path| (path.clone(), count(&path))).collect()
}

/// Lines of a file, without a test module at its end.
fn lines(text: &str) -> usize {
    let code = match text.rsplit_once("#[cfg(test)]\nmod tests {\n") {
        Some((code, tests)) if tests.trim_end().find("\n}") == Some(tests.trim_end().len() - 2) => code,
        _ => text,
    };
    code.trim_end().lines().count()
}

/// The noun of a service's file: path of the layer and name.
fn noun(path: &str) -> Option<String> {
    let parts: Vec<_> = path.split('/').collect();
    let [service, "src", layer, noun, ..] = parts[..] else { return None };
    let is_layer = service.ends_with("-svc") && LAYERS.contains(&layer);
    is_layer.then(|| format!("{service}/src/{layer}/{}", noun.trim_end_matches(".rs")))
}

/// Faults in the names of files and folders.
fn misnamed<'a>(paths: impl Iterator<Item = &'a String>) -> Faults {
    let advice = |path: &str| {
        let names = path.rsplit('/').take(2).map(|part| part.split('.').next().unwrap_or(part));
        let singular: Vec<_> = names.map(|name| name.strip_suffix('s').unwrap_or(name)).collect();
        let (_, right) = NAMES.iter().find(|(wrong, _)| singular.contains(wrong))?;
        Some(format!("name it as the contract does: {right}"))
    };
    paths.filter_map(|path| Some((path.clone(), advice(path)?))).collect()
}

fn short(files: &BTreeMap<String, usize>) -> Faults {
    let may_be_short =
        |path: &str| path.contains("/bin/") || WIRING.iter().any(|name| path.ends_with(&format!("/{name}")));
    let advice = |lines| {
        format!("{lines} lines, fewer than {}: merge it into the file of its noun or its caller", LINES.start())
    };
    let short = files.iter().filter(|(path, lines)| *lines < LINES.start() && !may_be_short(path));
    short.map(|(path, lines)| (path.clone(), advice(lines))).collect()
}

fn long(files: &BTreeMap<String, usize>) -> Faults {
    let advice = |lines| format!("{lines} lines, more than {}: make it a folder of two to four files", LINES.end());
    let long = files.iter().filter(|(_, lines)| *lines > LINES.end());
    long.map(|(path, lines)| (path.clone(), advice(lines))).collect()
}

/// Nouns with too few or too many files. A wiring `mod.rs` does not count; a file beside the folder
/// with the noun's name does.
fn crowded(files: &BTreeMap<String, usize>) -> Faults {
    let mut nouns: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, lines) in files {
        if let Some(noun) = noun(path).filter(|_| !path.ends_with("/mod.rs") || *lines >= MIN_CODE_LINES) {
            nouns.entry(noun).or_default().push(path);
        }
    }
    let has_folder = |noun: &str, paths: &[&str]| paths.iter().any(|path| path.starts_with(&format!("{noun}/")));
    nouns.retain(|noun, paths| has_folder(noun, paths) && !FILES.contains(&paths.len()));
    let advice =
        |count| format!("{count} files: a noun is one file, or a folder of {} to {}", FILES.start(), FILES.end());
    nouns.into_iter().map(|(noun, paths)| (noun, advice(paths.len()))).collect()
}

/// Faults that are not exceptions, and exceptions that are no longer faults.
fn judge(faults: &Faults, exceptions: &[&str]) -> Vec<String> {
    let excepted: BTreeSet<_> = exceptions.iter().copied().collect();
    let open = faults.iter().filter(|(path, _)| !excepted.contains(path.as_str()));
    let stale = excepted.iter().filter(|path| !faults.contains_key(**path));
    let open = open.map(|(path, advice)| format!("{path}: {advice}"));
    open.chain(stale.map(|path| format!("{path}: remove this exception, it is no longer needed"))).collect()
}

#[test]
fn a_noun_has_one_name() {
    let mut contracts = Vec::new();
    add_files(&root().join("proto/ferrite"), "proto", &mut contracts);
    let files = sources();
    let faults = misnamed(contracts.iter().chain(files.keys().filter(|path| noun(path).is_some())));
    let faults = judge(&faults, MISNAMED);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_noun_has_one_file_or_a_small_folder() {
    let files = sources();
    let faults = [judge(&long(&files), &[]), judge(&crowded(&files), &[]), judge(&short(&files), SHORT)].concat();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_bench_is_declared_and_has_a_target_of_make() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("the file can be read");
    let (manifest, makefile) = (read("benches/Cargo.toml"), read("Makefile"));
    let benches = fs::read_dir(root().join("benches/benches")).expect("the folder can be read");
    let names: Vec<_> = benches.map(|entry| entry.expect("the folder can be read").file_name()).collect();
    assert!(!names.is_empty());
    for name in names {
        let name = name.to_string_lossy();
        let entry = format!("name = \"{name}\"\nharness = false\n");
        assert!(manifest.contains(&entry), "{name} has no entry in benches/Cargo.toml");
        assert!(makefile.contains(&format!("$(BENCH) {name} ")), "no target of make runs {name}");
    }
}

#[test]
fn every_black_box_test_is_a_module() {
    let folder = root().join("tests/blackbox");
    let main = fs::read_to_string(folder.join("main.rs")).unwrap();
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let modules = paths.filter(|path| path.extension().is_some() || path.join("mod.rs").exists());
    let names = modules.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let forgotten: Vec<_> = names.filter(|name| name != "main" && !main.contains(&format!("mod {name};\n"))).collect();
    assert!(forgotten.is_empty(), "not in tests/blackbox/main.rs, so they never run: {forgotten:?}");
}

#[test]
fn faults_are_found() {
    let code = "fn f() {\n}\n";
    assert_eq!(lines(code), 2);
    assert_eq!(lines(&format!("{code}\n#[cfg(test)]\nmod tests {{\n    fn g() {{}}\n}}\n")), 2);
    assert_eq!(lines(&format!("#[cfg(test)]\nmod tests {{\n    fn g() {{}}\n}}\n{code}")), 6);

    let names = |path: &str| misnamed([path.to_owned()].iter()).len();
    for wrong in ["a-svc/src/rpc/keys.rs", "a-svc/src/rpc/orgs/mod.rs", "proto/ferrite/repo/v1/migration.proto"] {
        assert_eq!(names(wrong), 1, "{wrong}");
    }
    for right in ["a-svc/src/rpc/public_keys.rs", "proto/ferrite/repo/v1/organization.proto"] {
        assert_eq!(names(right), 0, "{right}");
    }

    let tree = |files: &[(&str, usize)]| files.iter().map(|(path, lines)| ((*path).to_owned(), *lines)).collect();
    let sizes =
        tree(&[("a/src/b.rs", 29), ("a/src/c.rs", 30), ("a/src/d.rs", 500), ("a/src/e.rs", 501), ("a/src/mod.rs", 1)]);
    assert_eq!(short(&sizes).into_keys().collect::<Vec<_>>(), ["a/src/b.rs"]);
    assert_eq!(long(&sizes).into_keys().collect::<Vec<_>>(), ["a/src/e.rs"]);
    let one = [("a-svc/src/rpc/stars/mod.rs", 20), ("a-svc/src/rpc/stars/b.rs", 50), ("a-svc/src/rpc/teams.rs", 50)];
    assert_eq!(crowded(&tree(&one)).into_keys().collect::<Vec<_>>(), ["a-svc/src/rpc/stars"]);
    assert!(crowded(&tree(&[one[1], ("a-svc/src/rpc/stars.rs", 50)])).is_empty());

    let faults = Faults::from([("a".to_owned(), "merge it".to_owned())]);
    assert_eq!(judge(&faults, &["a"]), [""; 0]);
    assert_eq!(judge(&faults, &["b"]), ["a: merge it", "b: remove this exception, it is no longer needed"]);
}
