use askama::Template;
use proptest::prelude::*;

use super::*;

const CHANGED: &str = r#"diff --git a/src/main.rs b/src/main.rs
index 1111111..2222222 100644
--- a/src/main.rs
+++ b/src/main.rs
@@ -1,4 +1,5 @@ fn main() {
 one
-two
--- three
+2
+++ 3
+4
 end
\ No newline at end of file
"#;

fn diff(text: &str) -> Diff {
    Diff::parse(text, Style::Unified)
}

fn only(text: &str) -> FileDiff {
    let mut diff = diff(text);
    assert_eq!(diff.files.len(), 1, "{text}");
    diff.files.remove(0)
}

/// The numbers and text of a row.
fn shown(row: &Row) -> String {
    let side = |side: &Option<Side>| {
        let Some(side) = side else { return "-".to_owned() };
        format!("{}{}{}{}", side.number, side.sign(), side.text, if side.is_unended { "$" } else { "" })
    };
    row.heading.clone().unwrap_or_else(|| format!("{}|{}", side(&row.old), side(&row.new)))
}

#[test]
fn lines_have_the_numbers_of_their_sides() {
    let file = only(CHANGED);
    let rows: Vec<_> = file.rows.iter().map(shown).collect();
    let expected = [
        "@@ -1,4 +1,5 @@ fn main() {",
        "1 one|1 one",
        "2-two|-",
        "3--- three|-",
        "-|2+2",
        "-|3+++ 3",
        "-|4+4",
        "4 end$|5 end$",
    ];
    assert_eq!(rows, expected, "a line of a hunk is never a header");
    assert_eq!((file.path.as_str(), file.additions, file.deletions, file.badge()), ("src/main.rs", 3, 2, None));
}

#[test]
fn lines_stand_side_by_side() {
    let diff = Diff::parse(CHANGED, Style::Split);
    let rows: Vec<_> = diff.files[0].rows.iter().map(shown).collect();
    let expected =
        ["@@ -1,4 +1,5 @@ fn main() {", "1 one|1 one", "2-two|2+2", "3--- three|3+++ 3", "-|4+4", "4 end$|5 end$"];
    assert_eq!(rows, expected);
    let unended = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n";
    let diff = Diff::parse(unended, Style::Split);
    assert_eq!(diff.files[0].rows.iter().map(shown).collect::<Vec<_>>(), ["@@ -1 +1 @@", "1-a$|1+b"]);
}

#[test]
fn a_file_says_what_happened_to_it() {
    let header = |lines: &str| only(&format!("diff --git a/old name b/new name\n{lines}\n"));
    let renamed = header("similarity index 90%\nrename from old name\nrename to new name");
    assert_eq!((renamed.path.as_str(), renamed.old_path.as_deref()), ("new name", Some("old name")));
    assert_eq!((renamed.badge(), renamed.rows.len()), (Some("Renamed"), 0));
    let copied = header("copy from old name\ncopy to new name");
    assert_eq!((copied.badge(), copied.old_path.as_deref()), (Some("Copied"), Some("old name")));
    let added = only("diff --git a/a b b/a b\nnew file mode 100644\nindex 0000000..e69de29\n");
    assert_eq!((added.path.as_str(), added.badge()), ("a b", Some("Added")), "an empty file");
    let deleted = only("diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n");
    assert_eq!((deleted.path.as_str(), deleted.badge(), deleted.deletions), ("x", Some("Deleted"), 1));
    let modes = only("diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n");
    assert_eq!(modes.modes, Some(("100644".to_owned(), "100755".to_owned())));
    let binary = only("diff --git a/b.bin b/b.bin\nindex 1..2 100644\nBinary files a/b.bin and b/b.bin differ\n");
    assert!(binary.is_binary && binary.path == "b.bin");
    assert!(only("diff --git a/b.bin b/b.bin\nGIT binary patch\nliteral 3\nKcmZ\n\nliteral 0\n").is_binary);
}

#[test]
fn quoted_paths_are_read() {
    let text = "diff --git \"a/\\303\\244 \\\"q\\\"\\t.txt\" \"b/\\303\\244 \\\"q\\\"\\t.txt\"\nnew file mode 100644\n";
    assert_eq!(only(text).path, "\u{e4} \"q\"\t.txt");
    let text = "diff --git a/x \"b/\\377.txt\"\nrename from x\nrename to \"\\377.txt\"\n";
    let file = only(text);
    assert_eq!(
        (file.path.as_str(), file.link.as_str(), file.old_path.as_deref()),
        ("\u{fffd}.txt", "%FF.txt", Some("x"))
    );
    let spaced = "diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n@@ -1 +1 @@\n-x\n+y\n";
    assert_eq!(only(spaced).path, "a b");
}

#[test]
fn what_is_too_long_is_counted_and_left_out() {
    let file = |name: usize, lines: usize| {
        let hunk: String = (0..lines).map(|line| format!("+{line}\n")).collect();
        format!(
            "diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{lines} @@\n{hunk}"
        )
    };
    let lines = |diff: &Diff| diff.files.iter().flat_map(|file| &file.rows).filter(|row| row.heading.is_none()).count();
    for style in [Style::Unified, Style::Split] {
        let long = Diff::parse(&file(1, MAX_FILE_LINES + 1), style);
        assert_eq!((long.files[0].is_cut, lines(&long), long.additions), (true, MAX_FILE_LINES, 3_001));
        let many: String = (0..8).map(|name| file(name, MAX_FILE_LINES)).collect();
        let many = Diff::parse(&many, style);
        assert_eq!((lines(&many), many.additions), (MAX_LINES, 24_000));
        assert!(!many.files[5].is_cut && many.files[6].is_cut && many.files[7].is_cut);
    }
    let files: String = (0..MAX_FILES + 2).map(|name| file(name, 1)).collect();
    let files = diff(&files);
    assert_eq!((files.files.len(), files.hidden_files, files.additions), (300, 2, 302));
    assert_eq!(files.summary(), "302 changed files");
    let wide = only(&format!("diff --git a/x b/x\n@@ -0,0 +1 @@\n+{}\n", "\u{e4}".repeat(4_000)));
    assert_eq!(wide.rows[1].line().unwrap().text.chars().count(), 2_001);
}

#[test]
fn anchors_depend_on_the_path_alone() {
    let file = only(CHANGED);
    let both = diff(&format!("diff --git a/a b/a\nnew file mode 100644\n{CHANGED}"));
    assert_eq!(both.files[1], file);
    assert!(both.files[0].id != file.id && file.id.starts_with("diff-"));
}

#[test]
fn links_lead_to_the_file_and_the_other_style() {
    let diff = diff(CHANGED).at("/a/b/commit/1?style=split", "/a/b/src/commit/1".to_owned(), String::new());
    assert_eq!(diff.browse(&diff.files[0]).as_deref(), Some("/a/b/src/commit/1/src/main.rs"));
    assert_eq!((diff.unified().as_str(), diff.split().as_str()), ("/a/b/commit/1", "/a/b/commit/1?style=split"));
    assert_eq!((Style::of("/a?style=split"), Style::of("/a?style=x")), (Style::Split, Style::Unified));
}

#[test]
fn changes_of_whitespace_are_hidden_by_a_link_that_keeps_the_rest() {
    let links = |here: &str| {
        let diff = diff(CHANGED).at(here, String::new(), String::new());
        (diff.ignores_whitespace(), diff.other_whitespace(), diff.split())
    };
    let page = "/a/b/compare/x...y?page=2";
    let hidden = format!("{page}&whitespace=ignore-all");
    assert_eq!(links(page), (false, hidden.clone(), format!("{page}&style=split")));
    assert_eq!(links(&hidden), (true, page.to_owned(), format!("{hidden}&style=split")));
    for (value, expected) in [
        ("ignore-change", Some("ignore-change")),
        ("ignore-eol", Some("ignore-eol")),
        ("show-all", None),
        ("other", None),
        ("", None),
    ] {
        assert_eq!(ignored_whitespace(&format!("/a?whitespace={value}")), expected, "{value}");
    }
}

/// A changed file with these lines in a hunk.
fn changed(name: &str, header: &str, lines: &str) -> String {
    format!("diff --git a/{name} b/{name}\n{header}--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n{lines}")
}

#[test]
fn files_of_which_only_whitespace_differs_are_shown_without_lines() {
    let (spaced, other) = ("-x\n+ x\n", "-x\n+y\n");
    let (mode, moved) = ("old mode 100644\nnew mode 100755\n", "similarity index 90%\nrename from e\nrename to d\n");
    let whole = [
        changed("a", "", spaced),
        changed("b", "", other),
        changed("c", mode, spaced),
        changed("d", moved, spaced),
        format!("diff --git a/f b/f\n{mode}"),
        changed("g", "", spaced),
    ];
    let shown = [
        changed("b", "", other),
        format!("diff --git a/c b/c\n{mode}index 1..2\n"),
        format!("diff --git a/d b/d\n{moved}index 1..2 100644\n"),
        format!("diff --git a/f b/f\n{mode}"),
    ];
    let (whole, shown) = (whole.concat(), shown.concat());
    let files = |diff: &Diff| {
        let file = |file: &FileDiff| (file.path.clone(), file.is_whitespace_only, file.rows.len());
        diff.files.iter().map(file).collect::<Vec<_>>()
    };
    let found = diff(&shown).with_whitespace_only(diff(&whole));
    let expected = [("a", true, 0), ("b", false, 3), ("c", true, 0), ("d", true, 0), ("f", false, 0), ("g", true, 0)];
    assert_eq!(files(&found), expected.map(|(path, is_only, rows)| (path.to_owned(), is_only, rows)));
    assert_eq!((found.additions, found.deletions, found.summary().as_str()), (1, 1, "6 changed files"));
    assert_eq!(Shown { diff: found }.render().unwrap().matches("Only whitespace changes.").count(), 4);
    // The end of the text is missing, and with it other files.
    let cut = Diff { is_cut: true, ..diff(&shown) }.with_whitespace_only(diff(&whole));
    assert_eq!(files(&cut).last().map(|file| file.0.as_str()), Some("f"));
    assert!(!diff(&shown).with_whitespace_only(diff("")).files.iter().any(|file| file.is_whitespace_only));
}

#[test]
fn files_above_the_limit_are_hidden() {
    let name = |number: usize| format!("{number:03}");
    let whole: String = (0..MAX_FILES + 20).map(|number| changed(&name(number), "", "-x\n+ x\n")).collect();
    let found = diff(&changed(&name(7), "", "-x\n+y\n")).with_whitespace_only(diff(&whole));
    assert_eq!((found.files.len(), found.hidden_files), (MAX_FILES, 20));
    assert!(found.files.iter().filter(|file| !file.is_whitespace_only).count() == 1);
}

#[derive(Template)]
#[template(path = "diff.html")]
struct Shown {
    diff: Diff,
}

#[test]
fn both_styles_are_escaped_and_have_anchors() {
    let text = "diff --git a/<b>.rs b/<b>.rs\n--- a/<b>.rs\n+++ b/<b>.rs\n@@ -7,2 +7,2 @@ <i>\n same\n-<s>\n+<u>\n";
    for style in [Style::Unified, Style::Split] {
        let diff = Diff::parse(text, style).at("/a/b/commit/1", "/a/b/src/commit/1".to_owned(), "/raw".to_owned());
        let id = diff.files[0].id.clone();
        let html = Shown { diff }.render().unwrap();
        for line in ["L7", "R7", "L8", "R8"] {
            assert!(
                html.contains(&format!("id=\"{id}-{line}\"><a href=\"#{id}-{line}\">{}</a>", &line[1..])),
                "{html}"
            );
        }
        for text in ["-&#60;s&#62;", "+&#60;u&#62;", "@@ &#60;i&#62;", "&#60;b&#62;.rs", "/a/b/src/commit/1/%3Cb%3E.rs"]
        {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(!["<b>", "<i>", "<s>", "<u>"].iter().any(|tag| html.contains(tag)), "{html}");
    }
}

#[test]
fn a_diff_that_is_cut_says_so() {
    let cut = Diff { is_cut: true, ..diff("") }.at("/a", String::new(), "/whole".to_owned());
    let html = Shown { diff: cut }.render().unwrap();
    assert!(html.contains("too large") && html.contains("href=\"/whole\"") && !html.contains("no changes"), "{html}");
    assert!(Shown { diff: diff("") }.render().unwrap().contains("There are no changes"));
}

#[test]
fn a_mail_around_it_is_skipped() {
    let mail = format!("From 1\nSubject: x\n\n---\n src/main.rs | 2 +-\n\n{CHANGED}-- \n2.47\n");
    assert_eq!(only(&mail), only(CHANGED));
}

proptest! {
    #[test]
    fn no_text_panics(
        lines in prop::collection::vec(
            prop_oneof![
                "\\PC{0,20}",
                "[-+ \\\\@].{0,10}",
                "diff --git .{0,20}",
                "diff --git \"[ab/\\\\0-9\"]{0,12}",
                "(---|\\+\\+\\+) \"?[ab/\\\\\t]{0,9}\"?",
                "@@ -[0-9]{1,12}(,[0-9]{1,3})? \\+[0-9]{1,12}(,[0-9]{1,3})? @@.{0,5}",
                "(rename|copy) (from|to) .{0,9}",
                "(old|new|new file|deleted file) mode .{0,9}",
            ],
            0..40,
        ),
    ) {
        let text = lines.join("\n");
        for style in [Style::Unified, Style::Split] {
            let diff = Diff::parse(&text, style);
            let headers = lines.iter().filter(|line| line.contains("diff --git ")).count();
            prop_assert!(diff.files.len() <= headers);
        }
    }
}

#[test]
fn comments_are_on_the_lines_of_their_side() {
    let on_file = HashMap::from([((true, 2), "old".to_owned()), ((false, 2), "new".to_owned())]);
    let html = HashMap::from([("src/main.rs".to_owned(), on_file)]);
    let form = Some("/form?commit=c".to_owned());
    for (style, expected) in [(Style::Unified, vec!["old", "new"]), (Style::Split, vec!["old,new"])] {
        let diff = Diff::parse(CHANGED, style).with_remarks(Remarks { html: html.clone(), form: form.clone() });
        let file = &diff.files[0];
        let found = file.rows.iter().map(|row| diff.remarks_on(file, row).collect::<Vec<_>>().join(","));
        assert_eq!(found.filter(|found| !found.is_empty()).collect::<Vec<_>>(), expected);
        let side = file.rows.iter().find_map(|row| row.old.as_ref().filter(|side| side.number == 2)).unwrap();
        let link = diff.comment_link(file, true, side);
        assert_eq!(link.as_deref(), Some("/form?commit=c&path=src%2Fmain.rs&side=old&line=2"));
    }
    let diff = diff(CHANGED);
    let file = &diff.files[0];
    assert_eq!(diff.comment_link(file, false, file.rows[1].line().unwrap()), None);
}
