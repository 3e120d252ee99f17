//! Rendered Markdown as a part of a page: its links and pictures lead into the repository, and its
//! headings have names and a place below that of the page.

use std::collections::HashMap;

use super::RepositoryVisit;
use super::revision::Revision;
use crate::pages::error::PageResult;
use crate::pages::layout::Site;
use crate::pages::markdown::{ShownPictures, attributes, is_external, push_text, tag_length};

const MAX_HEADING: u8 = 6;
/// Longest name of a heading, in characters.
const MAX_SLUG_CHARS: usize = 100;
/// The endings of Markdown files.
const MARKDOWN: [&str; 4] = [".md", ".markdown", ".mdown", ".mkd"];

/// Where a document is.
#[derive(Clone, Debug)]
struct Place<'a> {
    /// The page of the root folder, without a slash at its end.
    links: String,
    /// The raw files of the root folder, without a slash at its end.
    pictures: String,
    /// The folder of the document, decoded; empty for the root.
    folder: &'a str,
    shown: ShownPictures,
}

pub(super) fn is_markdown(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    MARKDOWN.iter().any(|ending| name.ends_with(ending))
}

/// Renders a Markdown file in a folder of a revision.
pub(super) async fn render(at: &RepositoryVisit, revision: &Revision, folder: &str, text: &str) -> PageResult<String> {
    let html = at.visit.api.markdown(text, &at.repository.full_name()).await?;
    let here = Place {
        links: revision.path_of("src", ""),
        pictures: revision.path_of("raw", ""),
        folder,
        shown: ShownPictures::of(&at.visit.shell.site),
    };
    Ok(place(&html, &here))
}

/// Leads links in rendered Markdown of a wiki to its pages, and pictures to its files. `wiki` is the
/// path of its pages.
pub(in crate::pages) fn of_wiki(site: &Site, wiki: String, html: &str) -> String {
    let pictures = format!("{wiki}/raw");
    place(html, &Place { links: wiki, pictures, folder: "", shown: ShownPictures::of(site) })
}

/// Returns a text as it is, as HTML.
pub(super) fn plain(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    format!("<pre>{text}</pre>")
}

/// Rewrites HTML of the Markdown renderer, which is well-formed: every attribute is written as
/// ` name="value"`, with no quote in the value.
fn place(html: &str, place: &Place<'_>) -> String {
    let mut out = String::with_capacity(html.len() + html.len() / 8);
    let mut names = HashMap::new();
    let mut rest = html;
    while let Some(begin) = rest.find('<') {
        push_text(&mut out, &rest[..begin]);
        let (tag, after) = rest[begin..].split_at(tag_length(&rest[begin..]));
        push_tag(&mut out, tag, after, place, &mut names);
        rest = after;
    }
    push_text(&mut out, rest);
    out
}

fn push_tag(out: &mut String, tag: &str, after: &str, place: &Place<'_>, names: &mut HashMap<String, usize>) {
    let inner = tag.trim_start_matches('<').trim_end_matches('>');
    let name = inner.split([' ', '/']).next().unwrap_or_default();
    match (name, heading(inner)) {
        ("a", _) => push_element(out, name, inner, |name, value| match name {
            "href" => within(value, &place.links, place.folder),
            _ => None,
        }),
        ("img", _) => push_picture(out, inner, place),
        (_, Some((true, level))) => {
            let slug = unique(slug(after), names);
            let id = if slug.is_empty() { slug } else { format!(" id=\"{slug}\"") };
            out.push_str(&format!("<h{level}{id}>"));
        }
        (_, Some((false, level))) => out.push_str(&format!("</h{level}>")),
        _ => out.push_str(tag),
    }
}

fn push_element(out: &mut String, name: &str, inner: &str, new: impl Fn(&str, &str) -> Option<String>) {
    out.push('<');
    out.push_str(name);
    for (name, value) in attributes(inner) {
        let value = new(name, value).unwrap_or_else(|| value.to_owned());
        out.push_str(&format!(" {name}=\"{value}\""));
    }
    out.push('>');
}

fn push_picture(out: &mut String, inner: &str, place: &Place<'_>) {
    if let Some(text) = place.shown.as_text(inner) {
        out.push_str(&text);
        return;
    }
    push_element(out, "img", inner, |name, value| match name {
        "src" => within(value, &place.pictures, place.folder),
        _ => None,
    });
}

/// Returns the path of a relative URL below `root`; `None` for a URL that stays as it is. A path
/// that begins with a slash begins at the root of the repository.
fn within(url: &str, root: &str, folder: &str) -> Option<String> {
    if url.is_empty() || url.starts_with('#') || is_external(url) {
        return None;
    }
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (path, suffix) = url.split_at(end);
    let folder = ferrite_api_types::links::encode_path(folder.as_bytes());
    let from = if path.starts_with('/') { "" } else { folder.as_str() };
    let mut parts: Vec<&str> = Vec::new();
    for part in from.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let slash = if parts.is_empty() { "" } else { "/" };
    Some(format!("{root}{slash}{}{suffix}", parts.join("/")))
}

