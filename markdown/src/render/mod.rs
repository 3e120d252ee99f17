//! Markdown as HTML: CommonMark with the extensions of GFM (tables, task lists, strikethrough, bare addresses), sanitised.
//!
//! A text passes four steps, each bounded: [`bounded`], which keeps parsing linear; `document`, which makes the events well-formed,
//! counts the elements, and adds links and highlighting; the writer of `pulldown-cmark`; and `sanitize`, which keeps only what is
//! listed in `elements`, whatever the steps before it wrote. Each step takes linear time, and ends early when it is interrupted.
//!
//! Order of the files: `document` → `raw_html`, `links`, `highlight` → `languages`; `sanitize` → `elements`. Rendering is work for a
//! blocking thread.

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
pub use self::links::ReferenceLinks;
use self::sanitize::Unsanitized;
use crate::bounds::bounded;
use crate::walk::walk;

/// Longest HTML of a text, in bytes, before and after it is sanitised. A text with a longer one is shown as it is.
const MAX_HTML_BYTES: usize = 8 * 1024 * 1024;

/// The end of a rendering that was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Renders a text as HTML. With `links`, mentions of users and references to issues and commits become links. The rendering ends early
/// once `is_interrupted`, which is called often and should cost no more than reading the clock.
///
/// A text that would become too many elements, or too long, is shown as preformatted text instead.
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

/// Returns the HTML of a text, not sanitised yet; `None` if it is above a limit.
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

/// Appends `text` as the text of an element.
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
