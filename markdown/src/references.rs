//! Mentions and references in Markdown: bodies of issues and comments.
//!
//! Scans the CommonMark text that readers see, including link text, but not code, HTML, link
//! destinations, image descriptions or bare URLs.

use std::collections::HashSet;

use pulldown_cmark::Options;

use crate::bounds::bounded;
use crate::scan::{IssueRef, Scanner, Token};
use crate::walk::{Step, is_inline, walk};

const MAX_MENTIONS: usize = 100;
const MAX_REFERENCES: usize = 100;
/// HTML elements that contain code.
const CODE_ELEMENTS: [&str; 5] = ["code", "kbd", "pre", "samp", "tt"];

/// Mentions and references of a text, without duplicates, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextReferences {
    /// User names, folded as repo-svc does for look-ups; at most 100.
    pub mentions: Vec<String>,
    /// Issues; at most 100.
    pub issues: Vec<IssueRef>,
}

/// Finds mentions and references in a Markdown text.
#[must_use]
pub fn parse(text: &str) -> TextReferences {
    let mut collector = Collector::default();
    // An entity (`&#64;`, `&commat;`) may encode one of these characters.
    if !text.contains(['@', '#', '&']) {
        return collector.found;
    }
    let text = bounded(text);
    let mut walk = walk(&text, Options::empty(), usize::MAX, || true);
    // Open HTML code elements in the current block.
    let mut code_depth = 0_usize;
    while let Some(step) = walk.next() {
        match step {
            Step::Start(tag) if is_inline(tag.to_end()) => {}
            Step::End(end) if is_inline(end) => {}
            Step::Start(_) | Step::End(_) | Step::Code { .. } | Step::Html { is_block: true, .. } => code_depth = 0,
            Step::Html { html, is_block: false } => match code_tag(&html) {
                Some(CodeTag::Open) => code_depth += 1,
                Some(CodeTag::Close) => code_depth = code_depth.saturating_sub(1),
                None => {}
            },
            Step::Text(text) if code_depth == 0 && !walk.is_in_image() && !walk.is_in_address() => collector.add(&text),
            Step::Text(_) | Step::Other(_) => {}
        }
        if collector.is_full() {
            break;
        }
    }
    collector.found
}

/// A tag of an element that contains code.
enum CodeTag {
    Open,
    Close,
}

fn code_tag(tag: &str) -> Option<CodeTag> {
    let name = tag.trim_start_matches(['<', '/']).split(|next: char| !next.is_ascii_alphanumeric()).next()?;
    let is_code = CODE_ELEMENTS.iter().any(|element| element.eq_ignore_ascii_case(name));
    is_code.then_some(if tag.starts_with("</") { CodeTag::Close } else { CodeTag::Open })
}

#[derive(Default)]
struct Collector {
    found: TextReferences,
    seen_mentions: HashSet<String>,
    seen_issues: HashSet<IssueRef>,
}

