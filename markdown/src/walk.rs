//! Walks over a Markdown text, for references and rendering. Collects blocks of code and HTML,
//! drops elements nested too deeply, and tells whether a text is in a link or an image.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd, TextMergeStream};

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'t> {
    /// The start of an element other than a code or HTML block.
    Start(Tag<'t>),
    /// The end of such an element.
    End(TagEnd),
    /// Text that is neither code nor HTML.
    Text(CowStr<'t>),
    /// A code block.
    Code {
        /// The text after the fence; empty without a fence.
        info: CowStr<'t>,
        /// The lines of code.
        code: String,
    },
    /// HTML.
    Html {
        /// As written.
        html: CowStr<'t>,
        /// Whether it is a block or inline.
        is_block: bool,
    },
    /// Anything else, without content.
    Other(Event<'t>),
}

/// A block whose text is being collected.
#[derive(Debug)]
enum Block<'t> {
    Html(String),
    Code { info: CowStr<'t>, code: String },
}

/// Iterates over the parts of a text, and tells where the last one was.
#[derive(Debug)]
pub struct Walk<'t, I> {
    events: TextMergeStream<'t, I>,
    block: Option<Block<'t>>,
    max_depth: usize,
    depth: usize,
    /// Open elements that are dropped.
    skipped: usize,
    links: usize,
    images: usize,
    /// Inside a link that shows its own URL and contains no elements.
    is_in_address: bool,
}

/// Walks over a [bounded](crate::bounds::bounded) text while `goes_on` returns true. Drops elements
/// nested deeper than `max_depth`, but not their content. Code and HTML blocks do not count.
pub fn walk<'t>(
    text: &'t str,
    extensions: Options,
    max_depth: usize,
    goes_on: impl Fn() -> bool,
) -> Walk<'t, impl Iterator<Item = Event<'t>>> {
    let events = Parser::new_ext(text, extensions).take_while(move |_| goes_on());
    Walk {
        events: TextMergeStream::new(events),
        block: None,
        max_depth,
        depth: 0,
        skipped: 0,
        links: 0,
        images: 0,
        is_in_address: false,
    }
}

impl<'t, I: Iterator<Item = Event<'t>>> Walk<'t, I> {
    /// Returns whether the last step is in a link.
    #[must_use]
    pub fn is_in_link(&self) -> bool {
        self.links > 0
    }

    /// Returns whether the last step is in a link that shows its own URL (`<https://example.org>`).
    #[must_use]
    pub fn is_in_address(&self) -> bool {
        self.is_in_address
    }

    /// Returns whether the last step is in the description of an image.
    #[must_use]
    pub fn is_in_image(&self) -> bool {
        self.images > 0
    }

    /// Processes an event. Returns `None` if it only extends a block or is dropped.
    fn step(&mut self, event: Event<'t>) -> Option<Step<'t>> {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) => match &mut self.block {
                Some(Block::Code { code, .. }) => {
                    code.push_str(&text);
                    None
                }
                // The indentation of an HTML block arrives as text.
                _ => Some(Step::Text(text)),
            },
            Event::Html(html) => match &mut self.block {
                Some(Block::Html(block)) => {
                    block.push_str(&html);
                    None
                }
                _ => Some(Step::Html { html, is_block: false }),
            },
            Event::InlineHtml(html) => Some(Step::Html { html, is_block: false }),
            other => Some(Step::Other(other)),
        }
    }

    fn start(&mut self, tag: Tag<'t>) -> Option<Step<'t>> {
        match tag {
            Tag::HtmlBlock => self.block = Some(Block::Html(String::new())),
            Tag::CodeBlock(kind) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info,
                    CodeBlockKind::Indented => CowStr::Borrowed(""),
                };
                self.block = Some(Block::Code { info, code: String::new() });
            }
            _ if self.skipped > 0 || self.depth >= self.max_depth => self.skipped += 1,
            tag => {
                self.depth += 1;
                match &tag {
                    Tag::Link { link_type, .. } => {
                        self.links += 1;
                        self.is_in_address = matches!(link_type, LinkType::Autolink | LinkType::Email);
                    }
                    Tag::Image { .. } => self.images += 1,
                    _ => {}
                }
                return Some(Step::Start(tag));
            }
        }
        None
    }

    fn end(&mut self, end: TagEnd) -> Option<Step<'t>> {
        match (end, self.block.take()) {
            (TagEnd::HtmlBlock, Some(Block::Html(html))) => Some(Step::Html { html: html.into(), is_block: true }),
            (TagEnd::CodeBlock, Some(Block::Code { info, code })) => Some(Step::Code { info, code }),
            _ if self.skipped > 0 => {
                self.skipped -= 1;
                None
            }
            (end, _) => {
                self.depth = self.depth.saturating_sub(1);
                match end {
                    TagEnd::Link => {
                        self.links = self.links.saturating_sub(1);
                        self.is_in_address = false;
                    }
                    TagEnd::Image => self.images = self.images.saturating_sub(1),
                    _ => {}
                }
                Some(Step::End(end))
            }
        }
    }
}

