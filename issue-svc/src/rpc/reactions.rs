//! The RPCs of reactions.

use ferrite_core::page::Page;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_listener::service;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::reaction_service_server::ReactionService;
use ferrite_proto::issue::*;
use ferrite_rpc::version;
use tonic::Request;

use super::user;
use crate::encode;
use crate::error::IssueError;
use crate::model::{ReactionContent, ReactionSubject as Subject, ReactionTarget};
use crate::state::AppState;
use crate::store::CounterChange;

const MAX_PAGE_SIZE: i32 = 1000;

service!(ReactionService for AppState {
    list_reactions(ListReactionsRequest) -> ListReactionsResponse;
    add_reaction(AddReactionRequest) -> AddReactionResponse;
    remove_reaction(RemoveReactionRequest) -> RemoveReactionResponse;
});

fn decode_subject(subject: Option<ReactionSubject>) -> Result<Subject, FieldViolation> {
    match subject.and_then(|subject| subject.subject) {
        Some(reaction_subject::Subject::IssueNumber(number)) => Ok(Subject::Issue(number)),
        Some(reaction_subject::Subject::CommentId(id)) => Ok(Subject::Comment(id)),
        None => Err(FieldViolation::new("subject", "required", "must name an issue or a comment")),
    }
}

/// Returns what was found for a subject, if the caller may see it: issues and pull requests are
/// switched off apart from each other.
fn visible(grant: &Grant, subject: Subject, found: Option<ReactionTarget>) -> Result<ReactionTarget, IssueError> {
    let is_visible =
        |target: &ReactionTarget| if target.is_pull_request { grant.pulls_enabled } else { grant.issues_enabled };
    found.filter(is_visible).ok_or(match subject {
        _ if !grant.issues_enabled => IssueError::Disabled,
        Subject::Issue(number) => IssueError::NotFound { number },
        Subject::Comment(_) => IssueError::CommentNotFound,
    })
}

/// Finds what reactions are to, if the caller may see it.
async fn find(
    state: &AppState,
    grant: &Grant,
    repository: RepositoryId,
    subject: Subject,
) -> Result<ReactionTarget, IssueError> {
    let found = state.store.reaction_target(state.store.reader(), repository, subject).await?;
    visible(grant, subject, found)
}

/// Parses a content. Checks first that the caller may see what the reaction is to.
async fn decode_content(
    state: &AppState,
    grant: &Grant,
    repository: RepositoryId,
    subject: Subject,
    content: &str,
) -> Result<ReactionContent, IssueError> {
    match ReactionContent::parse(content) {
        Ok(content) => Ok(content),
        Err(violation) => {
            find(state, grant, repository, subject).await?;
            Err(violation.into())
        }
    }
}

async fn list_reactions(
    state: &AppState,
    request: Request<ListReactionsRequest>,
) -> Result<ListReactionsResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let subject = decode_subject(request.subject)?;
    let target = find(state, &grant, RepositoryId(request.repository_id), subject).await?;
    if version::is_asked() {
        // Before the list: a write must not be allowed by a version that is newer than the list.
        version::tell(&state.store.reactions_version(state.store.reader(), target).await?);
    }
    let found = state.store.list_reactions(target, page).await?;
    let reactions = found.reactions.into_iter().map(encode::reaction).collect();
    Ok(ListReactionsResponse { reactions, total_count: found.total, is_partial: found.is_partial })
}

async fn add_reaction(
    state: &AppState,
    request: Request<AddReactionRequest>,
) -> Result<AddReactionResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let user = user(&grant)?;
    let key = IdempotencyKey::of(&request, user.0, "AddReaction")?;
    let request = request.into_inner();
    let add = async {
        let (repository, subject) = (RepositoryId(request.repository_id), decode_subject(request.subject)?);
        let content = decode_content(state, &grant, repository, subject, &request.content).await?;
        state.limits.count_text(&grant, content.as_str().len()).await?;
        let mut write = state.writer.begin(repository, CounterChange::default()).await?;
        let target = visible(&grant, subject, write.reaction_target(subject).await?)?;
        let (reaction, is_new) = write.add_reaction(target, user, content).await?;
        let response = AddReactionResponse { reaction: Some(encode::reaction(reaction)), is_new };
        write.commit(key.as_ref(), response).await
    };
    once(state.store.db(), key.as_ref(), add).await
}

async fn remove_reaction(
    state: &AppState,
    request: Request<RemoveReactionRequest>,
) -> Result<RemoveReactionResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let user = user(&grant)?;
    let key = IdempotencyKey::of(&request, user.0, "RemoveReaction")?;
    let request = request.into_inner();
    let remove = async {
        let (repository, subject) = (RepositoryId(request.repository_id), decode_subject(request.subject)?);
        let content = decode_content(state, &grant, repository, subject, &request.content).await?;
        let mut write = state.writer.begin(repository, CounterChange::default()).await?;
        let target = visible(&grant, subject, write.reaction_target(subject).await?)?;
        write.require_reactions(target).await?;
        write.remove_reaction(target, user, content).await?;
        write.commit(key.as_ref(), RemoveReactionResponse {}).await
    };
    once(state.store.db(), key.as_ref(), remove).await
}
