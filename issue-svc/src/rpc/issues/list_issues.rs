//! RPC `ListIssues`: from the fields of the request to filters of the store.

use ferrite_kit::id_or_name::IdOrName;
use ferrite_kit::page::Page;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::assignee_filter;
use ferrite_proto::issue::{IssueKind, IssueSort, ListIssuesRequest, ListIssuesResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::model::Class;
use crate::model::references::words;
use crate::rpc::{IssueRpc, encode};
use crate::store::{Condition, IssueFilter, IssuePage, Order, Sort};

const MAX_PAGE_SIZE: i32 = 50;
/// Labels in one filter.
const MAX_FILTER_LABELS: usize = 100;
/// Words of a filter that stand for no milestone, and for any.
const NONE: &str = "none";
const ANY: &str = "*";

pub(super) async fn list_issues(
    service: &IssueRpc,
    request: Request<ListIssuesRequest>,
) -> Result<ListIssuesResponse, IssueError> {
    service.authorize(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    let (classes, order, page) = decode(&request)?;
    let found = match filter(service, request, classes).await? {
        Some(filter) => service.store.list(repository, &filter, order, page).await?,
        None => IssuePage::default(),
    };
    let issues = found.issues.into_iter().map(encode::issue).collect();
    Ok(ListIssuesResponse { issues, total_count: found.total, is_partial: found.is_partial })
}

/// Returns the classes, order and page of a request.
fn decode(request: &ListIssuesRequest) -> Result<(Vec<Class>, Order, Page), IssueError> {
    let unknown = |field: &str, message: &str| FieldViolation::new(field, "unknown", message);
    let states = encode::is_closed(request.state).map(|state| state.map_or(vec![false, true], |state| vec![state]));
    let kinds = match IssueKind::try_from(request.kind) {
        Ok(IssueKind::Unspecified | IssueKind::Issue) => Ok(vec![false]),
        Ok(IssueKind::PullRequest) => Ok(vec![true]),
        Ok(IssueKind::Any) => Ok(vec![false, true]),
        Err(_) => Err(unknown("kind", "must be issues, pull requests or any")),
    };
    let sort = match IssueSort::try_from(request.sort) {
        Ok(IssueSort::Unspecified | IssueSort::Created) => Ok(Sort::Number),
        Ok(IssueSort::Updated) => Ok(Sort::Updated),
        Ok(IssueSort::Comments) => Ok(Sort::Comments),
        Err(_) => Err(unknown("sort", "must be created, updated or comments")),
    };
    let labels = if request.labels.len() > MAX_FILTER_LABELS {
        Err(FieldViolation::new("labels", "too_many", "must be at most 100"))
    } else {
        Ok(())
    };
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE);
    match (states, kinds, sort, labels, page) {
        (Ok(states), Ok(kinds), Ok(sort), Ok(()), Ok(page)) => {
            let of_kind =
                |is_pull_request| states.iter().map(move |is_closed| Class { is_pull_request, is_closed: *is_closed });
            let classes = kinds.into_iter().flat_map(of_kind).collect();
            Ok((classes, Order { sort, is_ascending: request.is_ascending }, page))
        }
        (states, kinds, sort, labels, page) => {
            let mut violations = page.err().unwrap_or_default();
            violations.extend([states.err(), kinds.err(), sort.err(), labels.err()].into_iter().flatten());
            Err(IssueError::Invalid(violations))
        }
    }
}

/// Returns the filter of a request; `None` if it names something that does not exist, so that nothing matches.
async fn filter(
    service: &IssueRpc,
    request: ListIssuesRequest,
    classes: Vec<Class>,
) -> Result<Option<IssueFilter>, IssueError> {
    let (repository, store) = (RepositoryId(request.repository_id), &service.store);
    let Some(label_ids) = label_ids(service, repository, &request.labels).await? else { return Ok(None) };
    let milestone = match request.milestone.as_str() {
        "" => None,
        NONE => Some(Condition::None),
        ANY => Some(Condition::Any),
        // Of several with one title the newest counts.
        text => {
            let all = store.milestone_titles(repository).await?;
            let Some((id, _)) = IdOrName::new(text).find(&all, |(id, title)| (*id, title)) else { return Ok(None) };
            Some(Condition::Is(*id))
        }
    };
    let assignee = request.assignee.and_then(|filter| filter.condition).map(|condition| match condition {
        assignee_filter::Condition::UserId(id) => Condition::Is(UserId(id)),
        assignee_filter::Condition::None(_) => Condition::None,
        assignee_filter::Condition::Any(_) => Condition::Any,
    });
    let words = if request.query.trim().is_empty() {
        None
    } else {
        let words = words::query_words(&request.query);
        if words.is_empty() {
            return Ok(None);
        }
        Some(store.db().pick(words::ts_query(repository, &words), words::fts5_query(repository, &words)))
    };
    Ok(Some(IssueFilter {
        classes,
        label_ids,
        assignee,
        creator: (request.creator_id != 0).then_some(UserId(request.creator_id)),
        milestone,
        mentioned: (!request.mentioned.is_empty()).then(|| request.mentioned.to_lowercase()),
        words,
        since_us: request.since.map(encode::micros),
    }))
}

/// Returns the ids of labels that are named or given by id; `None` if one does not exist.
async fn label_ids(
    service: &IssueRpc,
    repository: RepositoryId,
    labels: &[String],
) -> Result<Option<Vec<i64>>, IssueError> {
    if labels.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let ids: Vec<i64> = labels.iter().filter_map(|label| IdOrName::new(label).id()).collect();
    let store = &service.store;
    let found = store.labels_matching(store.reader(), repository, &ids, labels).await?;
    let mut matched = Vec::with_capacity(labels.len());
    for label in labels {
        let found = IdOrName::new(label).find(&found, |label| (label.id, &label.name));
        let Some(label) = found else { return Ok(None) };
        matched.push(label.id);
    }
    matched.sort_unstable();
    matched.dedup();
    Ok(Some(matched))
}

#[cfg(test)]
mod tests {
    use ferrite_proto::Permission;
    use ferrite_proto::error::violations;
    use ferrite_proto::issue::{CreateIssueRequest, IssueState};
    use ferrite_proto::operation::GET_ISSUE;

    use super::*;
    use crate::store::MAX_LISTED_TEXT_BYTES;
    use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

    fn request(state: IssueState, page: i32, page_size: i32) -> ListIssuesRequest {
        ListIssuesRequest { repository_id: REPOSITORY, state: state.into(), page, page_size, ..Default::default() }
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
    async fn lists_have_the_beginnings_of_long_bodies() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Read);
            let max = usize::try_from(MAX_LISTED_TEXT_BYTES).unwrap();
            // The last one has a character that the limit falls into.
            let bodies =
                [String::new(), "x".repeat(max), "x".repeat(1024 * 1024), "é".repeat(max), "€".repeat(max / 2)];
            for body in &bodies {
                let (title, body) = ("t".to_owned(), body.clone());
                let issue = CreateIssueRequest { repository_id: REPOSITORY, title, body, ..Default::default() };
                service.create(&caller, issue).await.unwrap();
            }
            for (query, sort) in [("", IssueSort::Created), ("t", IssueSort::Created), ("", IssueSort::Updated)] {
                let list =
                    ListIssuesRequest { query: query.into(), sort: sort.into(), ..request(IssueState::Open, 1, 50) };
                let mut listed = service.list(&caller, list).await.unwrap().issues;
                listed.sort_by_key(|issue| issue.number);
                for (issue, body) in listed.iter().zip(&bodies) {
                    let cut = body.floor_char_boundary(max);
                    assert!(issue.body == body[..cut], "{} of {} bytes", issue.body.len(), body.len());
                    assert_eq!(issue.is_truncated, cut < body.len());
                }
                assert_eq!(listed.len(), bodies.len());
            }
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
