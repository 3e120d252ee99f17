//! Each kind of conflict, with what git leaves in its index and in its files.

use super::{
    work_tree::{WorkTree, assert_marked, assert_same},
    *,
};

const COMMIT: &[u8] = b"1234567890123456789012345678901234567890";
const OTHER_COMMIT: &[u8] = b"abcdefabcdefabcdefabcdefabcdefabcdefabcd";
const THIRD_COMMIT: &[u8] = b"0123012301230123012301230123012301230123";

struct Case {
    name: &'static str,
    base: Files,
    ours: Files,
    theirs: Files,
    expected: &'static [(&'static str, &'static str)],
}

fn case(
    name: &'static str,
    [base, ours, theirs]: [Files; 3],
    expected: &'static [(&'static str, &'static str)],
) -> Case {
    Case { name, base, ours, theirs, expected }
}

fn special(list: &[(&str, u32, &[u8])]) -> Files {
    list.iter().map(|(path, mode, content)| ((*path).to_owned(), (*mode, content.to_vec()))).collect()
}

fn cases() -> Vec<Case> {
    let long = |replaced: &[(usize, &str)]| numbered(20, replaced);
    let (text, one, other) = (long(&[]), long(&[(5, "x\n")]), long(&[(5, "y\n")]));
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let [crlf_base, crlf_one, crlf_other] = [&text, &one, &other].map(|text| crlf(text));
    let binary = |byte: u8| special(&[("b", FILE, &[&[0, 1, byte][..], &[byte; 100]].concat())]);
    let in_folder = |folder: &str, more: &[(&str, &str)]| {
        let names = ["1", "2", "3"].map(|name| (format!("{folder}/{name}"), numbered(20, &[(2, name)])));
        let list: Vec<_> = names.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        files(&[list, more.to_vec()].concat())
    };
    vec![
        case("content", [&text, &one, &other].map(|text| files(&[("f", text)])), &[("f", "content")]),
        case("CRLF", [&crlf_base, &crlf_one, &crlf_other].map(|text| files(&[("f", text)])), &[("f", "content")]),
        case("line ends", [&text, &crlf_base, &other].map(|text| files(&[("f", text)])), &[("f", "content")]),
        case("added", [files(&[]), files(&[("d/f", &one)]), files(&[("d/f", &other)])], &[("d/f", "add_add")]),
        case("binary", [binary(1), binary(2), binary(3)], &[("b", "binary")]),
        case("deleted", [files(&[("f", &text)]), files(&[("f", &one)]), files(&[])], &[("f", "modify_delete")]),
        case("deleted here", [files(&[("f", &text)]), files(&[]), files(&[("f", &one)])], &[("f", "modify_delete")]),
        case(
            "renamed and deleted",
            [files(&[("f", &text)]), files(&[("g", &text)]), files(&[])],
            &[("g", "modify_delete")],
        ),
        case(
            "renamed on both sides",
            [files(&[("f", &text)]), files(&[("g", &text)]), files(&[("h", &text)])],
            &[("f", "rename_rename"), ("g", "rename_rename"), ("h", "rename_rename")],
        ),
        case(
            "renamed, and changed on both sides",
            [files(&[("f", &text)]), files(&[("g", &one)]), files(&[("f", &other)])],
            &[("g", "content")],
        ),
        case(
            "two files renamed to one path",
            [
                files(&[("f", &text), ("g", "g\ng\ng\n")]),
                files(&[("f", &text), ("n", "g\ng\ng\n")]),
                files(&[("n", &text), ("g", "g\ng\ng\n")]),
            ],
            &[("n", "add_add")],
        ),
        case(
            "a file and a folder",
            [files(&[("x", "x\n")]), files(&[("x", "x\n"), ("p", "file\n")]), files(&[("x", "x\n"), ("p/q", "q\n")])],
            &[("p", "directory_file")],
        ),
        case(
            "submodule",
            [COMMIT, OTHER_COMMIT, THIRD_COMMIT].map(|id| special(&[("s", SUBMODULE, id)])),
            &[("s", "submodule")],
        ),
        case(
            "a submodule that became a file",
            [special(&[("s", SUBMODULE, COMMIT)]), special(&[("s", SUBMODULE, OTHER_COMMIT)]), files(&[("s", "s\n")])],
            &[("s", "mode")],
        ),
        case(
            "symbolic links",
            [special(&[("l", LINK, b"a")]), special(&[("l", LINK, b"b")]), special(&[("l", LINK, b"c")])],
            &[("l", "content")],
        ),
        case(
            "a link and a file",
            [files(&[]), special(&[("l", LINK, b"b")]), files(&[("l", "text\n")])],
            &[("l", "mode")],
        ),
        case(
            "modes of an added file",
            [files(&[]), special(&[("m", FILE, b"m\n")]), special(&[("m", PROGRAM, b"m\n")])],
            &[("m", "mode")],
        ),
        case(
            "a file in a folder that was renamed",
            [in_folder("old", &[]), in_folder("new", &[]), in_folder("old", &[("old/4", "4\n")])],
            &[("new/4", "directory_rename")],
        ),
        case(
            "a folder that was renamed to two places",
            [
                in_folder("old", &[("old/4", &one)]),
                files(&[
                    ("n/1", &numbered(20, &[(2, "1")])),
                    ("n/2", &numbered(20, &[(2, "2")])),
                    ("o/3", &numbered(20, &[(2, "3")])),
                    ("o/4", &one),
                ]),
                in_folder("old", &[("old/4", &one), ("old/5", "5\n")]),
            ],
            &[("old", "directory_rename")],
        ),
        case("only the case of a name", [files(&[("a", &text)]), files(&[("A", &text)]), files(&[("a", &one)])], &[]),
        case("names that differ in case", [files(&[]), files(&[("a", "1\n")]), files(&[("A", "2\n")])], &[]),
        case(
            "mode on one side, lines on the other",
            [files(&[("m", &text)]), special(&[("m", PROGRAM, text.as_bytes())]), files(&[("m", &one)])],
            &[],
        ),
        case(
            "the same on both sides",
            [files(&[("f", &text)]), files(&[("f", &one), ("g", "g\n")]), files(&[("f", &one), ("g", "g\n")])],
            &[],
        ),
    ]
}

