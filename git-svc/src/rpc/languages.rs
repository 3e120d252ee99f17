use ferrite_proto::git::{GetLanguagesRequest, GetLanguagesResponse, Language};
use tonic::Request;

use super::authorize;
use crate::{db::LanguageRow, rpc_error::RpcError, state::AppState};

/// Returns the languages of the default branch as last counted.
pub(super) async fn get_languages(
    state: &AppState,
    request: Request<GetLanguagesRequest>,
) -> Result<GetLanguagesResponse, RpcError> {
    let (_, id) = authorize(state, request, |request| request.repository_id).await?;
    Ok(response(&state.languages.get(id).await?))
}

fn response(row: &LanguageRow) -> GetLanguagesResponse {
    let languages = row
        .counts
        .sorted()
        .into_iter()
        .map(|(name, bytes)| Language { name: name.to_owned(), size_bytes: i64::try_from(bytes).unwrap_or(i64::MAX) });
    GetLanguagesResponse {
        languages: languages.collect(),
        commit_id: row.commit_id.clone(),
        is_truncated: row.counts.is_truncated,
    }
}
