//! Pages of one comment: the whole text, and the form that changes or deletes it.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::timeline::{Comment, can_change_comment};
use super::{RepositoryForm, number};
use crate::http::error::ApiError;
use crate::pages::components::page_number;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::FormToken;
use crate::pages::layout::{Content, with_status};
use crate::pages::markdown::render_many;
use crate::pages::repositories::{RepositoryVisit, Tab};

#[derive(Template)]
#[template(path = "issues/comment.html")]
struct CommentPage {
    comment: Comment,
    html: String,
    /// Its place in the conversation.
    back: String,
}

impl Content for CommentPage {
    fn title(&self) -> String {
        format!("Comment of {}", self.comment.user.login)
    }
}

#[derive(Template)]
#[template(path = "issues/comment_edit.html")]
struct EditPage<'a> {
    action: &'a str,
    back: String,
    token: FormToken,
    body: &'a str,
    preview: Option<String>,
    message: Option<String>,
}

impl Content for EditPage<'_> {
    fn title(&self) -> String {
        "Edit comment".to_owned()
    }
}

pub(super) async fn show(at: RepositoryVisit) -> PageResult {
    let comment = read(&at).await?;
    let html = render_many(&at.visit, vec![comment.body.clone()], &at.repository.full_name()).await?;
    let (back, tab) = (place(&at, &comment), tab(&comment));
    at.page(tab, &CommentPage { html: html.concat(), back, comment })
}

pub(super) async fn edit(at: RepositoryVisit) -> PageResult {
    at.visit.signed_in()?;
    let comment = read(&at).await?;
    if !can_change_comment(&at, &comment) {
        let message = "only its author and administrators of the repository can change this comment";
        return Err(PageError::from(ApiError::new(StatusCode::FORBIDDEN, message)));
    }
    page(&at, &comment, &comment.body, None, None)
}

pub(super) async fn save(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let comment = read(&at).await?;
    let body = fields.text("body");
    if fields.is_checked("preview") {
        let html = render_many(&at.visit, vec![body.to_owned()], &at.repository.full_name()).await?;
        return page(&at, &comment, body, Some(html.concat()), None);
    }
    let path = api_path(&at, comment.id);
    let is_deletion = fields.is_checked("delete");
    let changed = match is_deletion {
        true => at.visit.api.change(Method::DELETE, &path, None).await,
        false => at.visit.api.change(Method::PATCH, &path, Some(json!({"body": body}))).await,
    };
    match changed {
        Ok(_) if is_deletion => {
            let place = place(&at, &comment);
            Ok(at.visit.redirect(place.split('#').next().unwrap_or_default()))
        }
        Ok(_) => Ok(at.visit.redirect(&place(&at, &comment))),
        Err(error) => page(&at, &comment, body, None, Some(error.mistake()?)),
    }
}

fn api_path(at: &RepositoryVisit, id: i64) -> String {
    format!("{}/issues/comments/{id}", at.repository.api())
}

async fn read(at: &RepositoryVisit) -> PageResult<Comment> {
    at.visit.api.get(&api_path(at, number(at)?)).await
}

fn tab(comment: &Comment) -> Tab {
    if of_issue(comment).is_some_and(|(page, _)| page == "pulls") { Tab::Pulls } else { Tab::Issues }
}

/// Returns the page of the comment's issue, `issues` or `pulls`, and its number.
fn of_issue(comment: &Comment) -> Option<(&str, i64)> {
    let (path, _) = comment.html_url.split_once('#')?;
    let mut parts = path.rsplit('/');
    let number = parts.next()?.parse().ok()?;
    Some((parts.next()?, number))
}

/// Returns the path of the comment in its conversation, on the page that the visitor came from.
fn place(at: &RepositoryVisit, comment: &Comment) -> String {
    let Some((page, number)) = of_issue(comment) else { return at.repository.path() };
    let query = match page_number(&at.visit.shell.here) {
        1 => String::new(),
        page => format!("?page={page}"),
    };
    format!("{}/{page}/{number}{query}#issuecomment-{}", at.repository.path(), comment.id)
}

fn page(
    at: &RepositoryVisit,
    comment: &Comment,
    body: &str,
    preview: Option<String>,
    message: Option<String>,
) -> PageResult {
    let status = if message.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let (action, back, token) = (&at.visit.shell.here, place(at, comment), FormToken::of(&at.visit));
    let content = EditPage { action, back, token, body, preview, message };
    Ok(with_status(status, at.page(tab(comment), &content)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_belongs_to_the_page_in_its_url() {
        let comment = |url: &str| {
            let (user, time) = (json!({"id": 1, "login": "ada"}), "2026-01-01T00:00:00Z");
            let comment = json!({
                "id": 5, "html_url": url, "user": user, "body": "", "created_at": time, "updated_at": time,
            });
            serde_json::from_value::<Comment>(comment).unwrap()
        };
        assert_eq!(of_issue(&comment("http://h/sub/ada/x/pulls/7#issuecomment-5")), Some(("pulls", 7)));
        assert_eq!(of_issue(&comment("http://h/ada/x/issues/7")), None);
    }
}
