//! The bundled .gitignore templates.

use super::{key, unknown};
use crate::types::error::GitError;

const MAX_TEMPLATES: usize = 32;

macro_rules! bundled {
    ($name:literal) => {
        ($name, include_str!(concat!("gitignore/", $name, ".gitignore")))
    };
}

const TEMPLATES: &[(&str, &str)] = &[
    bundled!("Actionscript"),
    bundled!("Ada"),
    bundled!("Android"),
    bundled!("C"),
    bundled!("C++"),
    bundled!("Clojure"),
    bundled!("CMake"),
    bundled!("CommonLisp"),
    bundled!("Composer"),
    bundled!("CUDA"),
    bundled!("D"),
    bundled!("Dart"),
    bundled!("Django"),
    bundled!("Eclipse"),
    bundled!("Elixir"),
    bundled!("Elm"),
    bundled!("Emacs"),
    bundled!("Erlang"),
    bundled!("Flutter"),
    bundled!("Fortran"),
    bundled!("Go"),
    bundled!("Godot"),
    bundled!("Gradle"),
    bundled!("Grails"),
    bundled!("Haskell"),
    bundled!("Java"),
    bundled!("Jekyll"),
    bundled!("JetBrains"),
    bundled!("Joomla"),
    bundled!("Julia"),
    bundled!("Kotlin"),
    bundled!("Laravel"),
    bundled!("LaTeX"),
    bundled!("Linux"),
    bundled!("Lua"),
    bundled!("macOS"),
    bundled!("Matlab"),
    bundled!("Maven"),
    bundled!("Mercurial"),
    bundled!("NetBeans"),
    bundled!("Nim"),
    bundled!("Node"),
    bundled!("Objective-C"),
    bundled!("OCaml"),
    bundled!("Perl"),
    bundled!("PHP-Composer"),
    bundled!("PlayFramework"),
    bundled!("Prolog"),
    bundled!("PureScript"),
    bundled!("Python"),
    bundled!("Qt"),
    bundled!("R"),
    bundled!("Rails"),
    bundled!("Ruby"),
    bundled!("Rust"),
    bundled!("Sass"),
    bundled!("Scala"),
    bundled!("Scheme"),
    bundled!("Smalltalk"),
    bundled!("SublimeText"),
    bundled!("SVN"),
    bundled!("Swift"),
    bundled!("Symfony"),
    bundled!("Tags"),
    bundled!("Terraform"),
    bundled!("TeX"),
    bundled!("Unity"),
    bundled!("UnrealEngine"),
    bundled!("Vagrant"),
    bundled!("Vim"),
    bundled!("VisualStudio"),
    bundled!("VisualStudioCode"),
    bundled!("Windows"),
    bundled!("WordPress"),
    bundled!("Xcode"),
    bundled!("Zig"),
];

/// Joins templates into a .gitignore, in order and without duplicates. Each consists of a line with
/// its name, the text, and an empty line.
pub fn gitignore(names: &[String]) -> Result<String, GitError> {
    let mut used = Vec::new();
    let mut text = String::new();
    for wanted in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        let found = TEMPLATES.iter().find(|(name, _)| key(name) == key(wanted));
        let (name, body) = found.ok_or_else(|| unknown("gitignores", wanted))?;
        if used.contains(name) {
            continue;
        }
        if used.len() == MAX_TEMPLATES {
            return Err(GitError::invalid("gitignores", "too_long", "has too many templates"));
        }
        used.push(name);
        text.push_str("# ---> ");
        text.push_str(name);
        text.push('\n');
        text.push_str(body);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_proto::error::ServiceError as _;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn templates_follow_each_other_under_their_names() {
        let text = gitignore(&names(&["rust", "Go", " Rust ", ""])).unwrap();
        assert!(text.starts_with("# ---> Rust\n# Build output\n/target/\n"), "{text}");
        assert_eq!(text.matches("# ---> ").count(), 2);
        assert!(text.contains("\n\n# ---> Go\n") && text.ends_with("\n\n"), "{text}");
    }

    #[test]
    fn similar_names_are_told_apart() {
        assert!(gitignore(&names(&["C"])).unwrap().starts_with("# ---> C\n"));
        assert!(gitignore(&names(&["c++"])).unwrap().starts_with("# ---> C++\n"));
        assert!(gitignore(&names(&["PHP-Composer"])).unwrap().starts_with("# ---> PHP-Composer\n"));
        let mut keys: Vec<_> = TEMPLATES.iter().map(|(name, _)| key(name)).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
        assert!(count >= 30);
    }

    #[test]
    fn unknown_names_are_refused() {
        let error = gitignore(&names(&["Go", "../../etc/passwd"])).unwrap_err();
        assert_eq!(error.violations()[0].field, "gitignores");
        assert!(gitignore(&names(&["#", "-"])).is_err());
    }
}
