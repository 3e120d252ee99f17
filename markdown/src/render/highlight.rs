//! Highlights code with classes, by what languages have in common: comments, strings, numbers,
//! keywords, tags. A single pass without regular expressions, so it always takes linear time.
//!
//! The class names are those of Pygments, for which there are many style sheets.

use super::languages::Language;
use super::{MAX_HTML_BYTES, escape};

const MAX_BLOCK_BYTES: usize = 64 * 1024;
/// Maximum size of highlighted code per text, in bytes. Later blocks are plain.
const MAX_TEXT_BYTES: usize = 256 * 1024;
/// Language names of patches, whose lines are highlighted.
const PATCHES: [&str; 2] = ["diff", "patch"];
const SPAN_BEGIN: &str = "<span";
const SPAN_END: &str = "</span>";

/// How much code of a text may still be highlighted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    bytes_left: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes_left: MAX_TEXT_BYTES }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Highlighted {
    pub(super) html: String,
    pub(super) spans: usize,
}

impl Budget {
    /// Highlights a code block; `None` for an unknown language or too much code.
    pub(super) fn highlight(&mut self, language: &str, code: &str) -> Option<Highlighted> {
        let is_patch = PATCHES.contains(&language);
        let known = Language::find(language);
        if (known.is_none() && !is_patch) || code.len() > MAX_BLOCK_BYTES {
            return None;
        }
        self.bytes_left = self.bytes_left.checked_sub(code.len())?;
        match known {
            Some(language) => Some(Lexer::new(language, code).highlight()),
            None => Some(patch(code)),
        }
    }
}

/// Highlights a file in the language that its name tells, and returns the HTML of each line,
/// without the end of the line. A file of an unknown language, or with too
/// many tokens, is only escaped. Takes linear time.
///
/// A line ends with LF or CR LF. Any other CR is shown as a symbol, because browsers would see it as
/// the end of a line.
#[must_use]
pub fn highlight_file(name: &str, text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\u{240d}");
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let highlighted = match Language::of_file(name) {
        Some(language) => Lexer::new(language, text).highlight(),
        None if PATCHES.iter().any(|patch| name.strip_suffix(patch).is_some_and(|stem| stem.ends_with('.'))) => {
            patch(text)
        }
        None => Highlighted::default(),
    };
    if highlighted.spans > 0 && highlighted.html.len() <= MAX_HTML_BYTES {
        return lines(&highlighted.html);
    }
    let mut html = String::with_capacity(text.len());
    escape(&mut html, text);
    lines(&html)
}

/// Splits highlighted HTML into lines. A span that goes over several lines becomes one in each.
fn lines(html: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = "";
    for line in html.split('\n') {
        let begin = open;
        let last_end = line.rfind(SPAN_END);
        match line.rfind(SPAN_BEGIN) {
            // The tag ends with the first `>`, as the text has none.
            Some(last) if last_end.is_none_or(|end| end < last) => {
                open = line[last..].split_inclusive('>').next().unwrap_or_default();
            }
            _ if last_end.is_some() => open = "",
            _ => {}
        }
        let end = if open.is_empty() { "" } else { SPAN_END };
        // Only text has this: a path after a quote looks like a link of the page.
        lines.push([begin, &line.replace("=\"/", "=&quot;/"), end].concat());
    }
    lines
}

impl Highlighted {
    fn push(&mut self, class: Option<&str>, text: &str) {
        if text.is_empty() {
            return;
        }
        match class {
            Some(class) => {
                self.html.push_str("<span class=\"");
                self.html.push_str(class);
                self.html.push_str("\">");
                escape(&mut self.html, text);
                self.html.push_str("</span>");
                self.spans += 1;
            }
            None => escape(&mut self.html, text),
        }
    }
}

fn patch(code: &str) -> Highlighted {
    let mut highlighted = Highlighted::default();
    for line in code.split_inclusive('\n') {
        let text = line.trim_end_matches('\n');
        let class = match text.as_bytes().first() {
            Some(b'+') => Some("gi"),
            Some(b'-') => Some("gd"),
            Some(b'@') => Some("gu"),
            _ => None,
        };
        highlighted.push(class, text);
        highlighted.push(None, &line[text.len()..]);
    }
    highlighted
}

/// Splits code into tokens. Reads every byte a constant number of times.
struct Lexer<'c> {
    language: &'static Language,
    code: &'c str,
    at: usize,
    /// Start of plain text before `at` that is not written yet.
    plain: usize,
    done: Highlighted,
}

impl<'c> Lexer<'c> {
    fn new(language: &'static Language, code: &'c str) -> Self {
        Self { language, code, at: 0, plain: 0, done: Highlighted::default() }
    }

