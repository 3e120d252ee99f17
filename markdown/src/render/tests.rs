use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::testing::{assert_within, timed};

const KIB: usize = 1024;

/// Time limit of a rendering, long enough for a busy machine.
const RENDER_TIMEOUT: Duration = Duration::from_secs(600);

fn after(time: Duration) -> impl Fn() -> bool {
    let deadline = Instant::now() + time;
    move || Instant::now() >= deadline
}

fn gfm(text: &str) -> String {
    let links = ReferenceLinks::of_context("http://git.example.com/bob/demo", "http://git.example.com");
    render(text, Some(&links), &after(RENDER_TIMEOUT)).unwrap()
}

fn plain(text: &str) -> String {
    render(text, None, &after(RENDER_TIMEOUT)).unwrap()
}

#[test]
fn the_text_of_the_contract_is_rendered_with_its_links() {
    let link =
        |to: &str, text: &str| format!("<a href=\"http://git.example.com/{to}\" rel=\"nofollow noopener\">{text}</a>");
    let expected = format!(
        "<p>Hello {} <strong>cool</strong>, {} {}</p>\n",
        link("bob/demo/issues/1", "bob/demo#1"),
        link("bob/demo/issues/1", "#1"),
        link("bob", "@bob")
    );
    assert_eq!(gfm("Hello bob/demo#1 **cool**, #1 @bob"), expected);
    assert_eq!(plain("Hello bob/demo#1 **cool**, #1 @bob"), "<p>Hello bob/demo#1 <strong>cool</strong>, #1 @bob</p>\n");
    assert_eq!(
        gfm("0a1b2c3d4e5f"),
        format!("<p>{}</p>\n", link("bob/demo/commits/0a1b2c3d4e5f", "<code>0a1b2c3d4e</code>"))
    );
    assert_eq!((gfm("").as_str(), plain("").as_str()), ("", ""));
}

#[test]
fn the_extensions_of_gfm_are_rendered() {
    for (text, expected) in [
        ("~~x~~ a\nb", "<p><del>x</del> a\nb</p>\n"),
        ("# H `c`", "<h1>H <code>c</code></h1>\n"),
        (
            "- [x] done\n- [ ] open",
            "<ul>\n<li><input disabled=\"\" type=\"checkbox\" checked=\"\" aria-label=\"Task\">\n\
             done</li>\n<li><input disabled=\"\" type=\"checkbox\" aria-label=\"Task\">\nopen</li>\n</ul>\n",
        ),
        (
            "|a|b|\n|-|:-:|\n|1|2|",
            "<table><thead><tr><th>a</th><th style=\"text-align: center\">b</th></tr></thead><tbody>\n\
             <tr><td>1</td><td style=\"text-align: center\">2</td></tr>\n</tbody></table>\n",
        ),
        ("3. a\n4. b", "<ol start=\"3\">\n<li>a</li>\n<li>b</li>\n</ol>\n"),
        ("![i](a.png \"t\")", "<p><img src=\"a.png\" alt=\"i\" title=\"t\"></p>\n"),
        (
            "see http://example.org/x.",
            "<p>see <a href=\"http://example.org/x\" rel=\"nofollow noopener\">http://example.org/x</a>.</p>\n",
        ),
        (
            "<ada@example.org>",
            "<p><a href=\"mailto:ada@example.org\" rel=\"nofollow noopener\">ada@example.org</a></p>\n",
        ),
        (
            "```Rust,ignore\nlet x = \"<b>\";\n```",
            "<pre><code class=\"language-rust\"><span class=\"k\">let</span> x = <span class=\"s\">\"&lt;b&gt;\"</span>;\n</code></pre>\n",
        ),
        ("```no\"such\n<b>\n```", "<pre><code>&lt;b&gt;\n</code></pre>\n"),
        ("    a < b\n", "<pre><code>a &lt; b\n</code></pre>\n"),
    ] {
        assert_eq!(plain(text), expected, "{text}");
    }
}