impl Collector {
    fn add(&mut self, text: &str) {
        for token in Scanner::new(text) {
            match token {
                Token::Mention { name, .. } => {
                    if self.found.mentions.len() < MAX_MENTIONS && self.seen_mentions.insert(name.clone()) {
                        self.found.mentions.push(name);
                    }
                }
                Token::Issue { issue, .. } => {
                    if self.found.issues.len() < MAX_REFERENCES && self.seen_issues.insert(issue.clone()) {
                        self.found.issues.push(issue);
                    }
                }
            }
            if self.is_full() {
                return;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.found.mentions.len() >= MAX_MENTIONS && self.found.issues.len() >= MAX_REFERENCES
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::assert_within;

    const MIB: usize = 1024 * 1024;

    /// Mentions, then references, as text.
    fn found(text: &str) -> String {
        let references = parse(text);
        let mut written = String::new();
        for name in references.mentions {
            write!(written, "@{name} ").unwrap();
        }
        for IssueRef { repository, number } in references.issues {
            let (owner, name) = repository.unwrap_or_default();
            let slash = if owner.is_empty() { "" } else { "/" };
            write!(written, "{owner}{slash}{name}#{number} ").unwrap();
        }
        written.trim_end().to_owned()
    }

    #[test]
    fn the_text_of_a_document_is_scanned() {
        for (text, expected) in [
            ("", ""),
            ("plain", ""),
            ("See #12 and ada/site#3, @Ada!", "@ada #12 ada/site#3"),
            ("@ada @Ada @ADA #1 #1 A/b#1 a/B#1", "@ada #1 a/b#1"),
            ("# Heading @ada\n\n- item #1\n  1. @bob\n\n> quote #2\n> > @cy\n", "@ada @bob @cy #1 #2"),
            ("**@ada** *#1* __a/b#2__ **x #3**", "@ada #1 a/b#2 #3"),
            ("line\n@ada\n#1 no heading  \n#2\\\n#3", "@ada #1 #2 #3"),
            ("@snake_case_name and @_b", "@snake_case_name @_b"),
            ("\\@ada \\#1 &#64;bob &commat;cy &#35;2", "@ada @bob @cy #1 #2"),
            ("| a | b |\n|---|---|\n| @ada | #1 |\n\n- [ ] #2\n- [x] #3", "@ada #1 #2 #3"),
            ("#1\u{a0}#2\u{3000}#3\u{200b}#4", "#1 #2 #3 #4"),
            ("a@b.c x#1 #1a", ""),
            ("@ada\r\n\r\n#1\r\n", "@ada #1"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn code_html_and_addresses_are_not_scanned() {
        for text in [
            "`@ada` `` #1 ` a/b#1 ``",
            "```\n@ada\n#1\n```",
            "~~~ @ada #1\n#2\n~~~",
            "```\nunclosed #1",
            "    #1\n    @ada",
            "> ```\n> #1\n> ```",
            "- a\n\n      #1",
            "<div title=\"#1\">\n@ada\n</div>",
            "<!-- #1 @ada -->",
            "a <!-- #1 --> b",
            "a <b title='@ada #1'>b</b>",
            "a <code>#1</code> <KBD class=x>@ada</KBD> <pre>*#2*</pre>",
            "[text](https://example.org/#1 '@ada #2')",
            "[text][a]\n\n[a]: https://example.org/#1 \"@ada\"",
            "![@ada #1](a.png)",
            "[![#1](a.png)](/b)",
            "<https://example.org/@ada/#1> <ada@example.org>",
            "https://example.org/@ada/#1 http://a/b#1",
            "#<!-- -->1 @<!-- -->ada",
        ] {
            assert_eq!(found(text), "", "{text}");
        }
    }

    #[test]
    fn text_beside_what_is_hidden_is_scanned() {
        for (text, expected) in [
            ("`code` #1 `code` @ada", "@ada #1"),
            ("```\n#1\n```\n#2", "#2"),
            ("[#1 and @ada](https://example.org/#2)", "@ada #1"),
            ("[#1]: #2\n\n[#1] [@ada][#1] [#3] [@bob][no]", "@ada @bob #1 #3"),
            ("<b>@ada</b> <code>#1</code> #2 </code> #3", "@ada #2 #3"),
            ("<code>#1 without an end\n\n#2 in the next block", "#2"),
            ("- <code>#1\n- #2", "#2"),
            ("<div>#1</div>\n\n#2", "#2"),
            ("![#1](a.png) #2 <https://example.org> #3", "#2 #3"),
            ("``unbalanced #1 `", "#1"),
            ("https://example.org #1", "#1"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_has_at_most_100_mentions_and_100_references() {
        let mut text = String::new();
        for index in 1..=150 {
            write!(text, "@user{index} #{index} ").unwrap();
        }
        let references = parse(&text);
        assert_eq!((references.mentions.len(), references.issues.len()), (100, 100));
        assert_eq!((references.mentions[99].as_str(), references.issues[99].number), ("user100", 100));
        let references = parse(&format!("{text}{text}").replace('#', ""));
        assert_eq!((references.mentions.len(), references.issues.len()), (100, 0));
    }

    /// Pieces of hostile texts, separated by spaces. `·` is a space, `↵` a line end.
    const UNITS: &str = "[ ] ![ [a]( [a][ [a]:·b↵ [](< ( ` `·``· * _ *a_· **a·*b· > >· >↵ -· 1.· -↵ ··-·a↵ < </ <a· <!-- <!--·a <? \
         <![CDATA[ <!A & &# \\ \\[ \t · ↵ ·↵ a↵ # #· #1 #1· @ @a @a· @a/ a/ a/b#1 :// a:// a: é ~~~↵ ```a↵ ---↵ ===↵ a↵=↵ <a@b \
         http:// | |- [^1] \0 [[]() ![[]() [a](<b \"[a](b·\" <x·y='";
    /// Pairs of pieces; the first fills the first half of a text.
    const PAIRS: &str = "[ ] [ ](a) ![ ](a) [ ][a] -· ↵ -· ·↵ -· a↵ >· ↵ >· >·↵ >-· ↵> 1.· ↵↵ -·>· ↵·↵ * * *a· a*· ** _ ( ) <a· > \
         ` a` a·**b· c*· [a]:·b·'c↵ #1↵";

    /// Starts of texts whose other lines, separated by spaces, are read more than once.
    const OPENINGS: &str = "[a](b·\" [a](b·( [a](< [a `` <a·b='";
    const LINES: &str = "a↵ a\r \t>a↵ \u{a0}↵";

    fn pieces(text: &str) -> Vec<String> {
        text.split(' ').map(|piece| piece.replace('·', " ").replace('↵', "\n")).collect()
    }

    fn repeated(piece: &str, bytes: usize) -> String {
        piece.repeat(bytes / piece.len())
    }

    /// Parses a text within a time that is long for linear work and short for quadratic work.
    fn parse_in_time(text: &str) {
        let limit = if text.len() > MIB / 2 { Duration::from_secs(20) } else { Duration::from_secs(3) };
        assert_within(limit, text, || parse(&format!("{text} #1")));
    }

    #[test]
    fn hostile_texts_take_linear_time() {
        const BYTES: usize = 128 * 1024;
        for unit in pieces(UNITS) {
            parse_in_time(&repeated(&unit, BYTES));
        }
        for pair in pieces(PAIRS).chunks(2) {
            parse_in_time(&format!("{}{}", repeated(&pair[0], BYTES / 2), repeated(&pair[1], BYTES / 2)));
        }
        for (opening, line) in
            pieces(OPENINGS).iter().flat_map(|opening| pieces(LINES).into_iter().map(move |line| (opening, line)))
        {
            parse_in_time(&format!("{opening}{}", repeated(&line, BYTES)));
        }
    }

    #[test]
    fn the_worst_texts_of_one_mebibyte_take_linear_time() {
        parse_in_time(&format!("[a](b \"{}", repeated("a\n", MIB)));
        parse_in_time(&format!("[a](b ({}", repeated("a\r", MIB)));
        parse_in_time(&format!("{}{}", repeated("- ", MIB / 2), repeated("a\n", MIB / 2)));
        parse_in_time(&format!("{}{}", repeated("> ", MIB / 2), repeated(">\n", MIB / 2)));
        parse_in_time(&repeated("[](<", MIB));
        parse_in_time(&(1..1400).map(|length| format!("{} ", "`".repeat(length))).collect::<String>());
        // Lists nested by indentation, followed by many lines that continue them.
        let nested: String = (0..700).map(|depth| format!("{}- a\n", "  ".repeat(depth))).collect();
        for line in ["\n", "a\n", "> \n"] {
            parse_in_time(&format!("{nested}{}", repeated(line, MIB / 2)));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text in "([@#/a1 `*_\\[\\]()<>!&;\n\t>-]|```|#1|@a|\\PC){0,80}") {
            let references = parse(&text);
            for name in &references.mentions {
                prop_assert_eq!(&name.to_ascii_lowercase(), name);
            }
            prop_assert!(references.issues.iter().all(|issue| issue.number > 0));
        }

        #[test]
        fn code_hides_references_whatever_is_in_it(text in "[@#a1 ./_*<>&\\[\\]-]{1,60}") {
            prop_assert_eq!(found(&format!("```\n{text}\n```")), "");
            prop_assert_eq!(found(&format!("a ``{text} ``")), "");
        }
    }
}
