//! Renders Markdown as sanitised HTML: CommonMark with the GFM extensions (tables, task lists,
//! strikethrough, bare URLs).
//!
//! There are four steps, each with limits, in linear time, and interruptible: [`bounded`] keeps
//! parsing linear; `document` makes the events well-formed, counts elements, and adds links and
//! highlighting; `pulldown-cmark` writes HTML; `sanitize` keeps only what `elements` lists,
//! whatever came before.
//!
//! Render on a blocking thread.

mod document;
mod elements;
mod highlight;
mod languages;
mod links;
mod raw_html;
mod sanitize;

use std::borrow::Cow;

use pulldown_cmark::{Options, html};

use self::document::{Document, MAX_DEPTH};
pub use self::highlight::highlight_file;
pub use self::links::ReferenceLinks;
use self::sanitize::Unsanitized;
use crate::bounds::bounded;
use crate::walk::walk;

/// Longest HTML in bytes, before and after sanitising. Above it, the text is not rendered.
const MAX_HTML_BYTES: usize = 8 * 1024 * 1024;

/// The rendering was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Renders a text as HTML. With `links`, mentions and references to issues, commits and pages of a
/// wiki become links. Stops once `is_interrupted` returns true; it is called often and should be as cheap as
/// reading the clock.
///
/// A text with too many elements or too much output is shown as preformatted text instead.
///
/// # Errors
/// [`Interrupted`].
pub fn render(
    text: &str,
    links: Option<&ReferenceLinks>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<String, Interrupted> {
    if text.is_empty() {
        return Ok(String::new());
    }
    // The sanitiser would drop it.
    let text = if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) };
    if let Some(rendered) = rendered(&text, links, is_interrupted)? {
        match sanitize::sanitize(&rendered, MAX_HTML_BYTES, is_interrupted) {
            Err(Unsanitized::TooLong) => {}
            sanitized => return sanitized.map_err(|_| Interrupted),
        }
    }
    let mut preformatted = String::with_capacity(text.len() + text.len() / 2);
    preformatted.push_str("<pre>\n");
    escape(&mut preformatted, &text);
    preformatted.push_str("</pre>\n");
    sanitize::sanitize(&preformatted, usize::MAX, is_interrupted).map_err(|_| Interrupted)
}

/// Returns unsanitised HTML; `None` if it exceeds a limit.
fn rendered(
    text: &str,
    links: Option<&ReferenceLinks>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Option<String>, Interrupted> {
    let bounded = bounded(text);
    let extensions = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut document = Document::new(walk(&bounded, extensions, MAX_DEPTH, || !is_interrupted()), links);
    let mut rendered = String::with_capacity(bounded.len() + bounded.len() / 2);
    html::push_html(&mut rendered, document.by_ref());
    if is_interrupted() {
        return Err(Interrupted);
    }
    Ok((!document.is_too_large() && rendered.len() <= MAX_HTML_BYTES).then_some(rendered))
}

fn escape(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['<', '>', '&']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'<' => "&lt;",
            b'>' => "&gt;",
            _ => "&amp;",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests;
