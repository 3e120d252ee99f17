//! Makes the events of a text well-formed and bounded before they are written. Parses HTML in the
//! text and closes its tags where the surrounding element ends; limits the number and nesting of
//! elements; highlights code; adds links.
//!
//! So the sanitiser's tree has at most [`MAX_ELEMENTS`], and the rules by which browsers repair
//! misnested tags, which could turn a small text into a huge tree, repeat no element.

use std::collections::VecDeque;

use pulldown_cmark::{CowStr, Event, LinkType, Tag, TagEnd};

use super::elements::{Element, Kind, LANGUAGE_CLASS};
use super::links::{Part, ReferenceLinks, parts};
use super::raw_html::{Piece, Pieces, is_script_tag};
use super::{escape, highlight};
use crate::walk::{Step, Walk, is_inline};

const MAX_ELEMENTS: usize = 128 * 1024;
/// Maximum size of the URLs and highlighting added to a text, in bytes.
const MAX_ADDED_BYTES: usize = 4 * 1024 * 1024;
/// Maximum nesting of Markdown elements. Deeper ones are dropped; their text stays.
pub(super) const MAX_DEPTH: usize = 64;
/// Maximum nesting of HTML elements. Deeper ones are dropped; their text stays.
const MAX_HTML_DEPTH: usize = 32;
/// Maximum number of HTML start tags; more are dropped.
const MAX_HTML_TAGS: usize = 10_000;
const MAX_LANGUAGE_BYTES: usize = 32;
/// Elements whose text gets no links.
const WITHOUT_LINKS: [&str; 6] = ["a", "code", "kbd", "pre", "samp", "tt"];

#[derive(Clone, Copy, Debug)]
enum Open {
    Markdown { is_inline: bool },
    Html(&'static Element),
}

pub(super) struct Document<'t, I> {
    walk: Walk<'t, I>,
    links: Option<&'t ReferenceLinks>,
    ready: VecDeque<Event<'t>>,
    open: Vec<Open>,
    html_depth: usize,
    /// Open HTML elements whose text gets no links.
    without_links: usize,
    elements_left: usize,
    added_bytes_left: usize,
    html_tags_left: usize,
    highlighter: highlight::Budget,
    is_too_large: bool,
    is_ended: bool,
}

