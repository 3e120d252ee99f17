use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListOrganizationsRequest, ListOrganizationsResponse};
use tonic::Request;

use super::super::lookup;
use super::{MAX_PAGE_SIZE, encode, knows_its_own};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::Seen;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<ListOrganizationsRequest>,
) -> Result<ListOrganizationsResponse, RepoError> {
    let request = request.into_inner();
    let caller = permit.user()?;
    let member = match request.username.as_str() {
        "" => caller,
        name => lookup::user(core, name).await?.id,
    };
    let viewer = permit.viewer();
    let seen = match knows_its_own(viewer) {
        _ if viewer.administers() => Seen::All,
        true if member == caller => Seen::All,
        true => Seen::PublicAndShared,
        false => Seen::Public,
    };
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = core.organizations.list(member, Some(caller), seen, page).await?;
    Ok(ListOrganizationsResponse { organizations: rows.into_iter().map(encode).collect(), total_count })
}