impl<'t, I: Iterator<Item = Event<'t>>> Iterator for Walk<'t, I> {
    type Item = Step<'t>;

    fn next(&mut self) -> Option<Step<'t>> {
        loop {
            let event = self.events.next()?;
            if let Some(step) = self.step(event) {
                return Some(step);
            }
        }
    }
}

/// Returns whether an element is inline.
#[must_use]
pub fn is_inline(end: TagEnd) -> bool {
    matches!(end, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Steps as text: brackets for elements, and texts with their positions.
    fn steps(text: &str, max_depth: usize) -> String {
        let mut walked = walk(text, Options::empty(), max_depth, || true);
        let mut written = Vec::new();
        while let Some(step) = walked.next() {
            let link = if walked.is_in_link() { "link:" } else { "" };
            let address = if walked.is_in_address() { "address:" } else { "" };
            let image = if walked.is_in_image() { "image:" } else { "" };
            written.push(match step {
                Step::Start(_) => "(".to_owned(),
                Step::End(_) => ")".to_owned(),
                Step::Text(text) => format!("{link}{address}{image}{}", text.trim()),
                Step::Code { info, code } => format!("code:{info}:{}", code.trim_end()),
                Step::Html { html, is_block: true } => format!("block:{}", html.trim_end()),
                Step::Html { html, is_block: false } => format!("line:{html}"),
                Step::Other(_) => "-".to_owned(),
            });
        }
        written.retain(|step| !step.is_empty());
        written.join(" ")
    }

    #[test]
    fn blocks_come_whole_and_texts_with_their_place() {
        for (text, expected) in [
            ("a *b* `c` <i>", "( a ( b ) - line:<i> )"),
            ("```rust x\na\nb\n```\n\n    c", "code:rust x:a\nb code::c"),
            ("<div>\n*a*\n</div>", "block:<div>\n*a*\n</div>"),
            ("[a *b*](x) c", "( ( link:a ( link:b ) ) c )"),
            ("<http://x> a", "( ( link:address:http://x ) a )"),
            ("![a](x) b", "( ( image:a ) b )"),
            ("[![a](x)](y)", "( ( ( link:image:a ) ) )"),
        ] {
            assert_eq!(steps(text, usize::MAX), expected, "{text}");
        }
    }

    #[test]
    fn of_elements_that_are_too_deep_the_content_stays() {
        assert_eq!(steps("> [a](x)\n>\n> ```\n> c\n> ```\n\n![b](x)", 1), "( a code::c ) ( b )");
        assert_eq!(steps("> [a](x)", 2), "( ( a ) )");
        assert_eq!(steps("> [a](x)", 3), "( ( ( link:a ) ) )");
    }

    #[test]
    fn a_walk_ends_when_it_may_not_go_on() {
        let left = Cell::new(2);
        let may_go_on = || left.replace(left.get() - 1) > 0;
        assert_eq!(walk("a\n\nb", Options::empty(), usize::MAX, may_go_on).count(), 2);
    }
}
