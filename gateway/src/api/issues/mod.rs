mod comments;
mod deadlines;
mod issues;
pub(super) mod labels;
mod milestones;
pub(super) mod reactions;
mod settings;
mod timeline;

pub use self::issues::ASSIGNEE_WORDS;

use std::collections::HashMap;

use axum::http::StatusCode;
use ferrite_proto::error::reason;
use ferrite_proto::issue::{IssueState, NamedRepository};
use tonic::{Code, Status};

use super::call::groups;
use crate::http::error::ApiError;
use crate::http::words::words;
use ferrite_api_types::links::{Links, RepositoryLinks};

groups! { comments deadlines issues labels milestones reactions settings timeline }

words! {
    pub(super) enum ListedState: IssueState {
        "open" = IssueState::Open,
        "closed" = IssueState::Closed,
        "all" = IssueState::Unspecified,
    }
}

words! {
    pub(super) enum NewState: IssueState { "open" = IssueState::Open, "closed" = IssueState::Closed }
}

/// Converts a status of a list with long texts. If the response exceeds the message limit, the page
/// is too large.
fn list_error(status: Status) -> ApiError {
    if status.code() != Code::OutOfRange {
        return status.into();
    }
    ApiError::invalid_field("limit", "too_long", "the page is too large, request fewer entries")
}

/// Converts a status of a change. A merged pull request keeps its state: 412, as in Gitea.
pub(super) fn change_error(status: Status) -> ApiError {
    let is_merged = reason(&status).as_deref() == Some("ALREADY_MERGED");
    let mut error = ApiError::from(status);
    if is_merged {
        error.status = StatusCode::PRECONDITION_FAILED;
    }
    error
}

struct RepositoryUrls(HashMap<i64, RepositoryLinks>);

impl RepositoryUrls {
    fn new(repositories: Vec<NamedRepository>, links: &Links) -> Self {
        let urls = |named: NamedRepository| (named.repository_id, links.repository(&named.owner, &named.name));
        Self(repositories.into_iter().map(urls).collect())
    }

    fn with(mut self, repository_id: i64, urls: RepositoryLinks) -> Self {
        self.0.insert(repository_id, urls);
        self
    }

    fn of(&self, repository_id: i64) -> Option<&RepositoryLinks> {
        self.0.get(&repository_id)
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::FromRequestParts;
    use axum::http::Request;
    use axum::response::IntoResponse;
    use ferrite_rpc::auth::AuthError;

    use super::*;
    use crate::http::filters::Filter;
    use crate::http::page::{LargeList, Total};
    use crate::http::query::Query;
    use crate::http::request::Word;

    #[tokio::test]
    async fn a_list_counted_in_part_has_a_next_page_and_no_last_one() {
        let links = Links::new("http://h", "h:22");
        let headers = async |page: i32, is_partial: bool| {
            let request = Request::get(format!("/x?page={page}")).body(()).unwrap();
            let Ok(query) = LargeList::from_request_parts(&mut request.into_parts().0, &()).await;
            let response = query.list(vec![1], Total::counted(25, is_partial), &links).into_response();
            let headers = response.headers();
            let link = headers.get("link").map_or("", |link| link.to_str().unwrap()).to_owned();
            let relations: Vec<_> = ["next", "last", "first", "prev"].map(|name| link.contains(name)).into();
            (relations, headers.contains_key("x-total-count"))
        };
        assert_eq!(headers(1, true).await, (vec![true, false, false, false], false));
        assert_eq!(headers(2, true).await, (vec![true, false, true, true], false));
        assert_eq!(headers(3, true).await, (vec![false, false, true, true], false));
        assert_eq!(headers(2, false).await, (vec![true, true, true, true], true));
        assert_eq!(headers(i32::MAX, true).await.0, [false, false, true, true]);
    }

    #[test]
    fn states_of_lists_are_words_and_others_are_mistakes() {
        let state = |query: &str| {
            let state = <Word<ListedState> as Filter>::read(&Query::new("/", query), "state");
            state.map(|state| state.unwrap_or(IssueState::Open))
        };
        for (query, expected) in [
            ("", IssueState::Open),
            ("state=", IssueState::Open),
            ("state=open", IssueState::Open),
            ("state=closed", IssueState::Closed),
            ("state=all", IssueState::Unspecified),
        ] {
            assert_eq!(state(query), Ok(expected), "{query}");
        }
        for query in ["state=CLOSED", "state=foo", "state=%00"] {
            let error = state(query).unwrap_err();
            assert_eq!((error.field.as_str(), &*error.code), ("state", "unknown"), "{query}");
        }
    }

    #[test]
    fn a_page_beyond_the_limit_of_messages_names_the_limit() {
        assert_eq!(list_error(Status::out_of_range("decoded message length too large")).status.as_u16(), 422);
        assert_eq!(list_error(AuthError::RepositoryNotFound.into()).status.as_u16(), 404);
    }
}
