//! Diffs that ignore changes of whitespace.

use super::*;

/// The modes, each with git's flag.
const MODES: [(Whitespace, &[&str]); 4] = [
    (Whitespace::ShowAll, &[]),
    (Whitespace::IgnoreAll, &["-w"]),
    (Whitespace::IgnoreChange, &["-b"]),
    (Whitespace::IgnoreEol, &["--ignore-space-at-eol"]),
];

/// Two commits with every kind of change of whitespace between them, one of which is a rename.
fn changed(f: &Fixture) -> DiffPair {
    let lines: Vec<u8> = (0..20).flat_map(|n| format!("  line {n}\n").into_bytes()).collect();
    let moved = [&b"line 0\n"[..], &lines[9..]].concat();
    let old = f.tree(&[
        (b"amount", b"a b\n", FILE),
        (b"binary", b"a \0", FILE),
        (b"blank line", b"a\nb\n", FILE),
        (b"crlf", b"one\ntwo\n", FILE),
        (b"empty line", b"a\n\nb\n", FILE),
        (b"end", b"x\n", FILE),
        (b"indent", b"\tx\n", FILE),
        (b"inner", b"ab\n", FILE),
        (b"last", b"x\n", FILE),
        (b"mixed", b"  1\n2\n3\n4\n5\n6\n7\n8\n9\n", FILE),
        (b"mode", b"x\n", FILE),
        (b"moved from", &lines, FILE),
    ]);
    let new = f.tree(&[
        (b"amount", b"a  b\n", FILE),
        (b"binary", b"a  \0", FILE),
        (b"blank line", b"a\n\nb\n", FILE),
        (b"crlf", b"one\r\ntwo\r\n", FILE),
        (b"empty line", b"a\n  \nb\n", FILE),
        (b"end", b"x  \n", FILE),
        (b"indent", b"    x\n", FILE),
        (b"inner", b"a b\n", FILE),
        (b"last", b"x", FILE),
        (b"mixed", b"    1\n2\n3\n4\n5\n6\n7\n8\nnine\n", FILE),
        (b"mode", b"x \n", PROGRAM),
        (b"moved to", &moved, FILE),
    ]);
    DiffPair { old: Some(f.commit(old, &[], 1, "m")), new: f.commit(new, &[], 2, "m") }
}

/// Paths with their added and deleted lines.
fn shown(changes: &Changes) -> Vec<String> {
    assert_eq!(changes.file_count, changes.files.len());
    let file = |file: &ChangedFile| {
        let path = String::from_utf8_lossy(&file.path).into_owned();
        if file.is_binary { path } else { format!("{path} {} {}", file.additions, file.deletions) }
    };
    changes.files.iter().map(file).collect()
}

#[tokio::test]
async fn each_mode_ignores_what_git_ignores() {
    let f = Fixture::new().await;
    let pair = changed(&f);
    let ids = [pair.old.unwrap().to_string(), pair.new.to_string()];
    for (whitespace, flags) in MODES {
        let plain = f.plain(&[&["diff"][..], flags, &[ids[0].as_str(), ids[1].as_str()]].concat());
        let ours = output(f.git.diff(f.path(), base_of(pair), pair.new, false, whitespace)).await;
        assert!(ours == plain, "{whitespace:?}:\n{}", String::from_utf8_lossy(&ours));
        let diff = read_diff(&f.git, f.path(), pair, whitespace).await.unwrap();
        let (data, text) = (hunks(&diff), without_headers(&plain));
        assert!(data == text, "{whitespace:?}:\n{}\n{}", data.escape_ascii(), text.escape_ascii());
        assert_eq!(diff.patches.len(), diff.changes.files.len());
        let limits = ChangeLimits { whitespace, ..ChangeLimits::single() };
        let changes = read_changes(&f.git, f.path(), &[pair], limits).await.unwrap().changes;
        assert_eq!(changes, [Some(diff.changes.clone())], "{whitespace:?}");
        let expected: &[&str] = match whitespace {
            Whitespace::ShowAll => &[
                "amount 1 1",
                "binary",
                "blank line 1 0",
                "crlf 2 2",
                "empty line 1 1",
                "end 1 1",
                "indent 1 1",
                "inner 1 1",
                "last 1 1",
                "mixed 2 2",
                "mode 1 1",
                "moved to 1 1",
            ],
            Whitespace::IgnoreAll => &["binary", "blank line 1 0", "mixed 1 1", "mode 0 0", "moved to 0 0"],
            Whitespace::IgnoreChange => {
                &["binary", "blank line 1 0", "inner 1 1", "mixed 1 1", "mode 0 0", "moved to 1 1"]
            }
            Whitespace::IgnoreEol => &[
                "amount 1 1",
                "binary",
                "blank line 1 0",
                "indent 1 1",
                "inner 1 1",
                "mixed 2 2",
                "mode 0 0",
                "moved to 1 1",
            ],
        };
        assert_eq!(shown(&diff.changes), expected, "{whitespace:?}");
    }
}

#[tokio::test]
async fn lines_have_their_numbers_in_the_files() {
    let f = Fixture::new().await;
    let old = f.tree(&[(b"a", b"1\n2\n3\n4\n5\n6\n7\n", FILE)]);
    let new = f.tree(&[(b"a", b"1\n\n 2\n 3\n 4\n 5\n 6\n seven\n", FILE)]);
    let pair = DiffPair { old: Some(f.commit(old, &[], 1, "m")), new: f.commit(new, &[], 2, "m") };
    let diff = read_diff(&f.git, f.path(), pair, Whitespace::IgnoreAll).await.unwrap();
    let [hunk] = &diff.patches[0].hunks[..] else { panic!("{diff:?}") };
    assert_eq!((hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines), (1, 7, 1, 8));
    let text = |kind| {
        let lines = hunk.lines.iter().filter(|line| line.kind == kind);
        lines.map(|line| String::from_utf8_lossy(&line.text).into_owned()).collect::<Vec<_>>()
    };
    // Lines of both files are shown as they are in the new one.
    assert_eq!(text(LineKind::Context), ["1", " 2", " 3", " 4", " 5", " 6"]);
    assert_eq!(text(LineKind::Deleted), ["7"]);
    assert_eq!(text(LineKind::Added), ["", " seven"]);
}

#[tokio::test]
async fn of_several_commits_each_leaves_out_its_own_files() {
    let f = Fixture::new().await;
    let tree = |content: &[u8], other: &[u8]| f.tree(&[(b"a", content, FILE), (b"b", other, FILE)]);
    let first = f.commit(tree(b"x\n", b"y\n"), &[], 1, "m");
    let spaced = f.commit(tree(b" x\n", b"y\n"), &[first], 2, "m");
    let both = f.commit(tree(b"x\n", b"z\n"), &[spaced], 3, "m");
    let pairs = [(first, None), (spaced, Some(first)), (both, Some(spaced))];
    let pairs = pairs.map(|(new, old)| DiffPair { old, new });
    let limits = ChangeLimits { whitespace: Whitespace::IgnoreAll, ..ChangeLimits::page() };
    for with_lines in [true, false] {
        let limits = ChangeLimits { with_lines, ..limits };
        let changes = read_changes(&f.git, f.path(), &pairs, limits).await.unwrap().changes;
        let shown: Vec<_> = changes.iter().flatten().map(|changes| shown(changes).join(", ")).collect();
        assert_eq!(shown, ["a 1 0, b 1 0", "", "b 1 1"]);
    }
}
