//! RPC `GetIssue`.

use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{GetIssueRequest, GetIssueResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

pub(super) async fn get_issue(
    service: &IssueRpc,
    request: Request<GetIssueRequest>,
) -> Result<GetIssueResponse, IssueError> {
    service.authorize(&request, request.get_ref().repository_id).await?;
    let GetIssueRequest { repository_id, number } = request.into_inner();
    let issue = service.full_issue(RepositoryId(repository_id), number).await?;
    Ok(GetIssueResponse { issue: Some(encode::issue(issue)) })
}

#[cfg(test)]
mod tests {
    use ferrite_proto::Permission;
    use ferrite_proto::issue::CreateIssueRequest;
    use ferrite_proto::operation::CREATE_ISSUE;
    use tonic::Code;

    use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

    #[tokio::test]
    async fn an_issue_is_found_under_its_number_in_its_repository_only() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Read);
            let request = CreateIssueRequest { repository_id: REPOSITORY, title: "t".to_owned(), ..Default::default() };
            let made = service.create(&caller, request).await.unwrap();
            let anonymous = TestCaller::anonymous(Permission::Read);
            assert_eq!(service.get(&anonymous, REPOSITORY, 1).await.unwrap(), made);

            for number in [2, 0, -1, i64::MIN, i64::MAX] {
                let status = service.get(&caller, REPOSITORY, number).await.unwrap_err();
                assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, "ISSUE_NOT_FOUND"), "{number}");
            }
            let status = service.get(&caller.granted(CREATE_ISSUE), REPOSITORY, 1).await.unwrap_err();
            assert_eq!(reason(&status), "BAD_GRANT");
            let elsewhere = TestCaller::user(7, Permission::Read).of_repository(REPOSITORY + 1);
            let status = service.get(&elsewhere, REPOSITORY + 1, 1).await.unwrap_err();
            assert_eq!(reason(&status), "ISSUE_NOT_FOUND");
            service.stop().await;
        })
        .await;
    }
}
