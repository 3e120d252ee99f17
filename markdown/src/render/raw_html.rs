//! Splits HTML inside a Markdown text into text and allowed tags. Drops comments, declarations,
//! other tags, and the content of scripts and the like. [`super::sanitize`] has the final say on
//! attributes and values.

use super::elements::Element;

/// Longest tag, in bytes. A longer one is text.
const MAX_TAG_BYTES: usize = 4096;
const MAX_ATTRIBUTES: usize = 16;
const REMOVED_WITH_CONTENT: [&str; 13] = [
    "script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes", "noscript", "template", "svg",
    "math", "object",
];

/// Returns whether a tag begins or ends a script or style.
pub(super) fn is_script_tag(tag: &str) -> bool {
    let Some(tag) = tag.strip_prefix('<') else { return false };
    let tag = tag.strip_prefix('/').unwrap_or(tag);
    let name = tag.split(|char: char| !char.is_ascii_alphanumeric() && char != '-').next().unwrap_or_default();
    ["script", "style"].into_iter().any(|script| name.eq_ignore_ascii_case(script))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// Text as written, with entities. May contain `<`.
    Text(&'t str),
    /// A start tag, with attribute values as written.
    Open(&'static Element, Vec<(&'static str, &'t str)>),
    /// An end tag.
    Close(&'static Element),
}

/// Iterates over the pieces. Reads every byte a constant number of times.
pub(super) struct Pieces<'t> {
    rest: &'t str,
}

impl<'t> Pieces<'t> {
    pub(super) fn new(html: &'t str) -> Self {
        Self { rest: html }
    }

    /// Takes the first `length` bytes.
    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Skips everything up to and including `end`, or all if it is missing.
    fn skip_past(&mut self, end: &str) {
        self.rest = self.rest.find(end).map_or("", |at| &self.rest[at + end.len()..]);
    }

    /// Parses markup that starts with `<`; `None` if it is dropped.
    fn markup(&mut self) -> Option<Piece<'t>> {
        if self.rest.starts_with("<!--") {
            self.skip_past("-->");
            return None;
        }
        if self.rest.starts_with("<!") || self.rest.starts_with("<?") {
            self.skip_past(">");
            return None;
        }
        let is_closing = self.rest.starts_with("</");
        let begin = if is_closing { 2 } else { 1 };
        let name_length =
            self.rest[begin..].bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
        let name = &self.rest[begin..begin + name_length];
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Some(Piece::Text(self.take(1)));
        }
        let window = &self.rest[..self.rest.floor_char_boundary(MAX_TAG_BYTES)];
        let tag = Tag::read(&window[begin + name_length..]);
        let length = begin + name_length + tag.length;
        if !tag.is_closed {
            return Some(Piece::Text(self.take(length)));
        }
        self.take(length);
        let element = Element::find(name);
        match element {
            Some(element) if is_closing => element.has_content().then_some(Piece::Close(element)),
            Some(element) => {
                let mut attributes: Vec<(&str, &str)> = Vec::new();
                for (name, value) in tag.attributes {
                    if let Some(known) = element.attribute(name)
                        && !attributes.iter().any(|(seen, _)| *seen == known)
                    {
                        attributes.push((known, value));
                    }
                }
                Some(Piece::Open(element, attributes))
            }
            None => {
                let is_removed = |removed: &&str| !is_closing && removed.eq_ignore_ascii_case(name);
                if let Some(name) = REMOVED_WITH_CONTENT.into_iter().find(is_removed) {
                    self.skip_content(name);
                }
                None
            }
        }
    }

    /// Skips everything up to the end tag of `name`, or all if it is missing.
    fn skip_content(&mut self, name: &'static str) {
        let is_end = |at: &usize| {
            let after = &self.rest.as_bytes()[at + 2..];
            after.len() >= name.len() && after[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        };
        let end = self.rest.match_indices("</").map(|(at, _)| at).find(is_end);
        self.rest = end.map_or("", |at| &self.rest[at..]);
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        while !self.rest.is_empty() {
            match self.rest.find('<') {
                Some(0) => {
                    if let Some(piece) = self.markup() {
                        return Some(piece);
                    }
                }
                Some(at) => return Some(Piece::Text(self.take(at))),
                None => return Some(Piece::Text(self.take(self.rest.len()))),
            }
        }
        None
    }
}

/// The rest of a tag after its name.
struct Tag<'t> {
    length: usize,
    /// False if the text ended first.
    is_closed: bool,
    attributes: Vec<(&'t str, &'t str)>,
}

