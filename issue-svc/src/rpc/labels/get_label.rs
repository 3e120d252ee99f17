//! RPC `GetLabel`.

use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{GetLabelRequest, GetLabelResponse};
use tonic::{Request, Status};

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

pub(super) async fn get_label(
    service: &IssueRpc,
    request: Request<GetLabelRequest>,
) -> Result<GetLabelResponse, Status> {
    service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let GetLabelRequest { repository_id, label } = request.into_inner();
    let (store, repository) = (&service.store, RepositoryId(repository_id));
    let found = match label.parse::<i64>() {
        Ok(id) if id > 0 => store.label(&mut store.reader(), repository, id).await,
        _ => store.label_named(&mut store.reader(), repository, &label.replace('\0', "\u{fffd}")).await,
    };
    let label = found.map_err(IssueError::from)?.ok_or(IssueError::LabelNotFound)?;
    Ok(GetLabelResponse { label: Some(encode::label(label)) })
}
