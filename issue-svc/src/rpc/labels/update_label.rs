//! RPC `UpdateLabel`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{UpdateLabelRequest, UpdateLabelResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::model::{Color, LabelName};
use crate::rpc::service::user;
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;

pub(super) async fn update_label(
    service: &IssueRpc,
    request: Request<UpdateLabelRequest>,
) -> Result<UpdateLabelResponse, IssueError> {
    let grant = service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "UpdateLabel")?;
    let request = request.into_inner();
    let update = async {
        let name = request.name.as_deref().map(LabelName::parse).transpose();
        let color = request.color.as_deref().map(Color::parse).transpose();
        let (name, color) = match (name, color) {
            (Ok(name), Ok(color)) => (name, color),
            (name, color) => return Err(IssueError::invalid([name.err(), color.err()])),
        };
        let mut write = service.writer.begin(RepositoryId(request.repository_id), CounterChange::default()).await?;
        let label = write.change_label(request.label_id, name.as_ref(), color.as_ref()).await?;
        write.commit(key.as_ref(), UpdateLabelResponse { label: Some(encode::label(label)) }).await
    };
    once(service.store.db(), key.as_ref(), update).await
}
