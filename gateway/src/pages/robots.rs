//! `/robots.txt` (RFC 9309): crawlers may read what is cheap to make.

use std::path::Path;

use super::branding::read_file;
use crate::http::embedded_file::EmbeddedFile;

/// Crawlers read no more of it.
const MAX_FILE_BYTES: u64 = 500 << 10;
/// Paths that crawlers leave alone: pages that are expensive, exist for every commit, or lead to
/// each other without an end.
const DISALLOWED: [&str; 26] = [
    "/-/",
    "/api/",
    "/issues$",
    "/issues?",
    "/org/",
    "/pulls$",
    "/pulls?",
    "/repo/",
    "/search",
    "/user/",
    "/*/*/archive/",
    "/*/*/atom/",
    "/*/*/blame/",
    "/*/*/commit/",
    "/*/*/commits/",
    "/*/*/compare",
    "/*/*/find/",
    "/*/*/issues?",
    "/*/*/media/",
    "/*/*/pulls?",
    "/*/*/pulls/*/commits",
    "/*/*/pulls/*/files",
    "/*/*/raw/commit/",
    "/*/*/src/commit/",
    "/*/*/src/tag/",
    "/*?*q=",
];
/// The other pages of lists without a filter.
const ALLOWED: [&str; 2] = ["/*/*/issues?page=", "/*/*/pulls?page="];

/// Reads the file of the operator. The error names it.
pub(crate) fn load(path: &Path) -> Result<String, String> {
    let bytes = read_file(path, MAX_FILE_BYTES)?;
    String::from_utf8(bytes).map_err(|_| format!("`{}` is not UTF-8", path.display()))
}

/// `root` is the path of the public URL; `own` is the file of the operator.
pub(super) fn file(root: &str, own: Option<&str>) -> EmbeddedFile {
    let text = own.map_or_else(|| default_text(root), str::to_owned);
    EmbeddedFile::rendered("text/plain; charset=utf-8", &text)
}

fn default_text(root: &str) -> String {
    let line = |rule: &str, path: &str| format!("{rule}: {root}{path}\n");
    let disallowed = DISALLOWED.iter().map(|path| line("Disallow", path));
    let allowed = ALLOWED.iter().map(|path| line("Allow", path));
    format!("User-agent: *\n{}", disallowed.chain(allowed).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a pattern matches the beginning of a path; `*` stands for any text, and `$`
    /// for the end.
    fn matches(pattern: &str, path: &str) -> bool {
        let (pattern, is_whole) = pattern.strip_suffix('$').map_or((pattern, false), |pattern| (pattern, true));
        let mut parts = pattern.split('*');
        let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
        for part in parts {
            let Some(place) = rest.find(part) else { return false };
            rest = &rest[place + part.len()..];
        }
        !is_whole || rest.is_empty()
    }

    /// The longest pattern decides.
    fn is_allowed(path: &str) -> bool {
        let rules = DISALLOWED.iter().map(|rule| (rule, false)).chain(ALLOWED.iter().map(|rule| (rule, true)));
        let found = rules.filter(|(pattern, _)| matches(pattern, path)).max_by_key(|(pattern, _)| pattern.len());
        found.is_none_or(|(_, is_allowed)| is_allowed)
    }

    #[test]
    fn crawlers_read_what_is_cheap() {
        for path in [
            "/",
            "/explore/repos",
            "/explore/repos?page=2",
            "/ada",
            "/ada/demo",
            "/ada/demo/src/branch/main/src/main.rs",
            "/ada/demo/raw/branch/main/logo.png",
            "/ada/demo/issues",
            "/ada/demo/issues/7",
            "/ada/demo/issues?page=2",
            "/ada/demo/pulls/7",
            "/ada/demo/releases",
            "/ada/demo/releases/tag/v1",
            "/assets/site-0123.css",
        ] {
            assert!(is_allowed(path), "{path}");
        }
        for path in [
            "/search?q=x",
            "/explore/repos?q=x",
            "/user/login?redirect_to=%2F",
            "/api/v1/repos/search",
            "/issues",
            "/ada/demo/archive/main.zip",
            "/ada/demo/blame/branch/main/x",
            "/ada/demo/commit/0123",
            "/ada/demo/commits/branch/main/x",
            "/ada/demo/compare/a...b",
            "/ada/demo/issues?state=closed",
            "/ada/demo/pulls/7/files",
            "/ada/demo/raw/commit/0123/x",
            "/ada/demo/src/commit/0123/x",
        ] {
            assert!(!is_allowed(path), "{path}");
        }
    }

    #[test]
    fn paths_begin_with_that_of_the_public_url() {
        let text = default_text("/sub");
        assert!(text.starts_with("User-agent: *\nDisallow: /sub/-/\n"), "{text}");
        assert!(text.lines().skip(1).all(|line| line.contains(": /sub/")), "{text}");
    }
}
