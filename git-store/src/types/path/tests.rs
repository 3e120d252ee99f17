use proptest::prelude::*;

use super::*;

#[test]
fn every_spelling_of_dot_git_is_refused() {
    for path in [
        ".git",
        ".git/config",
        "a/.GIT/x",
        ".Git ",
        ".git.",
        ".git. .",
        "git~1",
        "GIT~1/x",
        "git~2",
        ".git::$INDEX_ALLOCATION",
        ".git:x",
        ".g\u{200c}it",
        "\u{feff}.git",
        ".gi\u{202e}t",
        "a/.git\u{206a}/b",
        ".g\u{131}t",
        ".g\u{130}t",
        "git~1.",
        ".git \u{200d}.",
    ] {
        assert_eq!(TreePath::strict(path.as_bytes()), Err(PathError::DotGit), "{path:?}");
    }
    for path in [".gitignore", ".github/x", "git", "a.git", ".gitmodules", "git~", "git~x", "x~1", "..."] {
        assert!(TreePath::strict(path.as_bytes()).is_ok(), "{path:?}");
    }
}

#[test]
fn writes_take_no_odd_component() {
    for path in
        ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\\b", "a\0b", "a\nb", "a\u{7f}", "a\u{85}"]
    {
        assert!(TreePath::strict(path.as_bytes()).is_err(), "{path:?}");
    }
    assert!(TreePath::strict(b"\xff").is_err());
    assert!(TreePath::strict("a".repeat(256).as_bytes()).is_err());
    assert!(TreePath::strict("a/".repeat(2048).as_bytes()).is_err());
    assert_eq!(TreePath::strict("dir/ü x.txt".as_bytes()).unwrap().name(), "ü x.txt".as_bytes());
}

#[test]
fn reads_are_cleaned_and_stay_inside() {
    for (path, clean) in [("/a//b/", "a/b"), ("a/../../b", "b"), ("./a/.", "a"), ("..", ""), ("", "")] {
        assert_eq!(TreePath::clean(path.as_bytes()).unwrap().as_bytes(), clean.as_bytes(), "{path:?}");
    }
    assert!(TreePath::literal(b"a/../b").is_err());
    assert!(TreePath::literal(b"a//b").is_err());
    assert_eq!(TreePath::literal(b"a/.git").unwrap().join(b"x"), b"a/.git/x");
}

#[test]
fn special_files_of_git_are_recognized_in_every_spelling() {
    assert!(is_dot_gitmodules(".GitModules") && is_dot_gitmodules("gitmod~1") && is_dot_gitmodules(".gitmodules ."));
    assert!(is_dot_gitattributes(".gitattributes") && !is_dot_gitattributes("gitattributes"));
}

proptest! {
    #[test]
    fn accepted_paths_follow_the_rules(path in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(strict) = TreePath::strict(&path) {
            prop_assert_eq!(strict.as_bytes(), &path[..]);
            prop_assert!(strict.components().all(|part| part != b".." && part != b"." && !part.eq_ignore_ascii_case(b".git")));
            prop_assert_eq!(TreePath::clean(&path).unwrap(), TreePath::literal(&path).unwrap());
        }
        if let Ok(clean) = TreePath::clean(&path) {
            prop_assert!(clean.components().all(|part| part != b".." && part != b"." && !part.is_empty()));
        }
        let _ = TreePath::literal(&path);
    }

    #[test]
    fn decorated_dot_git_is_refused(prefix in "(a/)?", tail in "[. ]{0,4}(:[a-z$]{0,5})?", upper in any::<bool>()) {
        let name = if upper { ".GIT" } else { ".gIt" };
        let path = format!("{prefix}{name}{tail}");
        prop_assert!(TreePath::strict(path.as_bytes()).is_err());
    }
}
