//! Markdown texts of pages.

use std::collections::HashSet;

use ferrite_markdown::render::{ReferenceLinks, render};

use super::error::PageResult;
use super::layout::Site;
use super::visit::Visit;
use crate::blocking::{Interrupt, Interrupted};
use crate::http::client_address::counted_client;

/// Bytes of text that one page renders. What is longer is shown as it was typed.
const MAX_RENDERED_BYTES: usize = 2 << 20;

/// The pictures that browsers load by the policy of pages.
#[derive(Clone, Debug)]
pub(super) struct ShownPictures {
    /// The public URL of the site, whose own pictures are shown.
    pub(super) site: String,
    /// True if pages show pictures of other sites.
    pub(super) has_external: bool,
}

impl ShownPictures {
    pub(super) fn of(site: &Site) -> Self {
        Self { site: format!("{}{}", site.origin, site.root), has_external: site.has_external_pictures }
    }

    /// Returns the text of a picture that browsers would not load, from the inside of its tag.
    pub(super) fn as_text(&self, inner: &str) -> Option<String> {
        let find = |wanted: &str| attributes(inner).find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let source = find("src").unwrap_or_default();
        let is_own = source.strip_prefix(&self.site).is_some_and(|rest| rest.starts_with('/'));
        let is_shown = is_own || (self.has_external && source.starts_with("https://"));
        if !is_external(source) || is_shown {
            return None;
        }
        let text = find("alt").unwrap_or_default().replace('<', "&lt;").replace('>', "&gt;");
        Some(format!("<span class=\"picture\" title=\"{source}\">{text}</span>"))
    }
}

/// Renders texts, in their order, in one job. `repository`, `owner/name`, is what references such as
/// `#1` belong to.
pub(super) async fn render_many(visit: &Visit, texts: Vec<String>, repository: &str) -> PageResult<Vec<String>> {
    render_with(visit, texts, reference_links(visit, repository)).await
}

/// As [`render_many`], for texts of the wiki of the repository.
pub(super) async fn render_wiki(visit: &Visit, texts: Vec<String>, repository: &str) -> PageResult<Vec<String>> {
    render_with(visit, texts, reference_links(visit, repository).in_wiki()).await
}

fn reference_links(visit: &Visit, repository: &str) -> ReferenceLinks {
    let site = &visit.shell.site;
    ReferenceLinks::of_context(repository, &format!("{}{}", site.origin, site.root))
}

async fn render_with(visit: &Visit, texts: Vec<String>, links: ReferenceLinks) -> PageResult<Vec<String>> {
    if texts.iter().all(String::is_empty) {
        return Ok(texts);
    }
    let site = &visit.shell.site;
    let client = counted_client(&visit.headers, visit.shell.viewer.as_ref().map(|viewer| viewer.id));
    let pictures = ShownPictures::of(site);
    let too_long = beyond(&texts, MAX_RENDERED_BYTES);
    let bytes = texts.iter().map(String::len).sum();
    let work = move |interrupt: &Interrupt| {
        let texts = texts.iter().enumerate();
        let html = texts.map(|(place, text)| match too_long.contains(&place) {
            true => Ok(typed(text)),
            false => {
                let html = render(text, Some(&links), &|| interrupt.check().is_err()).map_err(|_| Interrupted)?;
                Ok(set_apart(&html, &pictures))
            }
        });
        html.collect::<Result<Vec<_>, _>>()
    };
    Ok(visit.state.markdown.run_on_text(client, bytes, work).await?)
}

/// Shows pictures that browsers would not load as their text. Otherwise changes how rendered Markdown
/// is written, not what it means: no part of it looks like a path in an attribute of the page, before
/// which the path of the public URL would be put, or like the token of a form.
fn set_apart(html: &str, pictures: &ShownPictures) -> String {
    let mut out = String::with_capacity(html.len() + html.len() / 16);
    let mut rest = html;
    while let Some(begin) = rest.find('<') {
        push_text(&mut out, &rest[..begin]);
        let (tag, after) = rest[begin..].split_at(tag_length(&rest[begin..]));
        let picture = tag.strip_prefix("<img ").and_then(|_| pictures.as_text(tag.trim_matches(['<', '>'])));
        match picture {
            Some(text) => out.push_str(&text),
            None => out.push_str(&tag.replace("=\"/", "=\"&#47;")),
        }
        rest = after;
    }
    push_text(&mut out, rest);
    out
}