#[test]
fn references_in_code_links_and_html_stay_text() {
    for text in [
        "`#1 @bob`",
        "```\n#1 @bob\n```",
        "    #1",
        "<code>#1 @bob</code>",
        "<kbd>@bob</kbd> <pre>#1</pre>",
        "![#1 @bob](a.png)",
        "<div title=\"#1\">@bob</div>",
    ] {
        assert!(!gfm(text).contains("<a"), "{text}: {}", gfm(text));
    }
    for text in ["[#1 @bob](http://x)", "<a href=\"http://x\">#1 @bob</a>", "[#1][a]\n\n[a]: http://x", "<http://x/#1>"]
    {
        assert_eq!(gfm(text).matches("<a").count(), 1, "{text}: {}", gfm(text));
    }
    assert_eq!(gfm("**#1** <b>@bob</b>\n\n> - #2").matches("<a").count(), 3);
}

#[test]
fn links_to_pages_of_a_wiki_are_rendered_and_escaped_but_not_in_code() {
    let wiki = |text: &str| {
        let links = ReferenceLinks::of_context("bob/demo", "http://git.example.com").in_wiki();
        render(text, Some(&links), &after(RENDER_TIMEOUT)).unwrap()
    };
    let link = |name: &str, text: &str| {
        format!("<a href=\"http://git.example.com/bob/demo/wiki/{name}\" rel=\"nofollow noopener\">{text}</a>")
    };
    for (text, expected) in [
        ("See [[Getting started]].", format!("<p>See {}.</p>\n", link("Getting-started", "Getting started"))),
        ("[[my_page_one]]", format!("<p>{}</p>\n", link("my_page_one", "my_page_one"))),
        ("**[[Begin|a & b]]**", format!("<p><strong>{}</strong></p>\n", link("a-%26-b", "Begin"))),
        ("[[&lt;b&gt;|x\"y]]", format!("<p>{}</p>\n", link("x%22y", "&lt;b&gt;"))),
        ("`[[Home]]`", "<p><code>[[Home]]</code></p>\n".to_owned()),
        ("```\n[[Home]]\n```", "<pre><code>[[Home]]\n</code></pre>\n".to_owned()),
        ("<kbd>[[Home]]</kbd>", "<p><kbd>[[Home]]</kbd></p>\n".to_owned()),
    ] {
        assert_eq!(wiki(text), expected, "{text}");
    }
    // In a cell of a table the bar is escaped.
    assert!(wiki("|a|\n|-|\n|[[Begin\\|Home]]|").contains(&link("Home", "Begin")));
    assert_eq!(gfm("[[Home]]"), "<p>[[Home]]</p>\n");
}

#[test]
fn html_that_is_listed_stays_and_is_closed_where_its_surroundings_end() {
    for (text, expected) in [
        ("a <b>b</b> <KBD>c</KBD><br/>", "<p>a <b>b</b> <kbd>c</kbd><br></p>\n"),
        ("a <b>b\n\nc</b>", "<p>a <b>b</b></p>\n<p>c</p>\n"),
        (
            "<p align=\"center\"><img src=\"a.png\" width=80 onerror=x></p>\n",
            "<p align=\"center\"><img src=\"a.png\" width=\"80\"></p>\n",
        ),
        (
            "<details>\n<summary>More</summary>\n\n**x**\n\n</details>\n",
            "<details>\n<summary>More</summary>\n<p><strong>x</strong></p>\n</details>\n",
        ),
        ("*a <b>b* c</b>", "<p><em>a <b>b</b></em> c</p>\n"),
        ("<table><tr><td>a<tr><td>b</table>", "<table><tbody><tr><td>a</td></tr><tr><td>b</td></tr></tbody></table>"),
        ("x &copy; &lt;b&gt; <u>&amp;</u>", "<p>x © &lt;b&gt; <u>&amp;</u></p>\n"),
        ("</div></p></b>", ""),
        ("1 <!-- c --> 2", "<p>1  2</p>\n"),
        ("<font color=red>x</font>", "<p>x</p>\n"),
        ("a\0b", "<p>a\u{fffd}b</p>\n"),
    ] {
        assert_eq!(plain(text), expected, "{text}");
    }
}

