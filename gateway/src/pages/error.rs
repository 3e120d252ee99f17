//! Failures of pages: what the API refused, as a page.

use std::borrow::Cow;

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, RETRY_AFTER};
use axum::response::{IntoResponse, Redirect, Response};

use super::components::Count;
use super::layout::{Content, Shell, page};
use crate::http::caching::NO_STORE;
use crate::http::error::ApiError;

pub(super) type PageResult<T = Response> = Result<T, PageError>;

/// For hidden and missing things, so that it tells nothing.
const NOT_FOUND: &str = "There is no such page, or you may not see it.";

#[derive(Clone, Debug)]
pub(super) enum PageError {
    /// An error of the API.
    Refused(Box<ApiError>),
    /// The repository has another name now: `owner/name`, encoded.
    Moved(String),
    /// A branch has another name now, or its repository has. Both are encoded.
    RenamedBranch { repository: String, branch: String },
    /// The visitor has to sign in first.
    SignIn,
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    title: &'static str,
    /// What happened, and what to do next.
    text: String,
    /// The page to sign in on, for a visitor without an account who may see more with one.
    sign_in: Option<String>,
}

impl Content for ErrorPage {
    fn title(&self) -> String {
        self.title.to_owned()
    }
}

impl PageError {
    pub(super) fn not_found() -> Self {
        ApiError::not_found("not found").into()
    }

    pub(super) fn wrong_method() -> Self {
        let message = "This page does not take what was sent. Open it again, and use its form.";
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message).into()
    }

    /// `path` is that of the API after `/api/v1/`.
    pub(super) fn moved(path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["repos", owner, name, "branches", branch @ ..] if !branch.is_empty() => {
                Self::RenamedBranch { repository: format!("{owner}/{name}"), branch: branch.join("/") }
            }
            ["repos", owner, name, ..] => Self::Moved(format!("{owner}/{name}")),
            _ => Self::not_found(),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Refused(error) => error.status,
            Self::Moved(_) | Self::RenamedBranch { .. } => StatusCode::MOVED_PERMANENTLY,
            Self::SignIn => StatusCode::SEE_OTHER,
        }
    }

    /// The message of the API, for a form that shows it beside its fields.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Refused(error) => error.message().to_owned(),
            Self::Moved(_) => "the repository has moved".to_owned(),
            Self::RenamedBranch { .. } => "the branch was renamed".to_owned(),
            Self::SignIn => "sign in first".to_owned(),
        }
    }

    /// Returns the message for a form with a mistake in it. Other failures are pages of their own.
    pub(super) fn mistake(self) -> PageResult<String> {
        match self.status() {
            StatusCode::BAD_REQUEST
            | StatusCode::CONFLICT
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::TOO_MANY_REQUESTS => Ok(self.message()),
            _ => Err(self),
        }
    }

    /// As [`Self::mistake`], and for a right that the visitor lacks and a name that does not exist.
    pub(super) fn refusal(self) -> PageResult<String> {
        let is_refused = self.status().is_client_error() && self.status() != StatusCode::UNAUTHORIZED;
        if is_refused { Ok(self.message()) } else { Err(self) }
    }

    /// Responds to a visitor of `shell.here`.
    pub(super) fn respond(self, shell: &Shell) -> Response {
        match self {
            // Redirects only if the repository has moved: the page of a branch would lead to itself.
            Self::RenamedBranch { repository, .. } if is_below(&shell.here, &repository) => {
                let text = "The branch was renamed. Choose it from the list of branches.".to_owned();
                explained(shell, StatusCode::NOT_FOUND, text)
            }
            Self::Moved(repository) | Self::RenamedBranch { repository, .. } => {
                redirect_to_repository(shell, &repository)
            }
            Self::SignIn => Redirect::to(&format!("{}{}", shell.site.root, shell.sign_in())).into_response(),
            Self::Refused(error) if error.status == StatusCode::UNAUTHORIZED && shell.viewer.is_none() => {
                explained(shell, StatusCode::NOT_FOUND, NOT_FOUND.to_owned())
            }
            Self::Refused(error) => {
                let mut response = explained(shell, error.status, text(&error));
                if let Some(seconds) = error.retry_after() {
                    response.headers_mut().insert(RETRY_AFTER, seconds.into());
                }
                response
            }
        }
    }
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        Self::Refused(Box::new(error))
    }
}

/// Renders a part of a page, such as what is in a frame.
pub(super) fn render(content: &impl Template) -> PageResult<String> {
    content.render().map_err(|error| {
        tracing::error!("a page cannot be rendered: {error}");
        ApiError::internal().into()
    })
}