    fn highlight(mut self) -> Highlighted {
        while let Some(next) = self.code[self.at..].chars().next() {
            match self.token(next) {
                Some((class, length)) if length > 0 => {
                    self.done.push(None, &self.code[self.plain..self.at]);
                    let end = self.at + length;
                    self.done.push(Some(class), &self.code[self.at..end]);
                    (self.at, self.plain) = (end, end);
                }
                _ => self.at += self.plain_length(next),
            }
        }
        self.done.push(None, &self.code[self.plain..]);
        self.done
    }

    /// Returns class and length of the token here, if it has a class.
    fn token(&self, next: char) -> Option<(&'static str, usize)> {
        let rest = &self.code[self.at..];
        let language = self.language;
        if let Some((begin, end)) = language.block_comments.iter().find(|(begin, _)| rest.starts_with(begin)) {
            return Some(("c", length_past(rest, begin.len(), end)));
        }
        if language.line_comments.iter().any(|sign| rest.starts_with(sign) && self.may_begin_comment(sign)) {
            return Some(("c", rest.find('\n').unwrap_or(rest.len())));
        }
        if let Some(quote) = language.long_quotes.iter().find(|quote| rest.starts_with(**quote)) {
            return Some(("s", length_past(rest, quote.len(), quote)));
        }
        if language.quotes.contains(&next) {
            return Some(("s", quoted_length(rest, next)));
        }
        if language.has_characters && next == '\'' {
            return character_length(rest).map(|length| ("s", length));
        }
        if language.has_tags && next == '<' {
            let signs = if rest.starts_with("</") { 2 } else { 1 };
            let name = rest[signs..]
                .bytes()
                .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b':'))
                .count();
            return (name > 0).then_some(("nt", signs + name));
        }
        if next.is_ascii_digit() {
            return Some(("m", number_length(rest)));
        }
        let word = word_length(rest);
        (word > 0 && language.is_keyword(&rest[..word])).then_some(("k", word))
    }

    /// Returns whether a comment may start here. A one-character sign needs white space before it,
    /// because scripts use it elsewhere too.
    fn may_begin_comment(&self, sign: &str) -> bool {
        sign.len() > 1 || !self.code[..self.at].ends_with(|before: char| !before.is_whitespace())
    }

    /// Returns the length of plain text: a word or one character.
    fn plain_length(&self, next: char) -> usize {
        word_length(&self.code[self.at..]).max(next.len_utf8())
    }
}

fn word_length(text: &str) -> usize {
    text.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(text.len())
}

/// Returns the length up to and including `end`, searched from `begin`, or of the whole text.
fn length_past(text: &str, begin: usize, end: &str) -> usize {
    text[begin..].find(end).map_or(text.len(), |at| begin + at + end.len())
}

/// Returns the length of a quoted string. Without an end, it extends to the end of the line.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            '\n' => return at,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if char == quote => return at + char.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a quoted character, such as `'a'` or `'\n'`.
fn character_length(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    let closing = if first == '\\' { chars.skip(1).take(10).find(|(_, char)| *char == '\'') } else { chars.next() };
    closing.filter(|(_, char)| *char == '\'').map(|(at, _)| at + 1)
}