#[test]
fn scripts_and_styles_in_a_line_are_text_and_in_a_block_go_with_their_content() {
    for (text, expected) in [
        ("a <script>alert(1)</script> b", "<p>a &lt;script&gt;alert(1)&lt;/script&gt; b</p>\n"),
        ("a <STYLE x>p { color: red }</STYLE > b", "<p>a &lt;STYLE x&gt;p { color: red }&lt;/STYLE &gt; b</p>\n"),
        ("*a <script> b* c", "<p><em>a &lt;script&gt; b</em> c</p>\n"),
        ("a <script> b\n\nc", "<p>a &lt;script&gt; b</p>\n<p>c</p>\n"),
        ("[a <style> b](/c) *d*", "<p><a href=\"/c\" rel=\"nofollow noopener\">a &lt;style&gt; b</a> <em>d</em></p>\n"),
        ("a <b><script></b> c", "<p>a <b>&lt;script&gt;</b> c</p>\n"),
        ("![a <script> b](c)", "<p><img src=\"c\" alt=\"a  b\"></p>\n"),
        ("<script>\na\n\nb\n</script>\n\nc", "<p>c</p>\n"),
        ("`<script>a</script>` \\<script>", "<p><code>&lt;script&gt;a&lt;/script&gt;</code> &lt;script&gt;</p>\n"),
    ] {
        assert_eq!(plain(text).trim_start(), expected, "{text}");
    }
    let shown = gfm("a <script>#1</script>");
    assert!(shown.starts_with("<p>a &lt;script&gt;<a ") && shown.ends_with("</a>&lt;/script&gt;</p>\n"), "{shown}");
}

/// Texts that try to run a script, send a form, leave their frame or fake the surrounding page.
const ATTACKS: &[&str] = &[
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a]( javascript:alert(1))",
    "[a](java&#115;cript:alert(1))",
    "[a](&#x6A&#x61&#x76&#x61&#x73&#x63&#x72&#x69&#x70&#x74&#x3A&#x61&#x6C&#x65&#x72&#x74&#x28&#x31&#x29)",
    "[a](javascript&colon;alert(1))",
    "[a](<java\tscript:alert(1)>)",
    "[a](\u{1}javascript:alert(1))",
    "[a](&#1;javascript:alert(1))",
    "[a](vbscript:msgbox(1))",
    "[a](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[a](file:///etc/passwd) [b](blob:http://x/y) [c](view-source:http://x)",
    "![a](javascript:alert(1))",
    "![a](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+)",
    "![a\"onerror=\"alert(1)](x \"b\" onerror=alert(1))",
    "<javascript:alert(1)>",
    "<JAVASCRIPT:alert(document.cookie)>",
    "<data:text/html,<script>alert(1)</script>>",
    "[a][b]\n\n[b]: javascript:alert(1) \"title\"",
    "[a][b]\n\n[b]: <java&#x0A;script:alert(1)>",
    "[![x](javascript:alert(1))](javascript:alert(2))",
    "<script>alert(1)</script>",
    "a <script>alert(1)</script>",
    "<SCRIPT SRC=http://x/y.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<script\n>alert(1)",
    "<script/x>alert(1)</script >",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<img src=x onerror =\n\"alert(1)\">",
    "<img/src=x/onerror=alert(1)//",
    "<img src=\"x` `<script>alert(1)</script>\"` `>",
    "<IMG SRC=\"jav&#x0A;ascript:alert(1);\">",
    "<img src=javascript:alert(1)>",
    "<img srcset=\"x 1x, javascript:alert(1) 2x\">",
    "<img \"\"\"><script>alert(1)</script>\">",
    "<b onmouseover=alert(1) ONCLICK='alert(2)' style='x:expression(alert(3))'>x</b>",
    "<p style=\"background:url(javascript:alert(1))\">x</p>",
    "<div style=\"position:fixed;top:0;left:0;width:100%;height:100%\">x</div>",
    "<style>@import 'http://x/y.css';</style><style>*{background:red}</style>",
    "<link rel=stylesheet href=http://x/y.css>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><a xlink:href=\"javascript:alert(1)\"><text>x</text></a></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg></p><style><a id=\"</style><img src=1 onerror=alert(1)>\">",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<math href=\"javascript:alert(1)\">x</math>",
    "<form action=http://x><input name=p><button formaction=javascript:alert(1)>x</button></form>",
    "<input onfocus=alert(1) autofocus>",
    "<input type=password name=p>",
    "<textarea></textarea><script>alert(1)</script>",
    "<select><option onclick=alert(1)>x</select>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc=\"<script>alert(1)</script>\">",
    "<object data=javascript:alert(1)></object><embed src=javascript:alert(1)>",
    "<base href=javascript:alert(1)//>",
    "<meta http-equiv=refresh content=\"0;url=javascript:alert(1)\">",
    "<body onload=alert(1)>",
    "<html><head><title>x</title></head><frameset onload=alert(1)>",
    "<video src=x onerror=alert(1)><source onerror=alert(1)></video><audio src onerror=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "<a href=\" &#14; javascript:alert(1)\">x</a>",
    "<a href=\"java&#13;script:alert(1)\" target=_blank rel=opener ping=http://x id=x name=y class=z>x</a>",
    "<a href='x' href='javascript:alert(1)'>x</a>",
    "<a title=\"</a><script>alert(1)</script>\">x</a>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<noembed><img title=\"</noembed><img src=x onerror=alert(1)>\"></noembed>",
    "<template><script>alert(1)</script></template>",
    "<xmp><script>alert(1)</script></xmp><plaintext><script>alert(1)",
    "<!--><script>alert(1)</script>-->",
    "<!-- --!><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version=\"1.0\"?><script>alert(1)</script>",
    "<!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]><x>&y;</x>",
    "<<script>alert(1);//<</script>",
    "<a<script>alert(1)</script>",
    "<b\u{0}onclick=alert(1)>x</b>",
    "<\u{0}script>alert(1)</\u{0}script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "`<script>alert(1)</script>`",
    "```\"><script>alert(1)</script>\n<script>alert(1)</script>\n```",
    "```js onclick=alert(1)\nx\n```",
    "    <script>alert(1)</script>",
    "| <script>alert(1)</script> | a |\n|-|-|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |",
    "> - <script>\n> - alert(1)</script>",
    "# <a href=javascript:alert(1)>x</a>",
    "*<b onclick=alert(1)>*</b>",
    "http://x/\"onmouseover=\"alert(1)",
    "http://x/'><script>alert(1)</script>",
    "@bob<script>alert(1)</script> #1\"><img src=x onerror=alert(1)>",
    "[x]: http://y \"<script>alert(1)</script>\"\n[x]",
    "[a](http://x \"\\\"><script>alert(1)</script>\")",
    "[<img src=x onerror=alert(1)>](http://x)",
    "![<script>alert(1)</script>](x)",
    "<code class=\"language-x\" onclick=alert(1)>x</code><span class=\"fixed evil\" id=login>x</span>",
];