impl<'t, I: Iterator<Item = Event<'t>>> Document<'t, I> {
    pub(super) fn new(walk: Walk<'t, I>, links: Option<&'t ReferenceLinks>) -> Self {
        Self {
            walk,
            links,
            ready: VecDeque::new(),
            open: Vec::new(),
            html_depth: 0,
            without_links: 0,
            elements_left: MAX_ELEMENTS,
            added_bytes_left: MAX_ADDED_BYTES,
            html_tags_left: MAX_HTML_TAGS,
            highlighter: highlight::Budget::default(),
            is_too_large: false,
            is_ended: false,
        }
    }

    /// Returns whether the events ended early because the text exceeds a limit.
    pub(super) fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Counts elements and added bytes.
    fn count(&mut self, elements: usize, added_bytes: usize) {
        match (self.elements_left.checked_sub(elements), self.added_bytes_left.checked_sub(added_bytes)) {
            (Some(elements), Some(bytes)) => (self.elements_left, self.added_bytes_left) = (elements, bytes),
            _ => self.is_too_large = true,
        }
    }

    fn process(&mut self, step: Step<'t>) {
        match step {
            Step::Start(tag) => self.start(tag),
            Step::End(end) => self.end(end),
            Step::Text(text) => self.text(text),
            Step::Code { info, code } => self.code_block(&language(&info), &code),
            // The content of an image becomes text.
            Step::Html { .. } if self.walk.is_in_image() => {}
            Step::Html { html, is_block } => self.html(&html, !is_block),
            Step::Other(Event::Rule) => {
                self.close_before_block(None);
                self.count(1, 0);
                self.ready.push_back(Event::Rule);
            }
            Step::Other(Event::SoftBreak) => self.ready.push_back(Event::SoftBreak),
            Step::Other(other) => {
                self.count(1, 0);
                self.ready.push_back(other);
            }
        }
    }

    fn start(&mut self, tag: Tag<'t>) {
        let is_inline = is_inline(tag.to_end());
        if !is_inline {
            self.close_before_block(None);
        }
        self.open.push(Open::Markdown { is_inline });
        let added_bytes = match &tag {
            // References to one URL repeat it.
            Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. } => dest_url.len() + title.len(),
            _ => 0,
        };
        self.count(1, added_bytes);
        self.ready.push_back(Event::Start(tag));
    }

    fn end(&mut self, end: TagEnd) {
        while let Some(Open::Html(_)) = self.open.last() {
            self.close();
        }
        self.open.pop();
        self.ready.push_back(Event::End(end));
    }

    fn text(&mut self, text: CowStr<'t>) {
        if self.without_links > 0 || self.walk.is_in_link() || self.walk.is_in_image() {
            self.ready.push_back(Event::Text(text));
            return;
        }
        for part in parts(&text, self.links) {
            match part {
                Part::Text(range) if range.len() == text.len() => {
                    self.ready.push_back(Event::Text(text));
                    return;
                }
                Part::Text(range) => self.ready.push_back(Event::Text(text[range].to_owned().into())),
                Part::Link { url, range, is_code } => {
                    self.count(2, url.len());
                    let link = Tag::Link {
                        link_type: LinkType::Autolink,
                        dest_url: url.into(),
                        title: CowStr::Borrowed(""),
                        id: CowStr::Borrowed(""),
                    };
                    self.ready.push_back(Event::Start(link));
                    let shown = CowStr::from(text[range].to_owned());
                    self.ready.push_back(if is_code { Event::Code(shown) } else { Event::Text(shown) });
                    self.ready.push_back(Event::End(TagEnd::Link));
                }
            }
            if self.is_too_large {
                return;
            }
        }
    }

    fn code_block(&mut self, language: &str, code: &str) {
        self.close_before_block(None);
        let mut html = String::with_capacity(code.len() + 64);
        html.push_str("<pre><code");
        if !language.is_empty() {
            html.push_str(" class=\"");
            html.push_str(LANGUAGE_CLASS);
            html.push_str(language);
            html.push('"');
        }
        html.push('>');
        let before = html.len();
        match self.highlighter.highlight(language, code) {
            Some(highlighted) => {
                html.push_str(&highlighted.html);
                self.count(highlighted.spans + 2, html.len().saturating_sub(before + code.len()));
            }
            None => {
                escape(&mut html, code);
                self.count(2, 0);
            }
        }
        html.push_str("</code></pre>\n");
        self.ready.push_back(Event::Html(html.into()));
    }

    /// Adds HTML from the text, inline or as a block.
    fn html(&mut self, html: &str, is_in_line: bool) {
        if is_in_line && is_script_tag(html) {
            self.ready.push_back(Event::Text(html.to_owned().into()));
            return;
        }
        for piece in Pieces::new(html) {
            match piece {
                Piece::Text(text) => {
                    // Entities stay.
                    self.ready.push_back(Event::InlineHtml(text.replace('<', "&lt;").replace('>', "&gt;").into()));
                }
                Piece::Open(element, attributes) => self.open_html(element, &attributes, is_in_line),
                Piece::Close(element) => self.close_html(element),
            }
            if self.is_too_large {
                return;
            }
        }
    }

    fn open_html(&mut self, element: &'static Element, attributes: &[(&'static str, &str)], is_in_line: bool) {
        let is_block = !matches!(element.kind, Kind::Inline | Kind::Void);
        if self.html_tags_left == 0 || self.html_depth >= MAX_HTML_DEPTH || (is_block && self.is_in_inline_markdown()) {
            return;
        }
        if is_in_line && matches!(element.kind, Kind::TablePart | Kind::Cell) {
            return;
        }
        if is_block {
            self.close_before_block(Some(element));
        }
        if !self.may_have(element) {
            return;
        }
        self.html_tags_left -= 1;
        let mut tag = format!("<{}", element.name);
        for (name, value) in attributes {
            let value = value.replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
            tag.push_str(&format!(" {name}=\"{value}\""));
        }
        tag.push('>');
        self.count(1, 0);
        self.ready.push_back(Event::InlineHtml(tag.into()));
        if element.has_content() {
            self.open.push(Open::Html(element));
            self.html_depth += 1;
            self.without_links += usize::from(WITHOUT_LINKS.contains(&element.name));
        }
    }

    /// Closes an HTML element of the current Markdown element, and those inside it.
    fn close_html(&mut self, element: &'static Element) {
        let of_present = self.open.iter().rev().take_while(|open| matches!(open, Open::Html(_)));
        let place = of_present.map(|open| matches!(open, Open::Html(open) if *open == element)).position(|is_it| is_it);
        for _ in 0..place.map_or(0, |place| place + 1) {
            self.close();
        }
    }

    /// Closes the last element, which must be HTML.
    fn close(&mut self) {
        let Some(Open::Html(element)) = self.open.pop() else { return };
        self.html_depth -= 1;
        self.without_links -= usize::from(WITHOUT_LINKS.contains(&element.name));
        self.ready.push_back(Event::InlineHtml(format!("</{}>", element.name).into()));
    }

    /// Closes the HTML elements that cannot contain the next block: `next`, or a Markdown block.
    fn close_before_block(&mut self, next: Option<&Element>) {
        while let Some(Open::Html(last)) = self.open.last()
            && ends_before(last, next)
        {
            self.close();
        }
    }

    /// Returns whether the last HTML element may contain `element`.
    fn may_have(&self, element: &Element) -> bool {
        let parent = match self.open.last() {
            Some(Open::Html(parent)) => Some(parent),
            Some(Open::Markdown { .. }) | None => None,
        };
        let is_any = |names: &[&str]| parent.is_some_and(|parent| names.contains(&parent.name));
        match element.name {
            "caption" | "thead" | "tbody" | "tfoot" => is_any(&["table"]),
            "tr" => is_any(&["table", "thead", "tbody", "tfoot"]),
            "td" | "th" => is_any(&["tr"]),
            _ => parent.is_none_or(|parent| parent.kind != Kind::TablePart),
        }
    }

    /// Returns whether the last Markdown element is inline.
    fn is_in_inline_markdown(&self) -> bool {
        let last = self.open.iter().rev().find_map(|open| match open {
            Open::Markdown { is_inline } => Some(*is_inline),
            Open::Html(_) => None,
        });
        last.unwrap_or(false)
    }
}