/// Returns the length of a number with letters and single dots: `0xff_u8`, `1.5e3`, but `1` of
/// `1..2`.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_part = |at: usize| match bytes.get(at) {
        Some(b'.') => bytes.get(at + 1).is_some_and(u8::is_ascii_digit),
        Some(byte) => byte.is_ascii_alphanumeric() || *byte == b'_',
        None => false,
    };
    (0..bytes.len()).take_while(|at| is_part(*at)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Spans as `class:text`.
    fn spans(language: &str, code: &str) -> Vec<String> {
        let html = Budget::default().highlight(language, code).unwrap().html;
        html.split("<span class=\"")
            .skip(1)
            .map(|span| span.split_once("</span>").unwrap().0.replace("\">", ":"))
            .collect()
    }

    #[test]
    fn comments_texts_numbers_and_keywords_get_classes() {
        for (language, code, expected) in [
            ("rust", "fn f<'a>(x: &'a str) -> char { 'x' } // end", vec!["k:fn", "s:'x'", "c:// end"]),
            (
                "rust",
                "let x = 1..2; /* a\nb */ \"q\\\"x\" '\\n' notfn",
                vec!["k:let", "m:1", "m:2", "c:/* a\nb */", "s:\"q\\\"x\"", "s:'\\n'"],
            ),
            (
                "python",
                "def f(): # c\n  \"\"\"a\nb\"\"\"\n  return 'x",
                vec!["k:def", "c:# c", "s:\"\"\"a\nb\"\"\"", "k:return", "s:'x"],
            ),
            ("sh", "echo $# a#b 'x' # c", vec!["s:'x'", "c:# c"]),
            ("sql", "SELECT a FROM b -- c", vec!["k:SELECT", "k:FROM", "c:-- c"]),
            (
                "html",
                "<!-- c --><b x=\"y\">1 &lt; 2</b>",
                vec!["c:&lt;!-- c --&gt;", "nt:&lt;b", "s:\"y\"", "m:1", "m:2", "nt:&lt;/b"],
            ),
            ("json", "{\"a\": [1.5e3, true]}", vec!["s:\"a\"", "m:1.5e3", "k:true"]),
            ("diff", "@@ -1 +1 @@\n-a\n+b\n c\n", vec!["gu:@@ -1 +1 @@", "gd:-a", "gi:+b"]),
            ("js", "`a\nb`; let é1 = 0xff_n", vec!["s:`a\nb`", "k:let", "m:0xff_n"]),
        ] {
            assert_eq!(spans(language, code), expected, "{language}: {code}");
        }
    }

    #[test]
    fn each_line_of_a_file_is_whole() {
        let lines = highlight_file("a.RS", "/* a\n\nb */ fn x() {}\r\n// <c>\n");
        let expected = [
            "<span class=\"c\">/* a</span>",
            "<span class=\"c\"></span>",
            "<span class=\"c\">b */</span> <span class=\"k\">fn</span> x() {}",
            "<span class=\"c\">// &lt;c&gt;</span>",
        ];
        assert_eq!(lines, expected);
        assert_eq!(
            highlight_file("notes", "if <a href=\"/x\">\n\nb\rc"),
            ["if &lt;a href=&quot;/x\"&gt;", "", "b\u{240d}c"]
        );
        assert_eq!(
            highlight_file("x.patch", "-a\n+b"),
            ["<span class=\"gd\">-a</span>", "<span class=\"gi\">+b</span>"]
        );
        assert_eq!(highlight_file("Makefile", "all: # x")[0], "all: <span class=\"c\"># x</span>");
        assert_eq!(highlight_file("a.rs", ""), [""]);
    }

    #[test]
    fn a_file_with_too_many_tokens_is_plain() {
        let lines = highlight_file("a.rs", &"1 ".repeat(MAX_HTML_BYTES / 16));
        assert!(!lines[0].contains("<span"));
    }

    #[test]
    fn unknown_languages_and_too_much_code_are_plain() {
        let mut budget = Budget::default();
        assert_eq!(budget.highlight("nonsense", "x"), None);
        assert_eq!(budget.highlight("rust", &" ".repeat(MAX_BLOCK_BYTES + 1)), None);
        let block = " ".repeat(MAX_BLOCK_BYTES);
        let highlighted = (0..6).filter(|_| budget.highlight("rust", &block).is_some()).count();
        assert_eq!(highlighted, MAX_TEXT_BYTES / MAX_BLOCK_BYTES);
    }

    #[test]
    fn hostile_code_takes_linear_time() {
        for language in ["rust", "python", "html", "lua", "sql", "diff", "sh"] {
            for unit in
                ["\"", "'", "/*", "'''", "<!--", "--[[", "#", "a", "1", "1.", "'\\", "\\", "<", "é", "{-", "\n", "`"]
            {
                let code = unit.repeat(MAX_BLOCK_BYTES / unit.len());
                let limit = std::time::Duration::from_secs(2);
                crate::testing::assert_within(limit, &code, || Budget::default().highlight(language, &code));
            }
        }
    }

    proptest! {
        #[test]
        fn highlighting_loses_no_text(code in "([a-z0-9\"'#/*<>&\n\\\\` .-]|fn |\\PC){0,60}", language in 0..4_usize) {
            let language = ["rust", "python", "html", "diff"][language];
            let html = Budget::default().highlight(language, &code).unwrap().html;
            let mut plain = html.replace("</span>", "");
            for class in ["k", "s", "c", "m", "nt", "gi", "gd", "gu"] {
                plain = plain.replace(&format!("<span class=\"{class}\">"), "");
            }
            prop_assert_eq!(plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"), code);
        }

        #[test]
        fn every_line_has_its_text_and_closes_its_spans(code in "([a-z0-9\"'#/*<>&\n\\\\` .=-]|fn ){0,60}") {
            let lines = highlight_file("a.py", &code);
            let expected: Vec<_> = code.strip_suffix('\n').unwrap_or(&code).split('\n').collect();
            prop_assert_eq!(lines.len(), expected.len());
            for (line, expected) in lines.iter().zip(expected) {
                prop_assert_eq!(line.matches(SPAN_BEGIN).count(), line.matches(SPAN_END).count());
                let mut plain = line.replace(SPAN_END, "");
                for class in ["k", "s", "c", "m"] {
                    plain = plain.replace(&format!("<span class=\"{class}\">"), "");
                }
                let plain = plain.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
                prop_assert_eq!(&plain, expected);
            }
        }
    }
}
