//! Titles of wiki pages, their names in URLs and the names of their files, as Gogs and Gitea have
//! them.
//!
//! | title | name in URLs | file |
//! |---|---|---|
//! | `Getting started` | `Getting-started` | `Getting-started.md` |
//! | `100% free` | `100%25-free` | `100%25-free.md` |
//! | `a-b c` | `a-b+c.-` | `a-b c.-.md` |

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{
    error::GitError,
    name::check_new_name,
    path::{MAX_COMPONENT, TreePath},
};

/// The end of the file names of pages.
const ENDING: &str = ".md";
/// The end of names in which hyphens stand for themselves, and not for spaces.
const HYPHEN_MARK: &str = ".-";
/// Titles that would hide a page behind another path of the wiki.
const RESERVED: [&str; 4] = ["_pages", "_new", "_edit", "raw"];
/// Longest name in a URL, in bytes.
const MAX_NAME: usize = 1024;
/// All characters but the unreserved ones of RFC 3986 are encoded.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The title of a page that can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTitle {
    text: String,
    path: TreePath,
}

impl PageTitle {
    /// Validates the title of a new page.
    ///
    /// # Errors
    /// `Invalid` for the field `title`.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        const FIELD: &str = "title";
        let text = text.trim();
        if text.is_empty() {
            return Err(GitError::invalid(FIELD, "required", "must not be empty"));
        }
        if text == "." || text == ".." {
            return Err(GitError::invalid(FIELD, "invalid", "must not be `.` or `..`"));
        }
        if RESERVED.contains(&text) {
            return Err(GitError::invalid(FIELD, "reserved", "is reserved"));
        }
        check_new_name(text.as_bytes(), FIELD)?;
        let file = file_name(text);
        if file.len() > MAX_COMPONENT {
            return Err(GitError::invalid(FIELD, "too_long", "is too long for the name of a file"));
        }
        let path = TreePath::strict(file.as_bytes()).map_err(|error| error.of(FIELD))?;
        Ok(Self { text: text.to_owned(), path })
    }

    /// The title.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path of the file of a new page.
    #[must_use]
    pub fn path(&self) -> &TreePath {
        &self.path
    }
}

/// Returns the name of the file of a page with this title.
#[must_use]
pub fn file_name(title: &str) -> String {
    // A plus sign of the title is encoded, so each one here is a space.
    format!("{}{ENDING}", url_name(title).replace('+', " "))
}

/// Returns the name in URLs, encoded, of a page with this title.
#[must_use]
pub fn url_name(title: &str) -> String {
    let name = match title.contains('-') || title.ends_with(ENDING) {
        true => format!("{title}{HYPHEN_MARK}"),
        false => title.replace(' ', "-"),
    };
    utf8_percent_encode(&name, ESCAPED).to_string().replace("%20", "+")
}

/// Returns the title of the page in a file; `None` for a file that is no page.
#[must_use]
pub fn title_of_file(path: &[u8]) -> Option<String> {
    let name = String::from_utf8_lossy(path);
    let title = title_of_name(name.strip_suffix(ENDING)?);
    (!title.is_empty()).then_some(title)
}