/// Writes text of the Markdown renderer, which has quotes as they are.
pub(super) fn push_text(out: &mut String, text: &str) {
    out.push_str(&text.replace('"', "&quot;"));
}

/// Returns the length of the tag that HTML of the Markdown renderer begins with. No value of an
/// attribute has a quote.
pub(super) fn tag_length(html: &str) -> usize {
    let mut is_quoted = false;
    let end = html.bytes().position(|byte| {
        is_quoted ^= byte == b'"';
        byte == b'>' && !is_quoted
    });
    end.map_or(html.len(), |end| end + 1)
}

/// Returns the attributes of a tag with their values, still escaped.
pub(super) fn attributes(inner: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = inner.split_once(' ').map_or("", |(_, rest)| rest);
    std::iter::from_fn(move || {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some((name.trim(), value))
    })
}

/// Returns whether a URL has a scheme or a host.
pub(super) fn is_external(url: &str) -> bool {
    url.starts_with("//") || url.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':'))
}

/// Returns the places of the texts that do not fit into `max` bytes together with those before.
fn beyond(texts: &[String], max: usize) -> HashSet<usize> {
    let mut left = max;
    let mut beyond = HashSet::new();
    for (place, text) in texts.iter().enumerate() {
        match left.checked_sub(text.len()) {
            Some(rest) => left = rest,
            None => {
                beyond.insert(place);
            }
        }
    }
    beyond
}

fn typed(text: &str) -> String {
    let Ok(text) = askama::filters::escape(text, askama::filters::Html);
    format!("<pre>{text}</pre>")
}

#[cfg(test)]
mod tests {
    use ferrite_markdown::render::highlight_file;

    use super::*;
    use crate::pages::layout::below_root;

    fn pictures() -> ShownPictures {
        ShownPictures { site: "https://git.example.com".to_owned(), has_external: false }
    }

    #[test]
    fn a_picture_of_another_site_is_shown_as_its_text() {
        let shown = |text: &str| set_apart(&render(text, None, &|| false).unwrap(), &pictures());
        let foreign = shown("![a <b](https://example.com/x.png)");
        assert!(foreign.contains(">a &lt;b</span>") && !foreign.contains("<img"), "{foreign}");
        for own in ["![x](https://git.example.com/x.png)", "![x](x.png)", "![x](/x.png)"] {
            assert!(shown(own).contains("<img "), "{own}");
        }
    }

    #[test]
    fn nothing_that_users_write_looks_like_a_link_of_the_page() {
        let words = r#"a href="/x" src="/y" action="/z" <input type="hidden" name="form_token" value="/0a""#;
        for text in [
            words,
            &format!("`{words}`"),
            &format!("```html\n<a {words}>\n```"),
            &format!("    {words}"),
            &format!("[{words}](/x '{words}') ![](/y)"),
            &format!("<p title='{words}'>{words}</p>"),
            "<a href=\"/x\">x</a> <a href='/x'>x</a> <a href=/x>x</a> <img src=\"/y\">",
            "| a |\n|---|\n| href=\"/x\" |",
        ] {
            let html = render(text, None, &|| false).unwrap();
            let shown = set_apart(&html, &pictures());
            assert_eq!(below_root(shown.clone(), "/sub"), shown, "{text}");
            assert!(!shown.contains("name=\"form_token\""), "{shown}");
            assert_eq!(shown.replace("&quot;", "\"").replace("&#47;", "/"), html.replace("&quot;", "\""), "{text}");
        }
        for name in ["x.html", "x.rs", "x.diff", "x"] {
            for line in highlight_file(name, words) {
                assert_eq!(below_root(line.clone(), "/sub"), line, "{name}");
            }
        }
        let Ok(escaped) = askama::filters::escape(words, askama::filters::Html);
        assert!(!escaped.to_string().contains('"'), "values in templates");
    }

    #[test]
    fn texts_that_are_too_long_together_are_shown_as_typed() {
        let texts = ["aaaa", "bbbb", "c"].map(str::to_owned);
        assert_eq!(beyond(&texts, 5), HashSet::from([1]));
        assert!(beyond(&texts, 9).is_empty());
        let shown = typed("<script> & \"x\"");
        assert!(shown.starts_with("<pre>&#60;script&#62; &#38; ") && !shown.contains("<script>"), "{shown}");
    }
}