/// Returns whether a tag begins a heading, and the level of that heading below the page's own.
fn heading(inner: &str) -> Option<(bool, u8)> {
    let (is_begin, name) = inner.strip_prefix('/').map_or((true, inner), |name| (false, name));
    let name = name.split(' ').next()?;
    let level: u8 = name.strip_prefix('h')?.parse().ok()?;
    (1..=MAX_HEADING).contains(&level).then_some((is_begin, (level + 1).min(MAX_HEADING)))
}

/// Returns the name of the heading whose content begins `html`: its letters and digits, in lower
/// case, and a hyphen for each space.
fn slug(html: &str) -> String {
    let end = html.find("</h").unwrap_or(html.len());
    let mut text = String::new();
    let mut rest = &html[..end];
    while let Some(begin) = rest.find('<') {
        text.push_str(&rest[..begin]);
        rest = &rest[begin + tag_length(&rest[begin..])..];
    }
    text.push_str(rest);
    let text = ["&amp;", "&lt;", "&gt;", "&quot;"].iter().fold(text, |text, entity| text.replace(entity, ""));
    let text = text.replace("&nbsp;", " ");
    let chars = text.trim().chars().flat_map(char::to_lowercase).filter_map(|char| match char {
        ' ' => Some('-'),
        '-' | '_' => Some(char),
        char => char.is_alphanumeric().then_some(char),
    });
    chars.take(MAX_SLUG_CHARS).collect()
}

fn unique(slug: String, names: &mut HashMap<String, usize>) -> String {
    let count = names.entry(slug.clone()).or_default();
    *count += 1;
    if *count == 1 || slug.is_empty() { slug } else { format!("{slug}-{}", *count - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(html: &str) -> String {
        placed_at(html, false)
    }

    fn placed_at(html: &str, has_external_pictures: bool) -> String {
        let at = Place {
            links: "/bob/demo/src/branch/main".to_owned(),
            pictures: "/bob/demo/raw/branch/main".to_owned(),
            folder: "docs/a b",
            shown: ShownPictures { site: "https://git.example.com".to_owned(), has_external: has_external_pictures },
        };
        place(html, &at)
    }

    #[test]
    fn links_and_pictures_lead_into_the_repository() {
        for (url, expected) in [
            ("x.md", "/bob/demo/src/branch/main/docs/a%20b/x.md"),
            ("./x.md#part", "/bob/demo/src/branch/main/docs/a%20b/x.md#part"),
            ("../x?a=1&amp;b", "/bob/demo/src/branch/main/docs/x?a=1&amp;b"),
            ("../../../../..", "/bob/demo/src/branch/main"),
            ("/LICENSE", "/bob/demo/src/branch/main/LICENSE"),
            ("#part", "#part"),
            ("https://example.com/x", "https://example.com/x"),
            ("//example.com/x", "//example.com/x"),
            ("mailto:a@b", "mailto:a@b"),
        ] {
            let link = placed(&format!("<a href=\"{url}\" rel=\"nofollow\">x</a>"));
            assert_eq!(link, format!("<a href=\"{expected}\" rel=\"nofollow\">x</a>"));
        }
        assert_eq!(
            placed("<img src=\"x.png\" alt=\"X\">"),
            "<img src=\"/bob/demo/raw/branch/main/docs/a%20b/x.png\" alt=\"X\">"
        );
        let own = "<img src=\"https://git.example.com/x.png\" alt=\"\">";
        assert_eq!(placed(own), own);
        let foreign = placed("<img src=\"https://git.example.com.evil/x\" alt=\"a > b\">");
        assert_eq!(foreign, "<span class=\"picture\" title=\"https://git.example.com.evil/x\">a &gt; b</span>");
        let picture = |scheme: &str| format!("<img src=\"{scheme}://example.com/x.png\" alt=\"\">");
        assert_eq!(placed_at(&picture("https"), true), picture("https"));
        assert!(placed_at(&picture("http"), true).starts_with("<span class=\"picture\""));
    }

    #[test]
    fn an_attribute_cannot_pass_for_another() {
        let html = "<a title=\"x href=\" href=\"y\">\"z\" &lt; <b>1</b></a>";
        let expected =
            "<a title=\"x href=\" href=\"/bob/demo/src/branch/main/docs/a%20b/y\">&quot;z&quot; &lt; <b>1</b></a>";
        assert_eq!(placed(html), expected);
        assert_eq!(placed("<a title=\"a > b\">x"), "<a title=\"a > b\">x");
    }

    #[test]
    fn headings_have_names_and_their_place() {
        let html =
            "<h1>Über <code>a_b</code> &amp; c</h1>\n<h2>Usage</h2><h2 align=\"center\">Usage</h2><h6>x</h6><hr>";
        let expected = "<h2 id=\"über-a_b--c\">Über <code>a_b</code> &amp; c</h2>\n<h3 id=\"usage\">Usage</h3>\
                        <h3 id=\"usage-1\">Usage</h3><h6 id=\"x\">x</h6><hr>";
        assert_eq!(placed(html), expected);
    }
}
