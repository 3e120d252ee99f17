//! Parses `.gitmodules` to find submodule URLs and to reject harmful files before they are
//! committed. git's own parser follows includes.

use git2::Tree;
use percent_encoding::percent_decode_str;

use super::entry::{EntryKind, read_blob};
use crate::{
    repo::{deltas::LoadCheck, objects},
    types::error::GitError,
};

/// Largest `.gitmodules` that is read, in bytes.
pub const MAX_GITMODULES: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Submodule {
    name: String,
    path: Option<String>,
    url: Option<String>,
    update: Option<String>,
}

/// The submodules of a `.gitmodules` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submodules(Vec<Submodule>);

impl Submodules {
    /// Reads `.gitmodules` of a root tree; empty if it is missing, too large or not a file.
    pub fn read(loads: &LoadCheck<'_>, root: &Tree<'_>) -> Result<Self, GitError> {
        let Some(entry) = root.get_name_bytes(b".gitmodules") else { return Ok(Self::default()) };
        if EntryKind::of(objects::entry_mode(&entry)) != EntryKind::File {
            return Ok(Self::default());
        }
        let (_, content) = read_blob(loads, entry.id(), MAX_GITMODULES)?;
        Ok(content.map_or_else(Self::default, |content| Self::parse(&content)))
    }

    /// Parses the text, skipping unknown lines.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut found: Vec<Submodule> = Vec::new();
        let mut inside = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                let name = section(line);
                inside = name.is_some();
                found.extend(name.map(|name| Submodule { name, ..Submodule::default() }));
                continue;
            }
            let (Some((key, value)), true) = (line.split_once('='), inside) else { continue };
            let Some(submodule) = found.last_mut() else { continue };
            let value = Some(unquoted(value));
            match key.trim().to_ascii_lowercase().as_str() {
                "path" => submodule.path = value,
                "url" => submodule.url = value,
                "update" => submodule.update = value,
                _ => {}
            }
        }
        Self(found)
    }

    /// Returns the URL of the submodule at `path`.
    #[must_use]
    pub fn url(&self, path: &[u8]) -> Option<&str> {
        let at_path = |submodule: &&Submodule| {
            submodule.path.as_deref().is_some_and(|own| own.trim_end_matches('/').as_bytes() == path)
        };
        self.0.iter().rev().find(at_path)?.url.as_deref()
    }

    /// Returns whether cloning with this file is safe: no empty name or `..` in a name, no path
    /// that looks like an option, no URL that `git fsck` rejects, and no update command.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        self.0.iter().all(|submodule| {
            let leads_out = submodule.name.split(['/', '\\']).any(|part| part == "..") || submodule.name.is_empty();
            let is_option = |value: &Option<String>| value.as_deref().is_some_and(|value| value.starts_with('-'));
            let runs = submodule.update.as_deref().is_some_and(|update| update.starts_with('!'));
            !leads_out && !is_option(&submodule.path) && !runs && submodule.url.as_deref().is_none_or(is_good_url)
        })
    }
}

/// Parses the name in `[submodule "name"]`.
fn section(line: &str) -> Option<String> {
    let inner =
        line.strip_prefix('[')?.split_once(']').map_or(line, |_| &line[1..line.rfind(']').unwrap_or(line.len())]);
    let (kind, name) = inner.trim().split_once(char::is_whitespace)?;
    kind.eq_ignore_ascii_case("submodule").then(|| unquoted(name))
}

fn unquoted(value: &str) -> String {
    let mut text = String::new();
    let mut quoted = false;
    let mut letters = value.trim().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => match letters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => {}
            },
            '#' | ';' if !quoted => break,
            letter => text.push(letter),
        }
    }
    if quoted { text } else { text.trim_end().to_owned() }
}

/// Checks a URL by the rules of `git fsck`, slightly stricter.
fn is_good_url(url: &str) -> bool {
    let decoded: Vec<u8> = percent_decode_str(url).collect();
    if url.starts_with('-') || decoded.starts_with(b"-") || decoded.iter().any(u8::is_ascii_control) {
        return false;
    }
    let mut rest = url;
    while let Some(next) = rest.strip_prefix("./").or_else(|| rest.strip_prefix("../")) {
        rest = next;
    }
    if rest.len() < url.len() && rest.starts_with([':', '/']) {
        return false;
    }
    let web = ["http://", "https://", "ftp://", "ftps://"];
    let is_web_like = ["http:", "https:", "ftp:", "ftps:"].iter().any(|scheme| url.starts_with(scheme));
    let host = web.iter().find_map(|scheme| url.strip_prefix(scheme));
    !is_web_like || host.is_some_and(|host| !host.starts_with(['/', ':', '?', '#']) && !host.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_found_by_path() {
        let text = b"[submodule \"lib/a\"]\n\tpath = lib/a\n\turl = https://example.com/a.git # here\n; c\n[submodule \"b\"]\n\
            path=\"b c\"\nurl = ../b.git\n[other]\nurl = x\n";
        let modules = Submodules::parse(text);
        assert_eq!(modules.url(b"lib/a"), Some("https://example.com/a.git"));
        assert_eq!(modules.url(b"b c"), Some("../b.git"));
        assert_eq!(modules.url(b"x"), None);
        assert!(modules.is_harmless());
    }

    #[test]
    fn tricks_are_not_harmless() {
        let section = |name: &str, line: &str| format!("[submodule \"{name}\"]\n{line}\n");
        for text in [
            section("../../hooks", "path = a"),
            section("a", "url = -u./payload"),
            section("a", "path = -x"),
            section("a", "update = !touch /tmp/x"),
            section("a", "url = https://example.com/%0ahost=x"),
            section("a", "url = ../../:x"),
            section("a", "url = https:///x"),
            section("a", "url = \"https://a\\nb\""),
        ] {
            assert!(!Submodules::parse(text.as_bytes()).is_harmless(), "{text}");
        }
        // `%+a` is not an escape for a line feed.
        for url in ["git@example.com:a/b.git", "https://example.com/%+a"] {
            assert!(Submodules::parse(section("a", &format!("url = {url}")).as_bytes()).is_harmless(), "{url}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Submodules::parse(&text).is_harmless();
        }

        #[test]
        fn odd_sections_never_panic(text in "(\\[submodule [\"\\]\\\\a ]{0,6}\n(url|path) ?= ?[%a\"\\\\é-]{0,8}\n){0,4}") {
            let _ = Submodules::parse(text.as_bytes()).is_harmless();
        }
    }
}
