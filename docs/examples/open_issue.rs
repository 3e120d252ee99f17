//! Opens an issue over gRPC, with the clients of the crate `ferrite-proto`.

use ferrite_proto::issue::CreateIssueRequest;
use ferrite_proto::issue::issue_service_client::IssueServiceClient;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_proto::repo::{GetRepositoryRequest, RepositoryName, RepositoryRef, repository_ref};
use tonic::transport::Endpoint;
use tonic::{Request, Status};

/// Adds a personal access token to a request.
fn with_token<T>(message: T, token: &str) -> Result<Request<T>, Status> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse().map_err(|_| Status::unauthenticated("the token is not ASCII"))?;
    request.metadata_mut().insert("authorization", value);
    Ok(request)
}

/// Opens an issue and returns its number. `repo` and `issue` are the services' URLs, such as `http://repo-svc:7001`.
///
/// # Errors
/// When a service cannot be reached, or refuses the call: the code and the message say why.
pub(super) async fn open_issue(
    (repo, issue): (Endpoint, Endpoint),
    token: &str,
    (owner, name): (&str, &str),
    title: &str,
) -> Result<i64, Box<dyn std::error::Error>> {
    let mut repositories = RepositoryServiceClient::new(repo.connect().await?);
    let mut issues = IssueServiceClient::new(issue.connect().await?);
    let by = repository_ref::By::Name(RepositoryName { owner: owner.to_owned(), name: name.to_owned() });
    let message = GetRepositoryRequest { repository: Some(RepositoryRef { by: Some(by) }) };
    let found = repositories.get_repository(with_token(message, token)?).await?.into_inner();
    let repository_id = found.repository.ok_or("the response has no repository")?.id;
    let message = CreateIssueRequest { repository_id, title: title.to_owned(), ..CreateIssueRequest::default() };
    let mut request = with_token(message, token)?;
    // The same key again gets the same issue, not a second one.
    request.metadata_mut().insert("idempotency-key", uuid::Uuid::new_v4().to_string().parse()?);
    let made = issues.create_issue(request).await?.into_inner();
    Ok(made.issue.ok_or("the response has no issue")?.number)
}
