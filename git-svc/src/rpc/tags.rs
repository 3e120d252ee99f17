use ferrite_db::{DbError, idempotency::Stored};
use ferrite_listener::service;
use ferrite_proto::git::{
    AddTagRequest, AddTagResponse, DeleteTagRequest, DeleteTagResponse, GetTagRequest, GetTagResponse,
    tag_service_server::TagService,
};
use ferrite_rpc::version;
use git_store::{
    disk::loose_objects::NewObject,
    repo::{
        read::{self, TagInfo},
        refs::{RefEdit, lookup},
        revision::Revision,
        write::TagDraft,
    },
    types::{
        error::{GitError, quota_exceeded},
        name::{BranchName, RefName},
    },
};
use git2::Repository;
use tonic::Request;

use super::{
    authorize, decode, encode,
    ref_writes::{RefWrite, author},
};
use crate::{
    db::{RefTransaction, UpdateKind},
    rpc_error::RpcError,
    state::AppState,
};

service!(TagService for AppState {
    get_tag(GetTagRequest) -> GetTagResponse;
    add_tag(AddTagRequest) -> AddTagResponse;
    delete_tag(DeleteTagRequest) -> DeleteTagResponse;
});

async fn get_tag(state: &AppState, request: Request<GetTagRequest>) -> Result<GetTagResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let tag = encode::tag(state.pool.run(id, move |repo| read::tag(repo, &request.name)).await?);
    version::tell(&tag);
    Ok(GetTagResponse { tag: Some(tag) })
}

/// A tag to create.
struct NewTag {
    name: BranchName,
    target: Revision,
    /// The tag object; `None` for a lightweight tag.
    draft: Option<TagDraft>,
}

impl NewTag {
    fn full_name(&self) -> Result<RefName, GitError> {
        RefName::parse(&[b"refs/tags/", self.name.as_bytes()].concat()).map_err(|error| error.of("tag_name"))
    }
}

async fn add_tag(state: &AppState, request: Request<AddTagRequest>) -> Result<AddTagResponse, RpcError> {
    let write = RefWrite::begin(state, &request, request.get_ref().repository_id, "AddTag").await?;
    let AddTagRequest { tag_name, target, message, .. } = request.into_inner();
    let name = decode::new_name("tag_name", &tag_name)?;
    let draft = if message.trim().is_empty() {
        None
    } else {
        let seconds = i64::try_from(state.clock.now_secs()).unwrap_or(i64::MAX);
        Some(TagDraft::new(name.clone(), author(&write.access.grant, seconds), message)?)
    };
    let tag = NewTag { name, target: Revision::parse(&target)?, draft };
    write.run(state, async move |state, write| add(&state, &write, tag).await).await
}

async fn add(state: &AppState, write: &RefWrite, tag: NewTag) -> Result<AddTagResponse, RpcError> {
    let id = write.repository;
    let guard = state.updater.lock(id).await?;
    match write.stored::<AddTagResponse>(state).await? {
        Some(Stored::Response(response)) => return Ok(response),
        Some(Stored::Subject(subject)) => {
            let found = state.pool.run(id, move |repo| read::tag(repo, &subject.branch)).await?;
            return Ok(AddTagResponse { tag: Some(encode::tag(found)) });
        }
        None => {}
    }
    let (full, target) = (tag.full_name()?, tag.target.clone());
    let job = move |repo: &Repository| match lookup(repo, &full)? {
        Some(_) => Err(GitError::TagExists),
        None => read::commit(repo, &target),
    };
    let commit = state.pool.run(id, job).await?;
    if let (Some(draft), Some(quota)) = (&tag.draft, write.access.grant.limits.bytes)
        && draft.message().len() as u64 >= quota.left()
    {
        return Err(quota_exceeded(quota).into());
    }
    let object = tag.draft.as_ref().map(|draft| draft.object(commit.id)).transpose()?;
    if object.is_some() {
        // Before the object is written, so that a rejected tag leaves none behind.
        state.updater.count_write().await?;
    }
    let object_id = object.as_ref().map(NewObject::id);
    let edit = RefEdit { name: tag.full_name()?, old: None, new: Some(object_id.unwrap_or(commit.id)) };
    let change = RefTransaction {
        objects: object.into_iter().collect(),
        ..RefTransaction::new(UpdateKind::Api, write.actor.user, vec![edit])
    };
    let short = tag.name.as_bytes();
    let shown = TagInfo {
        name: short.to_vec(),
        tag: object_id,
        message: tag.draft.as_ref().map(|draft| draft.message().to_owned()).unwrap_or_default(),
        is_truncated: false,
        commit,
    };
    let response = AddTagResponse { tag: Some(encode::tag(shown)) };
    write.apply(state, guard, &change, (short, "tag_name"), None, &response).await?;
    Ok(response)
}

async fn delete_tag(state: &AppState, request: Request<DeleteTagRequest>) -> Result<DeleteTagResponse, RpcError> {
    let write = RefWrite::begin(state, &request, request.get_ref().repository_id, "DeleteTag").await?;
    let short = request.into_inner().name;
    write.run(state, async move |state, write| delete(&state, &write, short).await).await
}

async fn delete(state: &AppState, write: &RefWrite, short: Vec<u8>) -> Result<DeleteTagResponse, RpcError> {
    let id = write.repository;
    let full = RefName::parse(&[b"refs/tags/", short.as_slice()].concat()).map_err(|_| GitError::TagNotFound)?;
    let guard = state.updater.lock(id).await?;
    if write.stored::<DeleteTagResponse>(state).await?.is_some() {
        return Ok(DeleteTagResponse {});
    }
    let target = state.refs.resolve(id, full.clone()).await?.ok_or(GitError::TagNotFound)?;
    if version::is_conditional() {
        let name = short.clone();
        let found = state.pool.run(id, move |repo| read::tag(repo, &name)).await?;
        version::require(Some(&encode::tag(found))).map_err(DbError::from)?;
    }
    // The refs are locked: a release that begins now creates its tag afterwards. repo-svc knows no
    // release by a name that is not UTF-8.
    if let Ok(tag_name) = std::str::from_utf8(&short)
        && state.authorizer.is_tag_in_use(id, tag_name).await?
    {
        return Err(GitError::TagInUse.into());
    }
    let edit = RefEdit { name: full, old: Some(target), new: None };
    let change = RefTransaction::new(UpdateKind::Api, write.actor.user, vec![edit]);
    let response = DeleteTagResponse {};
    write.apply(state, guard, &change, (&short, "tag_name"), None, &response).await?;
    Ok(response)
}