/// Finds HTML tags with their content, independently of the renderer.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).map(|tag| tag.split_once('>').map_or(tag, |(tag, _)| tag)).collect()
}

/// The scheme that a browser sees: it strips leading blanks, and tabs and line ends everywhere.
fn scheme(address: &str) -> Option<String> {
    let read = address.replace("&amp;", "&").replace(['\t', '\n', '\r'], "");
    let (scheme, _) = read.trim_start_matches(|first: char| first <= ' ').split_once(':')?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_part);
    is_scheme.then(|| scheme.to_ascii_lowercase())
}

const SAFE_ATTRIBUTES: [&str; 20] = [
    "href",
    "src",
    "alt",
    "title",
    "rel",
    "class",
    "style",
    "align",
    "width",
    "height",
    "start",
    "open",
    "colspan",
    "rowspan",
    "lang",
    "dir",
    "type",
    "disabled",
    "checked",
    "aria-label",
];

/// Returns HTML that could run a script, load a style or escape the text.
fn harm(html: &str) -> Option<String> {
    for tag in tags(html) {
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if elements::Element::find(name).is_none() && name != "input" {
            return Some(format!("<{tag}>"));
        }
        // Values are in double quotes, so every second part is one.
        let parts: Vec<_> = tag[tag.find(' ').unwrap_or(tag.len())..].split('"').collect();
        for pair in parts.chunks(2) {
            let [before, value] = pair else {
                if !pair[0].trim().is_empty() {
                    return Some(format!("{} in <{tag}>", pair[0]));
                }
                continue;
            };
            let is_safe = before.trim().strip_suffix('=').is_some_and(|attribute| match attribute {
                "href" | "src" => {
                    scheme(value).is_none_or(|scheme| matches!(scheme.as_str(), "http" | "https" | "mailto"))
                }
                "style" => elements::CELL_STYLES.contains(value),
                attribute => SAFE_ATTRIBUTES.contains(&attribute),
            });
            if !is_safe {
                return Some(format!("{before}{value} in <{tag}>"));
            }
        }
        if name == "input" && !(tag.contains("type=\"checkbox\"") && tag.contains("disabled")) {
            return Some(format!("<{tag}>"));
        }
    }
    None
}

