//! Conflicts between pull requests and their bases.

use ferrite_api_types::convert::text;
use ferrite_api_types::shape;
use ferrite_proto::git::{ConflictFile, GetConflictsRequest, GetConflictsResponse, LineRange, PullEnds};
use ferrite_proto::issue::PullRequest;
use ferrite_proto::operation;
use ferrite_proto::repo::RepositoryRef;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;

use super::MERGE_TIMEOUT;
use super::changes::find;
use crate::api::call::{ApiCall, MaybeAuthenticated, operations};
use crate::api::git::response::read_error;
use crate::http::error::ApiResult;
use crate::http::path::{Params, RepoPath};
use crate::http::response::Json;

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/conflicts" => get conflicts as operation::GET_CONFLICTS;
}

shape! {
    /// The files of a pull request that conflict with its base.
    #[derive(Clone, Debug, Serialize)]
    struct PullConflicts {
        /// At most 100 files. Empty if the pull request can be merged.
        files: Vec<FileConflict>,
        /// The number of all files that conflict.
        total_count: i64,
    }
}

shape! {
    /// A file that conflicts.
    #[derive(Clone, Debug, Serialize)]
    struct FileConflict {
        path: String,
        /// The kind of conflict: `content`, `add_add`, `modify_delete`, `rename_rename`,
        /// `directory_file`, `directory_rename`, `binary`, `submodule` or `mode`.
        kind: String,
        /// At most 100 ranges. Empty for files that are not text.
        ranges: Vec<RangeConflict>,
    }
}

shape! {
    /// Lines that conflict: each time the first line, from 1, and the number of lines.
    #[derive(Clone, Debug, Serialize)]
    struct RangeConflict {
        /// In the merge base.
        base: Vec<i64>,
        /// In the base branch.
        ours: Vec<i64>,
        /// In the head.
        theirs: Vec<i64>,
    }
}

impl FileConflict {
    fn new(file: ConflictFile) -> Self {
        let lines = |range: Option<LineRange>| {
            let LineRange { start, line_count } = range.unwrap_or_default();
            vec![start.into(), line_count.into()]
        };
        let ranges = file.ranges.into_iter().map(|range| RangeConflict {
            base: lines(range.base),
            ours: lines(range.ours),
            theirs: lines(range.theirs),
        });
        Self { path: text(&file.path), kind: file.kind, ranges: ranges.collect() }
    }
}

async fn conflicts(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<PullConflicts>> {
    let access = call.access(&path, operation::GET_PULL).await?;
    let (_, ends) = find(&call, &access, params.id("index")).await?;
    if ends.is_merged {
        return Ok(Json(PullConflicts { files: Vec::new(), total_count: 0 }));
    }
    let found = conflicts_of(&call, RepositoryRef::by_id(access.id), &ends).await?;
    let files = found.files.into_iter().map(FileConflict::new).collect();
    Ok(Json(PullConflicts { files, total_count: found.total_count }))
}

pub(super) async fn conflicts_of(
    call: &ApiCall,
    repository: RepositoryRef,
    ends: &PullRequest,
) -> ApiResult<GetConflictsResponse> {
    let access = call.resolve(repository, operation::GET_CONFLICTS).await?;
    let pull = Some(PullEnds { base_branch: ends.base_branch.clone(), head_id: ends.head_id.clone() });
    let request = call.request_with_grant(&access.grant, GetConflictsRequest { repository_id: access.id, pull });
    let request = with_timeout(request, MERGE_TIMEOUT);
    Ok(call.clients.merges().get_conflicts(request).await.map_err(read_error)?.into_inner())
}
