use std::sync::Arc;

use ferrite_kit::{auth::Caller, idempotency::IdempotencyKey};
use ferrite_proto::{
    git::{PutContentsRequest, PutContentsResponse},
    grant::Grant,
    id::RepositoryId,
};
use git2::Oid;
use tonic::Request;

use super::{encode, finish};
use crate::{
    app::App,
    error::GitError,
    failure::Failure,
    name::BranchName,
    path::TreePath,
    store::UpdateKind,
    work::{Change, Receipt},
    write::{Author, PutFile, put_file},
};

/// Creates or replaces one file in one commit.
pub(super) async fn put_contents(
    app: &App,
    request: Request<PutContentsRequest>,
) -> Result<PutContentsResponse, Failure> {
    let caller = Caller::of(&request);
    let id = request.get_ref().repository_id;
    let grant = app.authorize(&caller, id).await?;
    let user = grant.user_id().map_or(0, |user| user.0);
    let key = IdempotencyKey::of(&request, user, "PutContents")?;
    let put = parse(request.into_inner(), author(&grant, app))?;
    metrics::counter!("ferrite_git_puts_total").increment(1);
    let own = app.clone();
    finish(app, async move { write(&own, RepositoryId(id), user, put, key).await }).await
}

/// Runs to its end once begun. The key is looked up under the lock: two writes with one key are one after the other.
async fn write(
    app: &App,
    id: RepositoryId,
    user: i64,
    put: PutFile,
    key: Option<IdempotencyKey>,
) -> Result<PutContentsResponse, Failure> {
    let guard = app.writer.lock(id).await?;
    if let Some(key) = &key
        && let Some(answer) = key.replay(&app.db).await?
    {
        return Ok(answer);
    }
    let put = Arc::new(put);
    let prepared = app.pool.run(id, move |repo| put_file(repo, &put)).await?;
    let change = Change { kind: UpdateKind::Api, user, edits: vec![prepared.edit()] };
    let answer = PutContentsResponse {
        branch: prepared.branch.as_bytes().to_vec(),
        entry: Some(encode::entry(prepared.entry)),
        commit: Some(encode::commit(prepared.commit)),
    };
    let receipt = key.as_ref().map(|key| Receipt { key, answer: &answer });
    let delivered = app.writer.apply(&guard, &change, receipt).await?;
    drop(guard);
    delivered.await;
    Ok(answer)
}

fn author(grant: &Grant, app: &App) -> Author {
    let seconds = i64::try_from(app.clock.now_secs()).unwrap_or(i64::MAX);
    match &grant.user {
        Some(user) => {
            let name = if user.full_name.trim().is_empty() { &user.username } else { &user.full_name };
            Author::new(name, &user.email, seconds)
        }
        None => Author::new("", "", seconds),
    }
}

fn parse(request: PutContentsRequest, author: Author) -> Result<PutFile, GitError> {
    let branch = match request.branch.as_str() {
        "" => None,
        name => Some(BranchName::parse(name.as_bytes()).map_err(|error| error.of("branch"))?),
    };
    let expected_blob = match request.expected_blob_id.as_str() {
        "" => None,
        // A short id, which the library would take, names no blob for sure.
        id if id.len() == 40 => Some(Oid::from_str(id).map_err(|_| bad_blob())?),
        _ => return Err(bad_blob()),
    };
    Ok(PutFile {
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        content: request.content.into(),
        message: request.message,
        branch,
        expected_blob,
        author,
    })
}

fn bad_blob() -> GitError {
    GitError::invalid("sha", "invalid", "must be 40 hexadecimal digits")
}