/// Returns whether a page is one of a repository.
fn is_below(here: &str, repository: &str) -> bool {
    let rest = here.strip_prefix('/').and_then(|here| here.strip_prefix(repository));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}

fn redirect_to_repository(shell: &Shell, repository: &str) -> Response {
    let rest = shell.here.splitn(4, '/').nth(3).map(|rest| format!("/{rest}")).unwrap_or_default();
    Redirect::permanent(&format!("{}/{repository}{rest}", shell.site.root)).into_response()
}

fn explained(shell: &Shell, status: StatusCode, text: String) -> Response {
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::PAYLOAD_TOO_LARGE => "Too large",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        StatusCode::SERVICE_UNAVAILABLE => "Busy",
        status if status.is_client_error() => "This did not work",
        _ => "Something went wrong",
    };
    let is_missing = status == StatusCode::NOT_FOUND;
    let sign_in = (is_missing && shell.viewer.is_none()).then(|| shell.sign_in());
    let mut response = page(shell, &ErrorPage { title, text, sign_in });
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

fn text(error: &ApiError) -> String {
    match error.status {
        StatusCode::NOT_FOUND => NOT_FOUND.to_owned(),
        // The log has the cause.
        StatusCode::INTERNAL_SERVER_ERROR => advice(error).into_owned(),
        _ => with_advice(error.message(), &advice(error)),
    }
}

fn advice(error: &ApiError) -> Cow<'static, str> {
    match error.status {
        StatusCode::FORBIDDEN => "Go back, or ask an owner for the right to do it.".into(),
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::CONFLICT => "Go back, reload the page, and try again.".into(),
        StatusCode::PAYLOAD_TOO_LARGE => "Go back, and send less.".into(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let seconds = error.retry_after().unwrap_or(1);
            let (count, unit) = if seconds < 120 { (seconds, "second") } else { (seconds.div_ceil(60), "minute") };
            format!("Try again in {}.", Count(count, unit)).into()
        }
        status if status.is_client_error() => "Go back, and change what you sent.".into(),
        _ => "Try again, and tell an administrator of the site if it fails again.".into(),
    }
}

/// Makes sentences of a message of the API. Those of the pages are sentences, with their advice.
fn with_advice(message: &str, advice: &str) -> String {
    if message.ends_with('.') {
        return message.to_owned();
    }
    let message = message.trim_end_matches(" later").trim_end_matches(", try again");
    let mut letters = message.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}. {advice}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_name_leads_to_the_present_one() {
        let moved = |path| match PageError::moved(path) {
            PageError::Moved(repository) => (repository, None),
            PageError::RenamedBranch { repository, branch } => (repository, Some(branch)),
            PageError::Refused(_) | PageError::SignIn => (String::new(), None),
        };
        assert_eq!(moved("repos/ada/new/contents/x?ref=a"), ("ada/new".to_owned(), None));
        assert_eq!(moved("repos/ada/demo/branches/a/b?x"), ("ada/demo".to_owned(), Some("a/b".to_owned())));
        assert_eq!(moved("repos/ada/demo/branches?page=1"), ("ada/demo".to_owned(), None));
        assert_eq!(moved("users/ada"), (String::new(), None));
    }

    #[test]
    fn a_page_is_below_its_own_repository_alone() {
        for here in ["/ada/demo", "/ada/demo/src/branch/x", "/ada/demo?page=1"] {
            assert!(is_below(here, "ada/demo"), "{here}");
        }
        assert!(!is_below("/ada/demo2", "ada/demo") && !is_below("/bob/demo", "ada/demo"));
    }

    #[test]
    fn a_message_of_the_api_becomes_a_sentence_and_is_followed_by_advice() {
        let error = |status: u16, message: &'static str| ApiError::new(StatusCode::from_u16(status).unwrap(), message);
        let of = |status: u16, message: &'static str| text(&error(status, message).retried_after(4));
        for (status, message, expected) in [
            (
                403,
                "only owners can do this",
                "Only owners can do this. Go back, or ask an owner for the right to do it.",
            ),
            (403, "Reload the page.", "Reload the page."),
            (422, "`name`: is required", "`name`: is required. Go back, and change what you sent."),
            (429, "creation limit reached", "Creation limit reached. Try again in 4 seconds."),
            (503, "too many pages, try again later", "Too many pages. Try again in 4 seconds."),
            (503, "service is unavailable, try again", "Service is unavailable. Try again in 4 seconds."),
            (500, "internal error", "Try again, and tell an administrator of the site if it fails again."),
            (404, "repository does not exist", NOT_FOUND),
        ] {
            assert_eq!(of(status, message), expected);
        }
        assert_eq!(text(&error(429, "no").retried_after(121)), "No. Try again in 3 minutes.");
    }
}
