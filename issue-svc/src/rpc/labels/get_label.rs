//! RPC `GetLabel`.

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
    let found = match label.parse::<i64>() {
        Ok(id) if id > 0 => store.label(store.reader(), repository, id).await?,
        _ => store.label_named(store.reader(), repository, &label.replace('\0', "\u{fffd}")).await?,
    };
    let label = found.ok_or(IssueError::LabelNotFound)?;
    Ok(GetLabelResponse { label: Some(encode::label(label)) })
}