/// Returns the title that a name in URLs, or the name of a file without its ending, stands for.
fn title_of_name(name: &str) -> String {
    let spaced = match name.strip_suffix(HYPHEN_MARK) {
        Some(name) => name.to_owned(),
        None => name.replace('-', " "),
    };
    percent_decode_str(&spaced.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// The name of a page that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageName {
    /// The titles that it can stand for, the most likely one first.
    titles: Vec<String>,
    /// The file that it can stand for.
    path: Option<TreePath>,
    /// Whether it names the file, and stands for a title only if there is none.
    is_path: bool,
}

impl PageName {
    /// Parses a name as it was sent in a URL; `None` for one that no page has.
    ///
    /// Clients also send titles, and encode names again.
    #[must_use]
    pub fn parse(sent: &str) -> Option<Self> {
        if sent.is_empty() || sent.len() > MAX_NAME {
            return None;
        }
        let decoded = percent_decode_str(sent).decode_utf8_lossy().into_owned();
        let is_path = decoded.ends_with(ENDING);
        let path = if is_path { decoded.clone() } else { format!("{decoded}{ENDING}") };
        let mut titles = vec![title_of_name(sent), title_of_name(&decoded), decoded];
        titles.dedup();
        Some(Self { titles, path: TreePath::literal(path.as_bytes()).ok(), is_path })
    }

    /// The name of the page in a file.
    #[must_use]
    pub fn of_file(path: TreePath) -> Self {
        Self { titles: Vec::new(), path: Some(path), is_path: true }
    }

    /// The name of a page by its title.
    #[must_use]
    pub fn of_title(title: &str) -> Self {
        Self { titles: vec![title.to_owned()], path: None, is_path: false }
    }

    /// The titles that it can stand for, the most likely one first.
    #[must_use]
    pub fn titles(&self) -> &[String] {
        &self.titles
    }

    /// The file that it can stand for.
    #[must_use]
    pub fn path(&self) -> Option<&TreePath> {
        self.path.as_ref()
    }

    /// Whether it names the file, and stands for a title only if there is none.
    #[must_use]
    pub fn is_path(&self) -> bool {
        self.is_path
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn titles_names_and_files_are_those_of_gitea() {
        for (title, name, file) in [
            ("Home", "Home", "Home.md"),
            ("wiki name", "wiki-name", "wiki-name.md"),
            ("wiki-name", "wiki-name.-", "wiki-name.-.md"),
            ("the wiki-name", "the+wiki-name.-", "the wiki-name.-.md"),
            ("title.md", "title.md.-", "title.md.-.md"),
            ("a/b", "a%2Fb", "a%2Fb.md"),
            ("a%b", "a%25b", "a%25b.md"),
            ("C++", "C%2B%2B", "C%2B%2B.md"),
            ("home of and & or wiki page!", "home-of-and-%26-or-wiki-page%21", "home-of-and-%26-or-wiki-page%21.md"),
            ("Über", "%C3%9Cber", "%C3%9Cber.md"),
        ] {
            assert_eq!((url_name(title), file_name(title)), (name.to_owned(), file.to_owned()));
            assert_eq!(title_of_file(file.as_bytes()).as_deref(), Some(title));
            assert_eq!(PageName::parse(name).unwrap().titles()[0], title);
        }
        for (file, title) in [
            ("hello world.md", Some("hello world")),
            ("symbols %2F.md", Some("symbols /")),
            ("100% free.md", Some("100% free")),
            ("Über.md", Some("Über")),
            ("nofileextension", None),
            ("picture.png", None),
            (".md", None),
        ] {
            assert_eq!(title_of_file(file.as_bytes()).as_deref(), title, "{file}");
        }
    }

    #[test]
    fn a_name_stands_for_what_clients_mean_by_it() {
        let titles = |sent: &str| PageName::parse(sent).unwrap().titles().to_vec();
        assert_eq!(titles("a-b"), ["a b", "a-b"]);
        assert_eq!(titles("a%20b"), ["a b"]);
        assert_eq!(titles("C++"), ["C  ", "C++"]);
        assert_eq!(titles("100%2525+x"), ["100%25 x", "100% x", "100%25+x"]);
        let path = |sent: &str| PageName::parse(sent).unwrap().path().map(ToString::to_string);
        assert_eq!(path("dir%2FMy-Page").as_deref(), Some("dir/My-Page.md"));
        assert_eq!(path("a%20b.md").as_deref(), Some("a b.md"));
        assert_eq!(path("..%2Fx"), None);
        assert!(PageName::parse("a.md").unwrap().is_path() && !PageName::parse("a").unwrap().is_path());
        for none in [String::new(), "x".repeat(MAX_NAME + 1)] {
            assert_eq!(PageName::parse(&none), None);
        }
    }

    #[test]
    fn titles_of_other_paths_and_odd_ones_are_refused() {
        for (title, code) in [
            (" ", "required"),
            ("..", "invalid"),
            ("_new", "reserved"),
            ("raw", "reserved"),
            ("a\nb", "invalid"),
            ("a\u{202e}b", "invalid"),
        ] {
            let GitError::Invalid(refused) = PageTitle::parse(title).unwrap_err() else { panic!("{title:?}") };
            assert_eq!((refused.field.as_str(), refused.code), ("title", code), "{title:?}");
        }
        let longest = "x".repeat(MAX_COMPONENT - ENDING.len());
        assert!(PageTitle::parse(&longest).is_ok());
        assert!(PageTitle::parse(&format!("{longest}x")).is_err());
        assert_eq!(PageTitle::parse(" Home ").unwrap().as_str(), "Home");
        assert!(PageTitle::parse(".git").is_ok() && PageTitle::parse("a\\b").is_ok());
    }

    proptest! {
        #[test]
        fn a_title_is_read_back_from_its_name_and_from_its_file(title in "[ -~äß/]{1,60}") {
            if let Ok(title) = PageTitle::parse(&title) {
                let found = title_of_file(title.path().as_bytes());
                prop_assert_eq!(found.as_deref(), Some(title.as_str()));
                let name = PageName::parse(&url_name(title.as_str())).unwrap();
                prop_assert_eq!(name.titles()[0].as_str(), title.as_str());
            }
        }
    }
}
