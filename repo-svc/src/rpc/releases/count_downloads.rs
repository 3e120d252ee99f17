use ferrite_proto::repo::{CountDownloadsRequest, CountDownloadsResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

/// Most entries of a request.
const MAX_DOWNLOADS: usize = 1_000;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<CountDownloadsRequest>,
) -> Result<CountDownloadsResponse, RepoError> {
    for downloads in request.into_inner().downloads.iter().take(MAX_DOWNLOADS) {
        state.downloads.note(downloads.asset_id, downloads.count.max(0));
    }
    Ok(CountDownloadsResponse {})
}
