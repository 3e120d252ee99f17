//! A page of a wiki, and the place where there is none.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use ferrite_api_types::links::encode;
use percent_encoding::percent_decode_str;

use super::{HOME, WikiPage, WikiVisit, decode, lists};
use crate::pages::error::{PageError, PageResult};
use crate::pages::layout::{Content, with_status};
use crate::pages::markdown::render_wiki;
use crate::pages::repositories::document;

#[derive(Template)]
#[template(path = "wiki/page.html")]
struct ShownPage<'a> {
    wiki: String,
    page: &'a WikiPage,
    html: String,
    sidebar: String,
    footer: String,
    can_write: bool,
}

#[derive(Template)]
#[template(path = "wiki/missing.html")]
struct MissingPage {
    title: String,
    new: String,
    pages: String,
}

impl Content for ShownPage<'_> {
    fn title(&self) -> String {
        format!("{} · Wiki", self.page.head.title)
    }
}

impl Content for MissingPage {
    fn title(&self) -> String {
        format!("{} · Wiki", self.title)
    }
}

/// `page` is encoded, and empty for the first page of the wiki.
pub(super) async fn show(wiki: &WikiVisit, page: &str) -> PageResult {
    let (visit, name) = (wiki.visit(), if page.is_empty() { HOME } else { page });
    let Some(found) = visit.api.find::<WikiPage>(&wiki.api(&format!("page/{name}"))).await? else {
        return if page.is_empty() { lists::pages(wiki).await } else { missing(wiki, page).await };
    };
    let texts = vec![found.text(), decode(&found.sidebar), decode(&found.footer)];
    let html = render_wiki(visit, texts, &wiki.full_name()).await?;
    let mut html = html.iter().map(|html| document::of_wiki(&visit.shell.site, wiki.path(), html));
    let mut next = || html.next().unwrap_or_default();
    let (html, sidebar, footer) = (next(), next(), next());
    let content = ShownPage { wiki: wiki.path(), page: &found, html, sidebar, footer, can_write: wiki.can_write() };
    wiki.page(&content)
}

/// Leads to a file of the wiki that a page links to as to a page, or offers to create the page.
async fn missing(wiki: &WikiVisit, page: &str) -> PageResult {
    let (visit, file) = (wiki.visit(), page.replace("%2F", "/"));
    if page.contains('.') && visit.api.exists(&wiki.api(&format!("raw/{file}"))).await? {
        let path = format!("{}{}/raw/{file}", visit.shell.site.root, wiki.path());
        return Ok(Redirect::temporary(&path).into_response());
    }
    if !wiki.can_write() {
        return Err(PageError::not_found());
    }
    let title = title_of(page);
    let new = format!("{}/_new?title={}", wiki.path(), encode(title.as_bytes()));
    let content = MissingPage { title, new, pages: format!("{}/_pages", wiki.path()) };
    Ok(with_status(StatusCode::NOT_FOUND, wiki.page(&content)?))
}

/// Returns the title that a name in a URL stands for.
fn title_of(name: &str) -> String {
    let spaced = match name.strip_suffix(".-") {
        Some(name) => name.to_owned(),
        None => name.replace('-', " "),
    };
    percent_decode_str(&spaced.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_page_has_the_title_that_its_name_stands_for() {
        for (name, title) in [("Getting-started", "Getting started"), ("a-b+c.-", "a-b c"), ("100%25", "100%")] {
            assert_eq!(title_of(name), title);
        }
    }
}
