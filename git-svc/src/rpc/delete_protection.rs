use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{DeleteProtectionRequest, DeleteProtectionResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::{finish, get_protection};
use crate::{app::App, failure::Failure, work::By};

/// Removes a rule.
pub(super) async fn delete_protection(
    app: &App,
    request: Request<DeleteProtectionRequest>,
) -> Result<DeleteProtectionResponse, Failure> {
    let caller = Caller::of(&request);
    let id = RepositoryId(request.get_ref().repository_id);
    let grant = app.authorize(&caller, id.0).await?;
    let by = By::of(&caller, &grant, request.metadata());
    let request = request.into_inner();
    let own = app.clone();
    finish(app, async move { delete(&own, id, request, by).await }).await
}

async fn delete(
    app: &App,
    id: RepositoryId,
    request: DeleteProtectionRequest,
    by: By,
) -> Result<DeleteProtectionResponse, Failure> {
    let guard = app.writer.lock(id).await?;
    let rule = get_protection::named(app, id, request.protection_id, &request.pattern).await?;
    let told = app.writer.remove_rule(&guard, &rule, by).await?;
    drop(guard);
    told.await;
    Ok(DeleteProtectionResponse {})
}
