//! RPC `GetLabel`.

use ferrite_kit::id_or_name::IdOrName;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{GetLabelRequest, GetLabelResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

pub(super) async fn get_label(
    service: &IssueRpc,
    request: Request<GetLabelRequest>,
) -> Result<GetLabelResponse, IssueError> {
    service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let GetLabelRequest { repository_id, label } = request.into_inner();
    let (store, repository) = (&service.store, RepositoryId(repository_id));
    let reference = IdOrName::new(&label);
    let ids = reference.id();
    let found = store.labels_matching(store.reader(), repository, ids.as_slice(), std::slice::from_ref(&label)).await?;
    let label = reference.find(&found, |label| (label.id, &label.name)).cloned().ok_or(IssueError::LabelNotFound)?;
    Ok(GetLabelResponse { label: Some(encode::label(label)) })
}
