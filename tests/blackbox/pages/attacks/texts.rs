//! Hostile texts: what a text must not do when a page shows it. Their elements, attributes and
//! addresses have the mark of [`super::html::MARK`].

use std::cell::Cell;

/// Has every character that templates must escape, in a form that ends an attribute or a text.
pub(super) const UNIVERSAL: &str = "\"'><u class=zap>&lt;&";
/// Tags, attributes, schemes, entities, foreign content, comments, and what is not closed.
pub(super) const TEXTS: &[&str] = &[
    UNIVERSAL,
    "\"><u/class=zap>",
    "x\"onload=\"zap()",
    "<script>zap()</script>",
    "\"><script src=//zap.example></script>",
    "'><u class=zap onclick=zap()>x",
    "<img src=x onerror=zap()>",
    "<img src=\"javascript:zap()\">",
    "<img src='//zap.example/x.png' class=zap>",
    "<svg onload=zap()>",
    "<svg><script>zap()</script></svg>",
    "<svg><a xlink:href=\"javascript:zap()\"><text>x",
    "<svg><style><img src=x onerror=zap()>",
    "<math><mtext><style><img src=x onerror=zap()>",
    "<iframe srcdoc=\"<script>zap()</script>\">",
    "<iframe src=javascript:zap()>",
    "<object data=\"javascript:zap()\">",
    "<embed src=//zap.example>",
    "<base href=//zap.example/>",
    "<meta http-equiv=refresh content=0;//zap.example>",
    "<link rel=stylesheet href=//zap.example>",
    "<style>@import '//zap.example';</style>",
    "<u style=\"background:url(//zap.example)\">x",
    "<u style=position:fixed;inset:0 id=zap>x",
    "<form action=//zap.example><button name=zap>",
    "<input name=form_token value=zap onfocus=zap()>",
    "<button formaction=javascript:zap()>x",
    "<details open ontoggle=zap()>x",
    "<video><source onerror=zap()>",
    "<a href=\"javascript:zap()\">x</a>",
    "<a href=\"java&#9;script:zap()\">x</a>",
    "<a href=&#106;avascript:zap()>x</a>",
    "<a href=\"vbscript:zap()\">x</a>",
    "<a href=\"data:text/html,<script>zap()</script>\">",
    "<a id=login name=zap class=zap target=zap>x</a>",
    "[x](javascript:zap())",
    "[x](JaVaScRiPt&colon;zap())",
    "[x](java&Tab;script:zap())",
    "[x](<javascript:zap()>)",
    "[zap](data:text/html;base64,PHNjcmlwdD4=)",
    "[zap][z]\n\n[z]: javascript:zap()",
    "![x](javascript:zap())",
    "![x\"onerror=\"zap()](x.png)",
    "![zap](//zap.example/x.png)",
    "[x](https://x \"\\\"onclick=zap() \")",
    "<javascript:zap()>",
    "<https://x/\"onclick=\"zap()>",
    "https://x/\"><u class=zap>",
    "<!-- zap",
    "<!--><u class=zap>-->",
    "--><u class=zap>",
    "<![CDATA[<u class=zap>]]>",
    "<?zap <u class=zap>?>",
    "</textarea><u class=zap>",
    "</title><u class=zap>",
    "</pre></code></td></table><u class=zap>",
    "</main></body></html><u class=zap>",
    "<plaintext class=zap>",
    "<textarea class=zap>",
    "<select class=zap><option>",
    "<template class=zap><u>",
    "<noscript><u title=\"</noscript><img onerror=zap()>\">",
    "&lt;u class=zap&gt;",
    "&#60;u class=zap&#62;&#x3c;script&#x3e;zap",
    "{{ zap }}{% zap %}${zap}<%= zap %>",
    "\u{ff1c}script\u{ff1e}zap()\u{ff1c}/script\u{ff1e}",
    "<\u{17f}cript>zap()</\u{17f}cript>",
    "<u\u{a0}class=zap>",
    "<u class=zap",
    "<u title=\"zap",
    "`<u class=zap>\"`",
    "    <u class=zap>\"",
    "| <u class=zap> |\n|---|\n| ' |",
    "**<u class=zap>**_\"'_",
    "<p title='\"><u class=zap>'>",
    "href=\"/zap\" src=\"/zap\" action=\"/zap\" zap",
    "#1 @zap\"'<u class=zap> 0a1b2c3d<u class=zap>",
];

/// Hands out the texts in turn, so that each is in some field.
#[derive(Default)]
pub(super) struct Rotation(Cell<usize>);

impl Rotation {
    /// The next text of one line with at most `max` characters.
    pub(super) fn line(&self, max: usize) -> &'static str {
        self.next(|text| text.trim() == text && !text.contains('\n') && text.chars().count() <= max)
    }

    /// The next texts of one line that fit into `max` characters together.
    pub(super) fn lines(&self, max: usize) -> String {
        let mut text = self.line(max).to_owned();
        loop {
            let place = self.0.get();
            let more = self.line(max);
            if text.chars().count() + 1 + more.chars().count() > max {
                self.0.set(place);
                return text;
            }
            text = format!("{text} {more}");
        }
    }

    /// The next text that can be the name of a branch or a tag.
    pub(super) fn reference(&self) -> &'static str {
        let is_bad = |sign: char| sign.is_control() || sign.is_whitespace() || "~^:?*[\\{".contains(sign);
        self.next(|text| !text.contains(is_bad) && !text.contains("//") && !text.starts_with(['-', '/', '.']))
    }

    fn next(&self, is_fitting: impl Fn(&str) -> bool) -> &'static str {
        loop {
            let text = TEXTS[self.0.get() % TEXTS.len()];
            self.0.set(self.0.get() + 1);
            if is_fitting(text) {
                return text;
            }
        }
    }
}

/// All texts as paragraphs of one Markdown text. What swallows the rest is at the end.
pub(super) fn document() -> String {
    let swallowing = ["<!--", "<![", "<?", "<plaintext", "<textarea", "<script", "<style"];
    let (last, first): (Vec<&str>, Vec<&str>) =
        TEXTS.iter().copied().partition(|text| swallowing.iter().any(|sign| text.contains(*sign)));
    [first, last].concat().join("\n\n")
}
