//! RPC `ListIssues`.

use ferrite_kit::page::Page;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{IssueState, ListIssuesRequest, ListIssuesResponse};
use tonic::{Request, Status};

use super::encode::encode;
use super::service::IssueRpc;
use crate::error::IssueError;

const MAX_PAGE_SIZE: i32 = 50;

pub(super) async fn list_issues(
    service: &IssueRpc,
    request: Request<ListIssuesRequest>,
) -> Result<ListIssuesResponse, Status> {
    service.authorize(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let (is_closed, page) = decode(&request)?;
    let repository = RepositoryId(request.repository_id);
    let (issues, total_count) = service.store.list(repository, is_closed, page).await.map_err(IssueError::from)?;
    Ok(ListIssuesResponse { issues: issues.into_iter().map(encode).collect(), total_count })
}

fn decode(request: &ListIssuesRequest) -> Result<(Option<bool>, Page), IssueError> {
    let is_closed = match IssueState::try_from(request.state) {
        Ok(IssueState::Unspecified) => Ok(None),
        Ok(IssueState::Open) => Ok(Some(false)),
        Ok(IssueState::Closed) => Ok(Some(true)),
        Err(_) => Err(FieldViolation::new("state", "unknown", "must be open or closed")),
    };
    match (is_closed, Page::parse(request.page, request.page_size, MAX_PAGE_SIZE)) {
        (Ok(is_closed), Ok(page)) => Ok((is_closed, page)),
        (is_closed, page) => {
            let mut violations = page.err().unwrap_or_default();
            violations.extend(is_closed.err());
            Err(IssueError::Invalid(violations))
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::Permission;
    use ferrite_proto::error::violations;
    use ferrite_proto::issue::CreateIssueRequest;
    use ferrite_proto::operation::GET_ISSUE;

    use super::*;
    use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

    fn request(state: IssueState, page: i32, page_size: i32) -> ListIssuesRequest {
        ListIssuesRequest { repository_id: REPOSITORY, state: state.into(), page, page_size }
    }

    #[tokio::test]
    async fn pages_are_newest_first_and_count_everything_that_matches() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Read);
            for number in 1..=5 {
                let title = number.to_string();
                let is_closed = number % 2 == 0;
                let issue = CreateIssueRequest { repository_id: REPOSITORY, title, is_closed, ..Default::default() };
                service.create(&caller, issue).await.unwrap();
            }
            let cases: [(IssueState, i32, i32, &[i64], i64); 6] = [
                (IssueState::Unspecified, 1, 50, &[5, 4, 3, 2, 1], 5),
                (IssueState::Open, 1, 2, &[5, 3], 3),
                (IssueState::Open, 2, 2, &[1], 3),
                (IssueState::Closed, 1, 10, &[4, 2], 2),
                (IssueState::Closed, 2, 10, &[], 2),
                (IssueState::Open, i32::MAX, 50, &[], 3),
            ];
            for (state, page, size, numbers, total) in cases {
                let answer =
                    service.list(&TestCaller::anonymous(Permission::Read), request(state, page, size)).await.unwrap();
                assert_eq!(
                    answer.issues.iter().map(|issue| issue.number).collect::<Vec<_>>(),
                    numbers,
                    "{state:?} {page}"
                );
                assert_eq!(answer.total_count, total);
            }
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_page_of_the_largest_issues_is_answered() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Read);
            let body = "x".repeat(1024 * 1024);
            for title in ["1", "2", "3", "4", "5"] {
                let (title, body) = (title.to_owned(), body.clone());
                let issue = CreateIssueRequest { repository_id: REPOSITORY, title, body, is_closed: false };
                service.create(&caller, issue).await.unwrap();
            }
            let answer = service.list(&caller, request(IssueState::Open, 1, 50)).await.unwrap();
            assert!(answer.issues.len() == 5 && answer.issues.iter().all(|issue| issue.body == body));
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_list_refuses_invalid_fields_and_grants_for_other_operations() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Read);
            let wrong = ListIssuesRequest { state: 9, ..request(IssueState::Open, 0, 51) };
            let status = service.list(&caller, wrong).await.unwrap_err();
            let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
            assert_eq!(fields, ["page", "page_size", "state"]);

            let off = service.list(&caller.without_issues(), request(IssueState::Open, 1, 10)).await.unwrap_err();
            assert_eq!(reason(&off), "ISSUES_DISABLED");
            let other = service.list(&caller.granted(GET_ISSUE), request(IssueState::Open, 1, 10)).await;
            assert_eq!(reason(&other.unwrap_err()), "BAD_GRANT");
            service.stop().await;
        })
        .await;
    }
}