impl<'t> Tag<'t> {
    fn read(text: &'t str) -> Self {
        let mut tag = Self { length: 0, is_closed: false, attributes: Vec::new() };
        loop {
            tag.skip(text, |byte| byte.is_ascii_whitespace() || byte == b'/');
            match text.as_bytes().get(tag.length) {
                None => return tag,
                Some(b'>') => {
                    tag.length += 1;
                    tag.is_closed = true;
                    return tag;
                }
                // Skip a character that cannot start a name.
                Some(b'=' | b'"' | b'\'' | b'<') => tag.length += 1,
                Some(_) => tag.attribute(text),
            }
        }
    }

    /// Skips bytes and returns them.
    fn skip(&mut self, text: &'t str, is_skipped: impl Fn(u8) -> bool) -> &'t str {
        let begin = self.length;
        self.length += text.as_bytes()[begin..].iter().take_while(|byte| is_skipped(**byte)).count();
        &text[begin..self.length]
    }

    fn attribute(&mut self, text: &'t str) {
        let name = self.skip(text, |byte| !byte.is_ascii_whitespace() && !matches!(byte, b'/' | b'>' | b'='));
        self.skip(text, |byte| byte.is_ascii_whitespace());
        let mut value = "";
        if text.as_bytes().get(self.length) == Some(&b'=') {
            self.length += 1;
            self.skip(text, |byte| byte.is_ascii_whitespace());
            value = match text.as_bytes().get(self.length) {
                Some(quote @ (b'"' | b'\'')) => {
                    self.length += 1;
                    let value = self.skip(text, |byte| byte != *quote);
                    self.length = (self.length + 1).min(text.len());
                    value
                }
                _ => self.skip(text, |byte| !byte.is_ascii_whitespace() && byte != b'>'),
            };
        }
        if self.attributes.len() < MAX_ATTRIBUTES {
            self.attributes.push((name, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(html: &str) -> Vec<String> {
        let write = |piece| match piece {
            Piece::Text(text) => format!("'{text}'"),
            Piece::Open(element, attributes) => {
                let attributes = attributes.iter().map(|(name, value)| format!(" {name}={value}"));
                format!("<{}{}>", element.name, attributes.collect::<String>())
            }
            Piece::Close(element) => format!("</{}>", element.name),
        };
        Pieces::new(html).map(write).collect()
    }

    #[test]
    fn tags_are_read_as_browsers_read_them() {
        for (html, expected) in [
            ("a<b>c</B >d", vec!["'a'", "<b>", "'c'", "</b>", "'d'"]),
            ("<A HREF=x title='y z' x=1 href=2>", vec!["<a href=x title=y z>"]),
            ("<img src = \"a>b\" alt>", vec!["<img src=a>b alt=>"]),
            ("<br/><br / ></br>", vec!["<br>", "<br>"]),
            ("<a/href='x'/title=y>", vec!["<a href=x title=y>"]),
            ("<a =\"x\" '<b>", vec!["<a>"]),
            ("a < b <3 <", vec!["'a '", "'<'", "' b '", "'<'", "'3 '", "'<'"]),
            ("<unknown x>y</unknown>", vec!["'y'"]),
            ("<!-- <b> --><!doctype x><?php <b> ?>z", vec!["' ?>z'"]),
            ("<script>alert('<b>')</SCRIPT>x", vec!["'x'"]),
            ("<svg><b>x</b></svg>y<style><b>", vec!["'y'"]),
            ("<b title=\"unclosed", vec!["'<b title=\"unclosed'"]),
            ("&lt;b&gt;", vec!["'&lt;b&gt;'"]),
        ] {
            assert_eq!(pieces(html), expected, "{html}");
        }
        let long = format!("<b title='{}'>", "é".repeat(MAX_TAG_BYTES));
        assert!(matches!(Pieces::new(&long).next(), Some(Piece::Text(_))));
    }

    #[test]
    fn tags_of_scripts_and_styles_are_known_by_their_names() {
        for tag in ["<script>", "</script>", "<STYLE x>", "</Style >", "<script/>", "<style\n>"] {
            assert!(is_script_tag(tag), "{tag}");
        }
        for tag in ["<scripts>", "<b>", "<style-x>", "</>", "<!-- <script> -->", "script", "", "<", "<x script>"] {
            assert!(!is_script_tag(tag), "{tag}");
        }
    }

    #[test]
    fn hostile_html_takes_linear_time() {
        for unit in [
            "<",
            "<a",
            "<a x=\"",
            "<a '",
            "</",
            "</a",
            "<!--",
            "<!",
            "<?",
            "<script>",
            "<a =",
            "<b>",
            "<b a b c d>",
            "</script",
        ] {
            let html = unit.repeat(1024 * 1024 / unit.len());
            crate::testing::assert_within(std::time::Duration::from_secs(3), &html, || Pieces::new(&html).count());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(html in "([<>/='\"!a? -]|<b |<script>|\\PC){0,60}") {
            let _ = Pieces::new(&html).count();
        }
    }
}
