//! Pages of pull requests: the list, the tabs of one, and their forms.

mod actions;
mod commits;
mod conversation;
mod files;
mod line_comments;
mod merge_box;
mod new;
mod requirements;
mod reviews;
mod view;

use axum::Router;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::routing::get;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use self::view::Pull;
use super::components::Count;
use super::error::{PageError, PageResult};
use super::expensive::expensive;
use super::form::Fields;
use super::issues::view::{Issue, can_change, can_comment};
use super::issues::{RepositoryForm, list, number};
use super::layout::Content;
use super::pool::Group;
use super::repositories::{RepositoryVisit, Tab};
use super::view::{Account, Repository};
use super::visit::{PagesState, Visit};
use crate::http::error::ApiError;

/// The tabs of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PullTab {
    Conversation,
    Commits,
    Files,
}

/// A visit of a page of a pull request.
struct PullVisit {
    at: RepositoryVisit,
    pull: Pull,
    /// The same as an issue.
    issue: Issue,
}

/// A form about a pull request.
struct PullForm {
    on: PullVisit,
    fields: Fields,
}

/// The top of all tabs: title, state, and the tabs.
struct Head<'a> {
    pull: &'a Pull,
    issue: &'a Issue,
    /// The path of the pull request.
    path: String,
    tab: PullTab,
    can_change: bool,
    /// `None` if there are too many to count.
    commit_count: Option<u64>,
}

/// What the visitor may do.
#[derive(Clone, Copy, Debug, Default)]
struct Rights {
    /// Comment and review.
    comment: bool,
    /// Approve and reject.
    judge: bool,
    /// Change title and state, and ask for reviews.
    change: bool,
    /// Withdraw requests for reviews.
    write: bool,
    /// Only organizations have teams.
    ask_teams: bool,
    merge: bool,
    /// Dismiss reviews, and delete those of others.
    admin: bool,
}

pub(super) fn router() -> Router<PagesState> {
    let pull = "/{owner}/{repo}/pulls/{index}";
    Router::new()
        .route("/{owner}/{repo}/pulls", get(list::pulls))
        .route("/{owner}/{repo}/pulls/new", get(new::choose))
        .route("/{owner}/{repo}/pulls/new/{*basehead}", get(new::form).post(new::create))
        .route(pull, get(conversation::conversation).post(actions::act))
        .route(&format!("{pull}/edit"), get(actions::edit))
        .route(&format!("{pull}/commits"), get(commits::commits))
        .route(&format!("{pull}/files"), get(expensive(Group::Diff, files::files)).post(files::review))
        .route(&format!("{pull}/files/comment"), get(line_comments::form).post(line_comments::create))
        .route(&format!("{pull}/reviews/{{id}}"), get(reviews::review))
}

impl FromRequestParts<PagesState> for PullVisit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &PagesState) -> PageResult<Self> {
        Self::of(RepositoryVisit::from_request_parts(parts, state).await?).await
    }
}

impl FromRequest<PagesState> for PullForm {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &PagesState) -> PageResult<Self> {
        let RepositoryForm { at, fields } = RepositoryForm::from_request(request, state).await?;
        Ok(Self { on: PullVisit::of(at).await?, fields })
    }
}

/// Reads a pull request of the API, which is an issue as well.
fn parse(value: Value, repository: &Repository) -> serde_json::Result<(Pull, Issue)> {
    let mut issue = value.clone();
    issue["repository"] = json!({"full_name": repository.full_name()});
    issue["pull_request"] = json!({"merged": value["merged"], "draft": value["draft"]});
    Ok((serde_json::from_value(value)?, serde_json::from_value(issue)?))
}

impl PullVisit {
    /// Reads the pull request that the rest of the path begins with.
    async fn of(at: RepositoryVisit) -> PageResult<Self> {
        let path = format!("{}/pulls/{}", at.repository.api(), number(&at)?);
        let (pull, issue) = parse(at.visit.api.get(&path).await?, &at.repository).map_err(|error| {
            tracing::error!("a page cannot read a pull request: {error}");
            ApiError::internal()
        })?;
        Ok(Self { at, pull, issue })
    }

    fn visit(&self) -> &Visit {
        &self.at.visit
    }

    fn viewer(&self) -> Option<&Account> {
        self.at.visit.shell.viewer.as_ref()
    }

    /// The path of its operations in the API.
    fn api(&self) -> String {
        format!("{}/pulls/{}", self.at.repository.api(), self.pull.number)
    }

    fn is_author(&self) -> bool {
        self.viewer().is_some_and(|viewer| viewer.id == self.pull.user.id)
    }

    fn rights(&self) -> Rights {
        let (comment, repository) = (can_comment(&self.at), &self.at.repository);
        Rights {
            comment,
            judge: comment && self.pull.is_open() && !self.is_author(),
            change: can_change(&self.at, &self.issue),
            write: comment && repository.permissions.push,
            ask_teams: comment && repository.permissions.push && repository.owner.is_organization(),
            merge: comment && repository.can_write(),
            admin: comment && repository.permissions.admin,
        }
    }

    /// Counts the commits.
    async fn commit_count(&self) -> PageResult<Option<u64>> {
        let path = format!("{}/commits?limit=1&stat=false&files=false", self.api());
        Ok(self.visit().api.list::<IgnoredAny>(&path).await?.total)
    }

    fn head(&self, tab: PullTab, commit_count: Option<u64>) -> Head<'_> {
        let can_change = self.rights().change;
        Head { pull: &self.pull, issue: &self.issue, path: self.issue.path(), tab, can_change, commit_count }
    }

    fn page(&self, content: &impl Content) -> PageResult {
        self.at.page(Tab::Pulls, content)
    }

    fn title(&self) -> String {
        format!("{} #{}", self.pull.title, self.pull.number)
    }
}

impl Head<'_> {
    fn commits(&self) -> String {
        self.commit_count.map_or_else(|| "its commits".to_owned(), |count| Count(count, "commit").to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_request_is_an_issue() {
        let value = view::testing::value("WIP: x");
        let repository = json!({
            "id": 1, "name": "demo", "owner": {"login": "ada"}, "private": false, "archived": false, "mirror": false,
            "empty": false, "fork": false, "updated_at": "2026-11-28T10:00:00Z"
        });
        let (pull, issue) = parse(value, &serde_json::from_value(repository).unwrap()).unwrap();
        assert_eq!((issue.path().as_str(), issue.noun()), ("/ada/demo/pulls/7", "pull request"));
        assert_eq!((issue.title.as_str(), issue.is_open()), (pull.title.as_str(), pull.is_open()));
    }
}
