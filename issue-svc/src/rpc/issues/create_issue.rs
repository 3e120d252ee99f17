//! RPC `CreateIssue`: numbers and stores an issue, and sends the counts of its repository as an event.

use ferrite_kit::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::Permission;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{CreateIssueRequest, CreateIssueResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::model::{Body, NewIssue, Title};
use crate::rpc::service::user;
use crate::rpc::{IssueRpc, encode};
use crate::writer::MAX_ISSUE_LABELS;

pub(super) async fn create_issue(
    service: &IssueRpc,
    request: Request<CreateIssueRequest>,
) -> Result<CreateIssueResponse, IssueError> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "CreateIssue")?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    let create = async {
        let new = decode(service, &grant, request).await?;
        service.limits.count_issue(&grant, new.body.as_str().len()).await?;
        let targets = service.targets(new.repository, new.author, new.body.as_str()).await?;
        let mut write = service.writer.begin_open(&new).await?;
        let issue = write.open(&new, &targets).await?;
        let (number, answer) = (issue.issue.number, CreateIssueResponse { issue: Some(encode::issue(issue)) });
        write.commit_with_subject(key.as_ref(), answer, number).await
    };
    let rebuild = |number: i64| async move {
        Ok(CreateIssueResponse { issue: Some(encode::issue(service.full_issue(repository, number).await?)) })
    };
    once_or_rebuild(service.store.db(), key.as_ref(), rebuild, create).await
}

async fn decode(service: &IssueRpc, grant: &Grant, request: CreateIssueRequest) -> Result<NewIssue, IssueError> {
    let (title, body) = match (Title::parse(&request.title), Body::parse(request.body)) {
        (Ok(title), Ok(body)) => (title, body),
        (title, body) => return Err(IssueError::invalid([title.err(), body.err()])),
    };
    let mut new = NewIssue {
        repository: RepositoryId(request.repository_id),
        author: user(grant)?,
        title,
        body,
        is_closed: request.is_closed,
        assignee: None,
        milestone_id: 0,
        label_ids: Vec::new(),
        pull_request: None,
    };
    // For others the values are ignored, so that they do not learn what exists.
    if grant.permission >= Permission::Write {
        new.milestone_id = request.milestone_id;
        new.label_ids = request.label_ids;
        new.label_ids.sort_unstable();
        new.label_ids.dedup();
        if new.label_ids.len() > MAX_ISSUE_LABELS {
            return Err(FieldViolation::new("labels", "too_many", "an issue has at most 100 labels").into());
        }
        if !request.assignee.is_empty() {
            new.assignee = Some(service.repo.assignee(new.repository, &request.assignee).await?);
        }
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ferrite_proto::Permission;
    use ferrite_proto::error::violations;
    use ferrite_proto::issue::IssueState;
    use ferrite_proto::operation::LIST_ISSUES;
    use futures_util::future::join_all;
    use tonic::Code;

    use super::*;
    use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

    fn request(title: &str) -> CreateIssueRequest {
        CreateIssueRequest {
            repository_id: REPOSITORY,
            title: title.to_owned(),
            body: "text".to_owned(),
            ..CreateIssueRequest::default()
        }
    }

    #[tokio::test]
    async fn a_reader_opens_issues_under_numbers_from_one() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Read);
            for number in 1..=3 {
                let closed = CreateIssueRequest { is_closed: number == 2, ..request(" Title ") };
                let issue = service.create(&caller, closed).await.unwrap();
                assert_eq!((issue.number, issue.user_id, issue.title.as_str()), (number, 7, "Title"));
                let state = if number == 2 { IssueState::Closed } else { IssueState::Open };
                assert_eq!(issue.state(), state);
                assert_eq!((issue.body.as_str(), issue.comment_count), ("text", 0));
                assert!(issue.create_time.unwrap().seconds > 1_700_000_000);
                assert_eq!(issue.create_time, issue.update_time);
            }
            let changes: Vec<_> = service
                .sent_changes()
                .await
                .into_iter()
                .map(|fact| (fact.number, fact.open_issue_count, fact.version))
                .collect();
            assert_eq!(changes, [(1, 1, 1), (2, 1, 2), (3, 2, 3)]);
            // Three for repo-svc; for hook-svc three and one for the closed issue.
            assert_eq!(service.wait_for_delivery().await, 7);
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn eight_concurrent_issues_get_consecutive_numbers() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Read);
            let calls = (0..8).map(|turn| service.create(&caller, request(&format!("issue {turn}"))));
            let issues = join_all(calls).await;
            let numbers: BTreeSet<_> = issues.iter().map(|issue| issue.as_ref().unwrap().number).collect();
            assert_eq!(numbers, (1..=8).collect());
            let changes = service.sent_changes().await;
            assert_eq!(changes.iter().map(|fact| fact.version).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
            assert!(changes.iter().all(|fact| fact.open_issue_count == fact.version && fact.number == fact.version));
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn one_idempotency_key_opens_one_issue_even_concurrently() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Read).with_key("k1");
            let issues = join_all((0..4).map(|_| service.create(&caller, request("once")))).await;
            assert!(issues.iter().all(|issue| issue.as_ref().unwrap() == issues[0].as_ref().unwrap()), "{issues:?}");
            assert_eq!(service.create(&caller, request("once")).await.unwrap().number, 1);
            assert_eq!(service.sent_changes().await.len(), 1);

            let other = service.create(&caller, request("other")).await.unwrap_err();
            assert_eq!((other.code(), reason(&other)), (Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED".to_owned()));
            let other_user = TestCaller::user(8, Permission::Read).with_key("k1");
            assert_eq!(service.create(&other_user, request("mine")).await.unwrap().number, 2);
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn all_invalid_fields_are_reported() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let wrong = CreateIssueRequest { body: "\0".to_owned(), ..request("  ") };
            let status = service.create(&TestCaller::user(7, Permission::Read), wrong).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            let fields: Vec<_> = violations(&status).into_iter().map(|(field, code, _)| (field, code)).collect();
            let expected =
                [("title", "required"), ("body", "invalid")].map(|(field, code)| (field.into(), code.into()));
            assert_eq!(fields, expected);
            assert!(service.sent_changes().await.is_empty());
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn only_a_valid_grant_for_this_call_and_repository_opens_an_issue() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let refusals = [
                (TestCaller::without_credentials(), Code::Unauthenticated, "CREDENTIALS_REQUIRED"),
                (TestCaller::anonymous(Permission::Read), Code::Unauthenticated, "CREDENTIALS_REQUIRED"),
                (TestCaller::user(7, Permission::Owner).with_other_key(), Code::Unauthenticated, "BAD_GRANT"),
                (TestCaller::user(7, Permission::Owner).expired(), Code::Unauthenticated, "BAD_GRANT"),
                (
                    TestCaller::user(7, Permission::Owner).of_repository(REPOSITORY + 1),
                    Code::Unauthenticated,
                    "BAD_GRANT",
                ),
                (TestCaller::user(7, Permission::Owner).granted(LIST_ISSUES), Code::Unauthenticated, "BAD_GRANT"),
                (TestCaller::user(7, Permission::Owner).granted(""), Code::Unauthenticated, "BAD_GRANT"),
                (TestCaller::user(7, Permission::Owner).without_issues(), Code::NotFound, "ISSUES_DISABLED"),
            ];
            for (caller, code, expected) in refusals {
                let status = service.create(&caller, request("no")).await.unwrap_err();
                assert_eq!((status.code(), reason(&status).as_str()), (code, expected), "{caller:?}");
            }
            assert!(service.sent_changes().await.is_empty());
            service.stop().await;
        })
        .await;
    }
}