#[track_caller]
fn assert_harmless(html: &str, text: &str) {
    assert_eq!(harm(html), None, "{text:?}: {html}");
}

#[test]
fn the_check_finds_what_it_is_for() {
    for html in [
        "<script>",
        "<img src=x onerror=alert(1)>",
        "<img src=\"x\" onerror=\"alert(1)\">",
        "<a href=\" java\tscript:alert(1)\">",
        "<td style=\"color: red\">",
        "<input type=\"text\">",
        "<b autofocus>",
    ] {
        assert!(harm(html).is_some(), "{html}");
    }
    assert_eq!(harm("<p>a <a href=\"/x:y\" rel=\"b\">c</a><br></p>"), None);
}

#[test]
fn every_known_way_of_scripting_is_refused() {
    for attack in ATTACKS {
        for text in [
            (*attack).to_owned(),
            format!("text {attack}"),
            format!("> {attack}"),
            format!("- a\n\n  {attack}"),
            format!("<div>\n{attack}\n</div>"),
            format!("<b title=\"{attack}\">x</b>"),
            format!("[{attack}](http://x)"),
        ] {
            assert_harmless(&gfm(&text), &text);
            assert_harmless(&plain(&text), &text);
        }
    }
}

#[test]
fn all_links_tell_search_engines_and_opened_pages_nothing() {
    let html =
        gfm("[a](http://x) <http://y> http://z #1 @bob <a href=\"/q\" rel=\"follow opener\">x</a> [b](mailto:a@b)");
    assert_eq!(html.matches("<a ").count(), 7);
    assert_eq!(html.matches(" rel=\"nofollow noopener\"").count(), 7, "{html}");
    assert!(!html.contains("follow opener"));
}

#[test]
fn texts_with_too_many_elements_are_shown_as_they_are() {
    let items = "- a <b>\n".repeat(70_000);
    let html = plain(&items);
    assert!(html.starts_with("<pre>- a &lt;b&gt;\n") || html.starts_with("<pre>\n- a &lt;b&gt;\n"), "{}", &html[..40]);
    let columns = format!("{}|\n{}|\n", "|a".repeat(2_000), "|-".repeat(2_000));
    assert!(plain(&format!("{columns}{}", "|b|\n".repeat(2_000))).starts_with("<pre>"));
    // References to one long address.
    let address = format!("[a]: http://x/{}\n\n", "y".repeat(50_000));
    let html = gfm(&format!("{address}{}", "[a] ".repeat(100_000)));
    assert!(html.len() < 8 * 1024 * KIB, "{}", html.len());
    let html = gfm(&"#1 ".repeat(300 * KIB));
    assert!(html.len() < 8 * 1024 * KIB, "{}", html.len());
}

/// Pieces of hostile texts, separated by spaces. `·` is a space, `↵` a line end.
const UNITS: &str = "[ ![ [a]( [a][ [a]:·b↵ ( ` `·``· * _ *a_· **a·*b· ~ ~~ ~a· > >· >↵ -· 1.· -↵ - |- |a|↵ | < </ <a· <b> </b> <b>a↵↵ \
     <p> <div> <div>↵↵ <li> <table> <tr> <td> <font> <i><b> <i·title=x> <a·href=x> <script> <!-- <? <![CDATA[ & &# &lt; \\ a↵ a↵↵ # #· #1· @a· \
     a/b#1· abcdef1· http://a· http:// ~~~↵ ```a↵ ```rust↵'↵``` --- a↵=↵ \0 é [x] -·[x]·a↵ <details><summary> <br> <hr> <img·src=x>";

#[test]
fn hostile_texts_are_rendered_in_linear_time() {
    const BYTES: usize = 64 * KIB;
    let limit = Duration::from_secs(5);
    for unit in UNITS.split(' ').map(|unit| unit.replace('·', " ").replace('↵', "\n")) {
        for text in [unit.repeat(BYTES / unit.len()), format!("<table>\n\n{}", unit.repeat(BYTES / unit.len()))] {
            let html = assert_within(limit, &text, || gfm(&text));
            assert!(html.len() < 2048 * KIB, "{unit:?}: {}", html.len());
            assert_harmless(&html, &unit);
        }
    }
    // Browsers would repeat these in every paragraph.
    let open: String = (0..2_000).map(|number| format!("<b title={number}>")).collect();
    for text in [format!("{open}{}", "\n\na".repeat(20_000)), format!("<div>{open}</div>\n{}", "\n\na".repeat(20_000))]
    {
        let html = assert_within(limit, &text, || gfm(&text));
        assert!(html.len() < 1024 * KIB, "{}", html.len());
    }
}