#[tokio::test]
async fn each_kind_is_found_as_by_git() {
    let f = Fixture::new().await;
    let work = WorkTree::new(&f);
    for Case { name, base, ours, theirs, expected } in cases() {
        let (one, other) = f.three(&base, &ours, &theirs);
        let style = MergeStyle::Merge(merger_draft());
        let outcome = f.merger().prepare(one, other, &style).await.unwrap();
        let real = work.make(one, &["merge", "-q", "--no-ff", "-m", "m", &other.to_string()]);
        let conflicts = match outcome {
            MergeOutcome::Ready(ready) => {
                assert_eq!((real, expected.len()), (Ok(ready.commit), 0), "{name}");
                continue;
            }
            MergeOutcome::Conflicts(conflicts) => conflicts,
        };
        let found: Vec<_> =
            conflicts.files.iter().map(|file| (String::from_utf8_lossy(&file.path), file.kind.name())).collect();
        let expected: Vec<_> = expected.iter().map(|(path, kind)| ((*path).into(), *kind)).collect();
        assert_eq!(found, expected, "{name}: {conflicts:?}");
        assert_eq!((conflicts.total, conflicts.commit), (found.len(), None), "{name}");
        assert_same(&f, &conflicts, real.expect_err(name), name);
        for file in &conflicts.files {
            assert!(!file.message.is_empty(), "{name}: {file:?}");
            if matches!(file.kind, ConflictKind::Content | ConflictKind::AddAdd) && name != "symbolic links" {
                assert_marked(&work, &f, file, name);
                assert!(!file.ranges.is_empty(), "{name}");
            } else {
                assert_eq!(file.ranges, [], "{name}");
            }
        }
    }
    assert_eq!(f.left_behind(), 0);
}