impl<'t, I: Iterator<Item = Event<'t>>> Iterator for Document<'t, I> {
    type Item = Event<'t>;

    fn next(&mut self) -> Option<Event<'t>> {
        while !self.is_too_large {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_ended {
                return None;
            }
            match self.walk.next() {
                Some(step) => self.process(step),
                None => {
                    self.is_ended = true;
                    while !self.open.is_empty() {
                        self.close();
                    }
                }
            }
        }
        None
    }
}

/// Returns whether the open element `last` ends before a block: `next`, or a Markdown block.
fn ends_before(last: &Element, next: Option<&Element>) -> bool {
    let next = next.map_or("", |next| next.name);
    let is_row = |name: &str| matches!(name, "tr" | "thead" | "tbody" | "tfoot");
    match (last.kind, last.name) {
        (Kind::Inline, _) | (_, "p") => true,
        (Kind::Cell, _) => is_row(next) || matches!(next, "td" | "th"),
        (_, "tr") => !matches!(next, "td" | "th"),
        (_, "table") => !is_row(next) && next != "caption",
        (Kind::TablePart, _) => next != "tr",
        (_, "li") => next == "li",
        (_, "dt" | "dd") => matches!(next, "dt" | "dd"),
        _ => false,
    }
}

/// Returns the language name at the start of the info string; empty if it cannot be a class.
fn language(info: &str) -> String {
    let name = info.split([' ', '\t', ',', '{']).next().unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'#' | b'-' | b'_' | b'.');
    if name.len() > MAX_LANGUAGE_BYTES || !name.bytes().all(is_plain) {
        String::new()
    } else {
        name.to_ascii_lowercase()
    }
}