/// Pieces that have caused quadratic time somewhere, as [`UNITS`].
const LONG_UNITS: &str = "& &a &# &amp; < > \" \u{a2} \u{a0} [ [^a] ![ [a](&) * _ ~ ` ``` >· -· |a|a|a|↵ @a #1· http://a· http://&·  <!-- <b·title=& ]( \\";

#[test]
fn the_longest_text_takes_time_in_proportion_to_its_length() {
    let of_length = |unit: &str| unit.repeat(1024 * KIB / unit.len());
    let (_, usual) = timed(|| gfm(&of_length("a *b* `c` #1\n")));
    for unit in LONG_UNITS.split(' ').filter(|unit| !unit.is_empty()) {
        let unit = unit.replace('·', " ").replace('↵', "\n");
        let (text, half) = (of_length(&unit), unit.repeat(512 * KIB / unit.len()));
        // As a paragraph, in attribute texts, and as code.
        for text in [text.clone(), format!("![{half}](a \"{half}\")"), format!("```\n{text}")] {
            let (html, taken) = timed(|| gfm(&text));
            assert!(taken < usual * 10, "{unit:?} took {taken:?}, an ordinary text {usual:?}");
            assert!(html.len() <= MAX_HTML_BYTES + 64, "{unit:?}: {}", html.len());
        }
    }
    // Syntax that repeats something long written once.
    let long = "x".repeat(64 * KIB);
    for text in [
        format!("[a]: http://{long}\n\n{}", "[a] ".repeat(240 * KIB)),
        format!("[a]: <{long}> \"{long}\"\n\n{}", "[a]".repeat(300 * KIB)),
        format!("|{}\n|{}\n{}", "a|".repeat(64 * KIB), "-|".repeat(64 * KIB), "|a\n".repeat(200 * KIB)),
    ] {
        let (html, taken) = timed(|| gfm(&text));
        assert!(taken < usual * 10, "{:?} took {taken:?}, an ordinary text {usual:?}", &text[..20]);
        assert!(html.len() <= MAX_HTML_BYTES + 64, "{:?}: {}", &text[..20], html.len());
    }
}

#[test]
fn an_interrupted_rendering_ends_at_once_in_every_step() {
    let over = after(Duration::ZERO);
    assert_eq!(render("a", None, &over), Err(Interrupted));
    assert_eq!(sanitize::sanitize("<b>a</b>", usize::MAX, &over), Err(Unsanitized::Interrupted));
    // Time runs out somewhere in the middle.
    let text = "a *b* `c` <i>d</i> #1\n\n".repeat(32 * KIB);
    let (_, whole) = timed(|| gfm(&text));
    for part in 1..8 {
        let (rendered, taken) = timed(|| render(&text, None, &after(whole * part / 16)));
        if rendered.is_err() {
            assert!(taken < whole, "{taken:?} of {whole:?}");
        }
    }
}

#[test]
fn html_beyond_the_limit_is_not_kept() {
    let never = || false;
    assert_eq!(sanitize::sanitize("<b>&amp;</b>", 12, &never).as_deref(), Ok("<b>&amp;</b>"));
    assert_eq!(sanitize::sanitize("<b>&amp;</b>", 11, &never), Err(Unsanitized::TooLong));
}

#[test]
fn the_largest_text_is_rendered_in_time() {
    for unit in
        ["a *b* `c` #1\n", "- a\n  - b\n\n", "> a\n\n", "<b>a</b> <br>\n\n", "| a | b |\n|---|---|\n| c | d |\n\n"]
    {
        let text = unit.repeat(1024 * KIB / unit.len());
        assert_within(Duration::from_secs(30), &text, || gfm(&text));
    }
}

proptest! {
    #[test]
    fn any_text_becomes_harmless_html(
        text in "([@#/a1 `*_\\[\\]()<>!&;\n\t>\"'=:|~-]|<b |</b>|<table>|<td>|<p>|javascript:|onclick=|http://|```|\\PC){0,60}",
    ) {
        assert_harmless(&gfm(&text), &text);
    }
}
