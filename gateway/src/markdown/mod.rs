//! Markdown as HTML: CommonMark with the extensions of GFM (tables, task lists, strikethrough, bare addresses), sanitised.
//!
//! A text passes four steps, each bounded: the bounds of `ferrite_markup`, which keep parsing linear; [`document`], which makes the
//! events well-formed, counts the elements, and adds links and highlighting; the writer of `pulldown-cmark`; and [`sanitize`], which
//! keeps only what is listed in [`elements`], whatever the steps before it wrote. Each step takes linear time, and ends early when it is
//! interrupted.
//!
//! Order of the files: `document` → `raw_html`, `references`, `highlight` → `languages`; `sanitize` → `elements`. Pure functions: work
//! for a blocking thread.
//!
//! Not here: the operation, and limits on the length of a text.

mod document;
mod elements;
mod highlight;
mod languages;
mod raw_html;
mod references;
mod sanitize;

use std::borrow::Cow;

use ferrite_markup::bounds::bounded;
use pulldown_cmark::{Options, Parser, TextMergeStream, html};

use self::document::Document;
pub(crate) use self::references::ReferenceLinks;
use self::sanitize::Unsanitized;
use crate::blocking::{Interrupt, Interrupted};

/// Longest HTML of a text, in bytes, before and after it is sanitised. A text with a longer one is shown as it is.
const MAX_HTML_BYTES: usize = 8 * 1024 * 1024;

/// Renders a text as HTML. With `links`, mentions of users and references to issues and commits become links.
///
/// A text that would become too many elements, or too long, is shown as preformatted text instead.
///
/// # Errors
/// [`Interrupted`].
pub(crate) fn render(text: &str, links: Option<&ReferenceLinks>, interrupt: &Interrupt) -> Result<String, Interrupted> {
    if text.is_empty() {
        return Ok(String::new());
    }
    // The sanitiser would drop it.
    let text = if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) };
    if let Some(rendered) = rendered(&text, links, interrupt)? {
        match sanitize::sanitize(&rendered, MAX_HTML_BYTES, interrupt) {
            Err(Unsanitized::TooLong) => {}
            sanitized => return sanitized.map_err(|_| Interrupted),
        }
    }
    let mut preformatted = String::with_capacity(text.len() + text.len() / 2);
    preformatted.push_str("<pre>\n");
    escape(&mut preformatted, &text);
    preformatted.push_str("</pre>\n");
    sanitize::sanitize(&preformatted, usize::MAX, interrupt).map_err(|_| Interrupted)
}

/// Returns the HTML of a text, not sanitised yet; `None` if it is above a limit.
fn rendered(text: &str, links: Option<&ReferenceLinks>, interrupt: &Interrupt) -> Result<Option<String>, Interrupted> {
    let bounded = bounded(text);
    let extensions = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_ext(&bounded, extensions).take_while(|_| interrupt.check().is_ok());
    let mut document = Document::new(TextMergeStream::new(parser), links);
    let mut rendered = String::with_capacity(bounded.len() + bounded.len() / 2);
    html::push_html(&mut rendered, document.by_ref());
    interrupt.check()?;
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
