//! Failures of pages: what the API refused, as a page.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, RETRY_AFTER};
use axum::response::{IntoResponse, Redirect, Response};

use super::layout::{Content, Shell, page};
use crate::http::caching::NO_STORE;
use crate::http::error::ApiError;

pub(super) type PageResult<T = Response> = Result<T, PageError>;

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
struct ErrorPage<'a> {
    status: u16,
    title: &'static str,
    message: &'a str,
    is_signed_in: bool,
}

impl Content for ErrorPage<'_> {
    fn title(&self) -> String {
        self.title.to_owned()
    }
}

impl PageError {
    pub(super) fn not_found() -> Self {
        ApiError::not_found("not found").into()
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
                refused(shell, &ApiError::not_found("The branch was renamed."))
            }
            Self::Moved(repository) | Self::RenamedBranch { repository, .. } => {
                redirect_to_repository(shell, &repository)
            }
            Self::SignIn => Redirect::to(&format!("{}{}", shell.site.root, shell.sign_in())).into_response(),
            // The same for hidden and missing things, so that it tells nothing.
            Self::Refused(error) if error.status == StatusCode::UNAUTHORIZED && shell.viewer.is_none() => {
                refused(shell, &ApiError::not_found("There is no such page, or you have to sign in to see it."))
            }
            Self::Refused(error) => refused(shell, &error),
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

fn refused(shell: &Shell, error: &ApiError) -> Response {
    let title = match error.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        StatusCode::SERVICE_UNAVAILABLE => "Busy",
        status if status.is_client_error() => "This did not work",
        _ => "Something went wrong",
    };
    let content = ErrorPage {
        status: error.status.as_u16(),
        title,
        message: error.message(),
        is_signed_in: shell.viewer.is_some(),
    };
    let mut response = page(shell, &content);
    *response.status_mut() = error.status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
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
}
