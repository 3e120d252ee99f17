//! Pages as browsers read them: what is in one that no template makes.
//!
//! html5ever is the parser of the sanitiser, of the version that the workspace already has. Its
//! tokenizer is enough: what is no tag becomes no element, and foreign elements are faults.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::{Rawtext, Rcdata, ScriptData};
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use reqwest::Url;

/// In the attributes and addresses of hostile texts.
pub(super) const MARK: &str = "zap";
/// Elements of templates and of rendered Markdown.
const ELEMENTS: &str = "\
    a abbr article aside b blockquote body br button caption center circle cite code col colgroup datalist dd del \
    details dfn div dl dt em fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hr html i img input \
    ins kbd label legend li link main mark meta nav ol option p path pre progress q rect s samp section select small \
    span strike strong sub summary sup svg table tbody td textarea tfoot th thead time title tr tt u ul var wbr";
const ATTRIBUTES: &str = "\
    accept action align alt aria-current aria-describedby aria-hidden aria-label aria-labelledby autocapitalize \
    autocomplete autofocus charset checked class colspan content cx cy d datetime dir disabled download enctype fill \
    formnovalidate height href id inputmode lang list max maxlength method min minlength multiple name open pattern \
    placeholder preserveaspectratio r readonly rel required role rows rowspan scope selected size spellcheck src start \
    stroke-dasharray style tabindex title type value viewbox width wrap x";
/// Attributes that never have a text of users, apart from [`has_text`].
const FIXED: &str =
    "action class content datetime enctype height id list method name pattern rel role scope style type width";
/// Of which a page has exactly one.
const SINGLE: [&str; 5] = ["html", "head", "title", "body", "main"];

/// A start tag.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
}

#[derive(Default)]
struct Sink {
    elements: RefCell<Vec<Element>>,
    comments: RefCell<Vec<String>>,
    last_end: RefCell<String>,
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => self.begin(&tag),
            Token::TagToken(tag) => {
                *self.last_end.borrow_mut() = tag.name.to_string();
                TokenSinkResult::Continue
            }
            Token::CommentToken(text) => {
                self.comments.borrow_mut().push(text.to_string());
                TokenSinkResult::Continue
            }
            _ => TokenSinkResult::Continue,
        }
    }
}

impl Sink {
    /// Also tells how the content is read.
    fn begin(&self, tag: &Tag) -> TokenSinkResult<()> {
        let attributes = tag.attrs.iter().map(|found| (found.name.local.to_string(), found.value.to_string()));
        let element = Element { name: tag.name.to_string(), attributes: attributes.collect() };
        let content = match element.name.as_str() {
            "textarea" | "title" => TokenSinkResult::RawData(Rcdata),
            "script" => TokenSinkResult::RawData(ScriptData),
            "iframe" | "noembed" | "noframes" | "style" | "xmp" => TokenSinkResult::RawData(Rawtext),
            "plaintext" => TokenSinkResult::Plaintext,
            _ => TokenSinkResult::Continue,
        };
        self.elements.borrow_mut().push(element);
        content
    }
}

impl Element {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

fn read(html: &str) -> Sink {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink
}

pub(super) fn elements(html: &str) -> Vec<Element> {
    read(html).elements.into_inner()
}

/// Returns what the page at `url` has that no template makes. Its site is below `root`, which ends
/// with a slash.
pub(super) fn faults(url: &Url, root: &Url, html: &str) -> Vec<String> {
    let Sink { elements, comments, last_end } = read(html);
    let elements = elements.into_inner();
    let mut faults: Vec<_> = comments.into_inner().iter().map(|text| format!("a comment: {text}")).collect();
    for name in SINGLE {
        let count = elements.iter().filter(|element| element.name == name).count();
        if count != 1 {
            faults.push(format!("{count} elements {name}"));
        }
    }
    if last_end.into_inner() != "html" {
        faults.push("the end of the page is swallowed".to_owned());
    }
    for element in &elements {
        let wrong = element.attributes.iter().filter(|(name, value)| !is_allowed(element, name, value, url, root));
        faults.extend(wrong.map(|(name, value)| format!("<{} {name}=\"{value}\">", element.name)));
        if !is_in(ELEMENTS, &element.name) {
            faults.push(format!("<{}>", element.name));
        }
    }
    faults
}

fn is_in(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|found| found == word)
}

fn is_allowed(element: &Element, name: &str, value: &str, url: &Url, root: &Url) -> bool {
    if !is_in(ATTRIBUTES, name) || (is_in(FIXED, name) && value.contains(MARK) && !has_text(element, name)) {
        return false;
    }
    let leads_below = |value: &str| {
        url.join(value).is_ok_and(|to| to.origin() == root.origin() && to.path().starts_with(root.path()))
    };
    match (element.name.as_str(), name) {
        ("link", "href") => leads_below(value) || value.starts_with("data:image/svg+xml,%3Csvg"),
        ("a", "href") => url.join(value).map_or(true, |to| matches!(to.scheme(), "http" | "https" | "mailto")),
        ("img", "src") => url.join(value).is_ok_and(|to| to.origin() == root.origin()),
        ("form", "action") => leads_below(value),
        ("td" | "th", "style") => value.starts_with("text-align: "),
        (_, "action" | "href" | "src" | "style") => false,
        ("input", "value") if element.attribute("name") == Some("form_token") => {
            value.len() == 64 && value.bytes().all(|digit| digit.is_ascii_hexdigit())
        }
        _ => true,
    }
}

/// Whether an attribute has a text of users, in a form that does no harm: a slug of a heading, the
/// language of code, or the path of a page in a form.
fn has_text(element: &Element, name: &str) -> bool {
    match name {
        "id" => element.name.starts_with('h'),
        "class" => element.name == "code",
        "action" => element.name == "form",
        _ => false,
    }
}

#[test]
fn what_a_text_adds_to_a_page_is_a_fault() {
    let (url, root) = (Url::parse("https://h/git/ada/x").unwrap(), Url::parse("https://h/git/").unwrap());
    let judge = |main: &str| {
        let html = format!("<!doctype html><html><head><title>x</title></head><body><main>{main}</main></body></html>");
        faults(&url, &root, &html)
    };
    for harmless in [
        "<a href=\"/git/ada\">x</a><a href=x>y</a><a href=\"https://evil.example\">z</a><a href=\"#zap\">z</a>",
        "<form method=\"post\" action=\"/git/zap\"><textarea name=\"body\">\n<script></textarea></form>",
        "<h2 id=\"zap\">&lt;u class=zap&gt;</h2><img src=\"/git/x.png\" alt=\"<u class=zap>\">",
        "<td style=\"text-align: left\">",
    ] {
        assert_eq!(judge(harmless), [""; 0], "{harmless}");
    }
    for hostile in [
        "<script>",
        "<style>",
        "<svg onload=x>",
        "<u class=zap>",
        "<!-- x",
        "<?x>",
        "<textarea>",
        "<title>x</title>",
        "</main></body></html><main>",
        "<a href=\"java\nscript:zap()\">",
        "<a href=\" javascript:zap()\">",
        "<img src=\"//evil.example/x\">",
        "<form action=\"/other\">",
        "<form action=\"/git/../other\">",
        "<base href=\"/git/\">",
        "<p style=\"text-align: left\">",
        "<meta http-equiv=\"refresh\">",
        "<link href=\"//evil.example\">",
        "<input name=\"form_token\" value=\"x\">",
    ] {
        assert!(!judge(hostile).is_empty(), "{hostile}");
    }
}
