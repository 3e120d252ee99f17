//! The last step of rendering: removes everything that is not allowed, whatever wrote it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use super::Interrupted;
use super::elements::{ATTRIBUTES, CELL_STYLES, ELEMENTS, HIGHLIGHT_CLASSES, LANGUAGE_CLASS};

/// Allowed URL schemes in links and images. Relative URLs stay.
const URL_SCHEMES: [&str; 3] = ["http", "https", "mailto"];
const REMOVED_WITH_CONTENT: [&str; 2] = ["script", "style"];
/// Search engines give targets no credit, and linked pages cannot reach the opener.
const LINK_RELATION: &str = "nofollow noopener";

/// Bytes of output between checks for interruption.
const CHECK_INTERVAL_BYTES: usize = 1024;

static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(sanitizer);

/// Why HTML could not be sanitised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsanitized {
    TooLong,
    Interrupted,
}

/// Keeps only the allowed elements, attributes, classes and schemes, in at most `max_bytes`.
///
/// # Errors
/// [`Unsanitized`].
pub(super) fn sanitize(html: &str, max_bytes: usize, is_interrupted: &dyn Fn() -> bool) -> Result<String, Unsanitized> {
    let input = Input { rest: html.as_bytes(), is_interrupted };
    let document = SANITIZER.clean_from_reader(input).map_err(|_| Unsanitized::Interrupted)?;
    let mut output = Output { html: Vec::with_capacity(html.len()), max_bytes, is_full: false, is_interrupted };
    let written = document.write_to(&mut output);
    match written.map(|()| String::from_utf8(output.html)) {
        Ok(Ok(html)) => Ok(html),
        Err(_) if output.is_full => Err(Unsanitized::TooLong),
        Ok(Err(_)) | Err(_) => Err(Unsanitized::Interrupted),
    }
}

/// Feeds HTML to the sanitiser in small pieces.
struct Input<'h> {
    rest: &'h [u8],
    is_interrupted: &'h dyn Fn() -> bool,
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        check(self.is_interrupted)?;
        self.rest.read(buffer)
    }
}

/// Receives the sanitiser's output.
struct Output<'h> {
    html: Vec<u8>,
    max_bytes: usize,
    is_full: bool,
    is_interrupted: &'h dyn Fn() -> bool,
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_full = self.html.len() + bytes.len() > self.max_bytes;
        if self.is_full {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.html.extend_from_slice(bytes);
        // Output may arrive one character at a time, so do not read the clock each time.
        if self.html.len() / CHECK_INTERVAL_BYTES != (self.html.len() - bytes.len()) / CHECK_INTERVAL_BYTES {
            check(self.is_interrupted)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Fails if the rendering is interrupted, with an error kind that is not retried.
fn check(is_interrupted: &dyn Fn() -> bool) -> io::Result<()> {
    if is_interrupted() { Err(io::Error::other(Interrupted)) } else { Ok(()) }
}

fn sanitizer() -> Builder<'static> {
    let names = || ELEMENTS.iter().map(|element| element.name);
    let mut attributes: HashMap<&str, HashSet<&str>> =
        ELEMENTS.iter().map(|element| (element.name, element.attributes.iter().copied().collect())).collect();
    for cell in ["td", "th"] {
        attributes.entry(cell).or_default().insert("style");
    }
    // Checkbox of a task list.
    attributes.insert("input", ["checked", "disabled", "type"].into());
    let task = HashMap::from([("aria-label", "Task"), ("type", "checkbox"), ("disabled", "")]);
    let mut builder = Builder::empty();
    builder
        .tags(names().chain(["input"]).collect())
        .clean_content_tags(REMOVED_WITH_CONTENT.into())
        .tag_attributes(attributes)
        .set_tag_attribute_values(HashMap::from([("input", task)]))
        .generic_attributes(ATTRIBUTES.iter().copied().collect())
        .url_schemes(URL_SCHEMES.into())
        .url_relative(UrlRelative::PassThrough)
        .link_rel(Some(LINK_RELATION))
        .strip_comments(true)
        .attribute_filter(attribute);
    builder
}

/// Returns the value of an attribute; `None` if it is removed.
fn attribute<'v>(element: &str, name: &str, value: &'v str) -> Option<Cow<'v, str>> {
    let is_kept = match (element, name) {
        (_, "style") => CELL_STYLES.contains(&value),
        ("code", "class") => {
            let is_plain = |char: char| char.is_ascii_graphic();
            value.strip_prefix(LANGUAGE_CLASS).is_some_and(|language| language.chars().all(is_plain))
        }
        (_, "class") => HIGHLIGHT_CLASSES.contains(&value),
        _ => true,
    };
    is_kept.then_some(Cow::Borrowed(value))
}
