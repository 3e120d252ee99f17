//! RPC `CreateLabel`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{CreateLabelRequest, CreateLabelResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::model::{Color, LabelName};
use crate::rpc::service::user;
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;

pub(super) async fn create_label(
    service: &IssueRpc,
    request: Request<CreateLabelRequest>,
) -> Result<CreateLabelResponse, IssueError> {
    let grant = service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "CreateLabel")?;
    let request = request.into_inner();
    let create = async {
        let (name, color) = match (LabelName::parse(&request.name), Color::parse(&request.color)) {
            (Ok(name), Ok(color)) => (name, color),
            (name, color) => return Err(IssueError::invalid([name.err(), color.err()])),
        };
        let change = CounterChange { labels: 1, ..CounterChange::default() };
        let mut write = service.writer.begin(RepositoryId(request.repository_id), change).await?;
        let label = write.add_label(&name, &color).await?;
        write.commit(key.as_ref(), CreateLabelResponse { label: Some(encode::label(label)) }).await
    };
    once(service.store.db(), key.as_ref(), create).await
}
