//! What the forms on the page of a pull request do.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use ferrite_api_types::links::{encode, encode_path};
use serde_json::{Value, json};

use super::conversation::{Left, page};
use super::{PullForm, PullVisit};
use crate::http::error::ApiError;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::Fields;
use crate::pages::issues::reply::{Outcome, send};
use crate::pages::layout::with_status;

/// Names in a field, at most; the API has the same limit.
const MAX_NAMES: usize = 50;

/// The page that changes title, text, labels and so on is that of issues.
pub(super) async fn edit(on: PullVisit) -> Response {
    on.visit().redirect(&format!("{}/issues/{}/edit", on.at.repository.path(), on.pull.number))
}

pub(super) async fn act(PullForm { on, fields }: PullForm) -> PageResult {
    let action = fields.text("action");
    if action.is_empty() {
        return comment(on, &fields).await;
    }
    match run(&on, action, &fields).await {
        Ok(path) => Ok(on.visit().redirect(&path)),
        Err(error) => {
            let message = error.refusal()?;
            // What is refused may have been overtaken by another change.
            let on = PullVisit::of(on.at).await?;
            page(&on, Left { refused: Some((&fields, message)), ..Left::default() }).await
        }
    }
}

/// Comments, closes or reopens, or shows a preview.
async fn comment(on: PullVisit, fields: &Fields) -> PageResult {
    let draft = match send(&on.at, &on.issue, fields).await? {
        Outcome::Done(response) => return Ok(response),
        Outcome::Again(draft) => draft,
    };
    let (status, on) = match draft.message {
        None => (StatusCode::OK, on),
        // A comment may have been added before what failed.
        Some(_) => (StatusCode::UNPROCESSABLE_ENTITY, PullVisit::of(on.at).await?),
    };
    Ok(with_status(status, page(&on, Left { draft, ..Left::default() }).await?))
}

/// Does what the form says. Returns the path of the page to show.
async fn run(on: &PullVisit, action: &str, fields: &Fields) -> PageResult<String> {
    let (path, page) = (on.api(), on.issue.path());
    let send = |method, path: String, body| async move { on.visit().api.change(method, &path, body).await };
    match action {
        "merge" => {
            send(Method::POST, format!("{path}/merge"), Some(merge_options(fields))).await?;
            Ok(format!("{page}#merge"))
        }
        "cancel_merge" => {
            send(Method::DELETE, format!("{path}/merge"), None).await?;
            Ok(format!("{page}#merge"))
        }
        "update" => {
            let style = encode(fields.text("style").as_bytes());
            send(Method::POST, format!("{path}/update?style={style}"), None).await?;
            Ok(format!("{page}#merge"))
        }
        "ready" | "draft" => {
            let title = match action {
                "ready" => on.pull.ready_title().to_owned(),
                _ => format!("WIP: {}", on.pull.title),
            };
            send(Method::PATCH, path, Some(json!({"title": title}))).await?;
            Ok(page)
        }
        "base" => {
            send(Method::PATCH, path, Some(json!({"base": fields.text("base")}))).await?;
            Ok(page)
        }
        "revert" => {
            let options = json!({"branch": fields.text("branch"), "title": fields.text("title")});
            let made = send(Method::POST, format!("{path}/revert"), Some(options)).await?;
            let number = made["number"].as_i64().unwrap_or_default();
            Ok(format!("{}/pulls/{number}", on.at.repository.path()))
        }
        "delete_branch" => {
            let repository = on.pull.head.repo.as_ref().ok_or_else(PageError::not_found)?;
            let branch = encode_path(on.pull.head.label.as_bytes());
            let path = format!("repos/{}/{}/branches/{branch}", repository.owner.login, repository.name);
            send(Method::DELETE, path, None).await?;
            Ok(format!("{page}#merge"))
        }
        _ => review(on, action, fields).await,
    }
}

/// Does what the forms about reviews say.
async fn review(on: &PullVisit, action: &str, fields: &Fields) -> PageResult<String> {
    let (path, page, id) = (on.api(), on.issue.path(), fields.number("id").unwrap_or_default());
    let (review, comment) = (format!("{path}/reviews/{id}"), format!("{}/pulls/comments/{id}", on.at.repository.api()));
    let tab = if fields.text("tab") == "files" { "/files" } else { "" };
    let (method, target, body, next) = match action {
        "request_review" => {
            let path = format!("{path}/requested_reviewers");
            (Method::POST, path, Some(reviewers(fields)), format!("{page}#reviewers"))
        }
        "withdraw_request" => {
            let path = format!("{path}/requested_reviewers");
            (Method::DELETE, path, Some(reviewers(fields)), format!("{page}#reviewers"))
        }
        "dismiss" => {
            let message = json!({"message": fields.text("message")});
            let next = format!("{page}#pullrequestreview-{id}");
            (Method::POST, format!("{review}/dismissals"), Some(message), next)
        }
        "undismiss" => (Method::POST, format!("{review}/undismissals"), None, format!("{page}#pullrequestreview-{id}")),
        "delete_review" => (Method::DELETE, review, None, format!("{page}{tab}")),
        "resolve" => (Method::POST, format!("{comment}/resolve"), None, format!("{page}{tab}#issuecomment-{id}")),
        "unresolve" => (Method::POST, format!("{comment}/unresolve"), None, format!("{page}{tab}#issuecomment-{id}")),
        "delete_comment" => (Method::DELETE, comment, None, format!("{page}{tab}")),
        _ => return Err(ApiError::invalid_field("action", "invalid", "is unknown").into()),
    };
    on.visit().api.change(method, &target, body).await?;
    Ok(next)
}

fn merge_options(fields: &Fields) -> Value {
    json!({
        "Do": fields.text("Do"),
        "MergeTitleField": fields.text("MergeTitleField"),
        "MergeMessageField": fields.text("MergeMessageField"),
        "MergeCommitID": fields.text("MergeCommitID"),
        "head_commit_id": fields.text("head_commit_id"),
        "delete_branch_after_merge": fields.is_checked("delete_branch_after_merge"),
        "merge_when_checks_succeed": fields.is_checked("merge_when_checks_succeed"),
    })
}

/// The users and teams of a request. Names are separated by commas or spaces, those of teams by
/// commas.
fn reviewers(fields: &Fields) -> Value {
    json!({
        "reviewers": names(fields.text("reviewers"), |char| char == ',' || char.is_whitespace()),
        "team_reviewers": names(fields.text("team_reviewers"), |char| char == ','),
    })
}

pub(super) fn names(text: &str, is_separator: impl Fn(char) -> bool) -> Vec<String> {
    let names = text.split(is_separator).map(|name| name.trim().trim_start_matches('@'));
    names.filter(|name| !name.is_empty()).take(MAX_NAMES + 1).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_separated_and_may_be_mentions() {
        let separated = |text| names(text, |char| char == ',' || char.is_whitespace());
        assert_eq!(separated(" @ada, bob  eve,,"), ["ada", "bob", "eve"]);
        assert_eq!(names("the team, b", |char| char == ','), ["the team", "b"]);
        assert_eq!(names(&"a,".repeat(99), |char| char == ',').len(), MAX_NAMES + 1, "the API refuses them");
    }
}