/// git commits the marks of such a conflict. We do not.
#[tokio::test]
async fn a_merge_that_git_calls_clean_in_spite_of_a_conflict_is_not() {
    let f = Fixture::new().await;
    let work = WorkTree::new(&f);
    let base = numbered(24, &[]);
    let same = numbered(20, &[(1, "two\n"), (3, "x\n"), (18, "y\n")]);
    let changed = numbered(25, &[(18, "z\n")]);
    let (one, other) =
        f.three(&files(&[("a", &base)]), &files(&[("e", &same)]), &files(&[("a", &changed), ("e", &same)]));
    let outcome = f.merger().prepare(one, other, &MergeStyle::Merge(merger_draft())).await.unwrap();
    let MergeOutcome::Conflicts(conflicts) = outcome else { panic!("{outcome:?}") };
    let file = &conflicts.files[0];
    assert_eq!((file.path.as_slice(), file.kind, conflicts.total), (b"e".as_slice(), ConflictKind::RenameRename, 1));
    let committed = work.make(one, &["merge", "-q", "--no-ff", "-m", "m", &other.to_string()]).unwrap();
    let text = work.run(&["show", &format!("{committed}:e")]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("<<<<<<<<"), "git refuses such merges now");
}

#[tokio::test]
async fn ranges_name_the_lines_of_each_side() {
    let f = Fixture::new().await;
    let base = numbered(30, &[]);
    let ours = numbered(30, &[(2, "a\nb\n"), (10, "ten\n"), (20, ""), (30, "last")]);
    let theirs = numbered(30, &[(5, "five\n"), (10, "TEN\n"), (11, "TEN\n"), (20, "x\n"), (30, "last")]);
    let [base, ours, theirs] = [base, ours, theirs].map(|text| files(&[("f", &text)]));
    let (one, other) = f.three(&base, &ours, &theirs);
    let Mergeability::Conflicts(conflicts) = f.merger().check(one, other).await.unwrap() else { panic!() };
    let range = |line, count| LineRange { line, count };
    let expected = [
        ConflictRange { base: range(10, 2), ours: range(11, 2), theirs: range(10, 2) },
        ConflictRange { base: range(20, 1), ours: range(20, 0), theirs: range(20, 1) },
    ];
    assert_eq!(conflicts.files[0].ranges, expected);
}

#[tokio::test]
async fn ranges_follow_lines_that_are_no_text() {
    let f = Fixture::new().await;
    let version = |line: &str| {
        let text = format!("int caf\u{e9}_{}(void)\n{{\n{line}\n}}\n", "\u{e9}".repeat(300));
        special(&[("f", FILE, &text.chars().map(|letter| letter as u8).collect::<Vec<_>>())])
    };
    let (one, other) = f.three(&version("base"), &version("ours"), &version("theirs"));
    let Mergeability::Conflicts(conflicts) = f.merger().check(one, other).await.unwrap() else { panic!() };
    let third = LineRange { line: 3, count: 1 };
    assert_eq!(conflicts.files[0].ranges, [ConflictRange { base: third, ours: third, theirs: third }]);
}

#[tokio::test]
async fn a_rebase_names_the_commit_that_conflicts() {
    let f = Fixture::new().await;
    let text = |replaced| files(&[("f", &numbered(9, replaced)), ("g", "g\n")]);
    let (one, root_head) = f.three(&text(&[]), &text(&[(5, "ours\n")]), &text(&[(1, "1\n")]));
    let second = f.commit(&text(&[(1, "1\n"), (5, "theirs\n")]), &[root_head], "second\n");
    let third = f.commit(&text(&[(1, "1\n"), (5, "theirs\n"), (9, "9\n")]), &[second], "third\n");
    let style = MergeStyle::Rebase(merger_draft().committer);
    let outcome = f.merger().prepare(one, third, &style).await.unwrap();
    let MergeOutcome::Conflicts(conflicts) = outcome else { panic!("{outcome:?}") };
    assert_eq!((conflicts.commit, conflicts.total), (Some(second), 1));
    let work = WorkTree::new(&f);
    let real = work.make(third, &["rebase", "-q", &one.to_string()]).unwrap_err();
    assert_same(&f, &conflicts, real, "rebase");
    assert_eq!(work.stopped(), second);
}
