//! Renders the guide as HTML.

use ferrite_markdown::render::render;

const GUIDE: &str = include_str!("../../../docs/api.md");
const BEGINNING: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>Guide to the API of Ferrite</title>
<link rel=\"icon\" href=\"data:,\">
<link rel=\"stylesheet\" href=\"api.css\">
</head>
<body>
<nav><a href=\"../api\">All operations</a></nav>
<main>
";
const END: &str = "</main>\n</body>\n</html>\n";

pub(super) fn page() -> String {
    let html = render(GUIDE, None, &|| false).expect("nothing interrupts it");
    [BEGINNING, &with_anchors(&without_other_pages(&html)), END].concat()
}

/// Keeps links to headings and to other sites. Other pages of the documentation are not served.
fn without_other_pages(html: &str) -> String {
    let mut pieces = html.split("<a href=\"");
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (target, rest) = piece.split_once('"').unwrap_or_default();
        let rest = rest.split_once('>').unwrap_or_default().1;
        let (text, after) = rest.split_once("</a>").unwrap_or_default();
        if target.starts_with('#') || target.contains("://") {
            kept.push_str(&format!("<a href=\"{target}\">{text}</a>{after}"));
        } else {
            kept.extend([text, after]);
        }
    }
    kept
}

/// Adds ids to the headings of sections.
fn with_anchors(html: &str) -> String {
    let mut pieces = html.split("<h2>");
    let mut anchored = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let title = piece.split("</h2>").next().unwrap_or_default();
        let anchor = title.to_lowercase().replace(' ', "-");
        anchored.push_str(&format!("<h2 id=\"{anchor}\">{piece}"));
    }
    anchored
}
