//! Reactions to issues, pull requests and comments.

use ferrite_api_types::convert::require;
use ferrite_api_types::{Accounts, Time, User, shape};
use ferrite_proto::issue::reaction_subject::Subject;
use ferrite_proto::issue::{self, AddReactionRequest, ListReactionsRequest, ReactionSubject, RemoveReactionRequest};
use ferrite_proto::operation;
use serde::Serialize;

use crate::api::access::{ResolvedAccess, after_refusal};
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::{Total, WholeList};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{RequestBody, Required, Word, fields};
use crate::http::response::{Created, Either, Json, List, NoContent};
use crate::http::routes::variant;
use crate::http::words::{Words, words};

operations! {
    "/api/v1/repos/{owner}/{repo}/issues/{index}/reactions" =>
        get list_of_issue as variant(operation::LIST_REACTIONS, "OfIssue"),
        post add_to_issue as variant(operation::ADD_REACTION, "ToIssue"),
        delete remove_from_issue as variant(operation::REMOVE_REACTION, "FromIssue");
    "/api/v1/repos/{owner}/{repo}/issues/comments/{id}/reactions" =>
        get list_of_comment as variant(operation::LIST_REACTIONS, "OfComment"),
        post add_to_comment as variant(operation::ADD_REACTION, "ToComment"),
        delete remove_from_comment as variant(operation::REMOVE_REACTION, "FromComment");
}

words! {
    /// What a reaction says.
    enum Content: &'static str {
        "+1" = "+1",
        "-1" = "-1",
        "laugh" = "laugh",
        "hooray" = "hooray",
        "confused" = "confused",
        "heart" = "heart",
        "rocket" = "rocket",
        "eyes" = "eyes",
    }
}

/// The contents of reactions, as clients ask for them in the settings.
pub(in crate::api) fn contents() -> Vec<&'static str> {
    Content::WORDS.iter().map(|(word, _)| *word).collect()
}

fields! {
    /// A reaction of the caller.
    struct NamedReaction {
        content: Required<Word<Content>> = "eyes",
    }
}

shape! {
    /// A reaction to an issue, a pull request or a comment.
    #[derive(Clone, Debug, Serialize)]
    struct Reaction {
        user: User,
        /// One of `+1`, `-1`, `laugh`, `hooray`, `confused`, `heart`, `rocket` and `eyes`.
        content: String,
        created_at: Time,
    }
}

impl Reaction {
    fn new(call: &ApiCall, reaction: issue::Reaction, accounts: &Accounts) -> ApiResult<Self> {
        Ok(Self {
            user: accounts.by_id(reaction.user_id, &call.links),
            content: reaction.content,
            created_at: Time::new(reaction.create_time, "create_time")?,
        })
    }
}

fn of_issue(params: &Params) -> Subject {
    Subject::IssueNumber(params.id("index"))
}

fn of_comment(params: &Params) -> Subject {
    Subject::CommentId(params.id("id"))
}

fn named(subject: Subject) -> Option<ReactionSubject> {
    Some(ReactionSubject { subject: Some(subject) })
}

async fn list_of_issue(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: WholeList,
) -> ApiResult<List<Reaction>> {
    list(&call, &path, of_issue(&params), &query).await
}

async fn list_of_comment(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: WholeList,
) -> ApiResult<List<Reaction>> {
    list(&call, &path, of_comment(&params), &query).await
}

async fn list(call: &ApiCall, path: &RepoPath, subject: Subject, query: &WholeList) -> ApiResult<List<Reaction>> {
    let access = call.access(path, operation::LIST_REACTIONS).await?;
    let (page, page_size) = (query.page.number, query.page.size);
    let request = ListReactionsRequest { repository_id: access.id, subject: named(subject), page, page_size };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.reactions().list_reactions(request).await?.into_inner();
    let users = response.reactions.iter().map(|reaction| reaction.user_id);
    let accounts = call.accounts_beside_caller(&access, users).await?;
    let reactions = response.reactions.into_iter().map(|reaction| Reaction::new(call, reaction, &accounts));
    let reactions = reactions.collect::<ApiResult<Vec<_>>>()?;
    Ok(query.list(reactions, Total::counted(response.total_count, response.is_partial), &call.links))
}

async fn add_to_issue(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<NamedReaction>,
) -> ApiResult<Either<Created<Reaction>, Json<Reaction>>> {
    add(&call, &path, of_issue(&params), body).await
}

async fn add_to_comment(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<NamedReaction>,
) -> ApiResult<Either<Created<Reaction>, Json<Reaction>>> {
    add(&call, &path, of_comment(&params), body).await
}

/// Responds with 201, or with 200 if the reaction was there.
async fn add(
    call: &ApiCall,
    path: &RepoPath,
    subject: Subject,
    body: RequestBody<NamedReaction>,
) -> ApiResult<Either<Created<Reaction>, Json<Reaction>>> {
    let access = call.access(path, operation::ADD_REACTION).await?;
    let blank = AddReactionRequest { repository_id: access.id, subject: named(subject), content: String::new() };
    let check =
        async { call.clients.reactions().add_reaction(call.blank_with_grant(&access.grant, blank.clone())).await };
    let (NamedReaction { content }, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::ADD_REACTION).await?;
    let request = AddReactionRequest { content: content.to_owned(), ..blank };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.reactions().add_reaction(request).await?.into_inner();
    let reaction = require(response.reaction, "reaction")?;
    let accounts = call.accounts_beside_caller(&access, [reaction.user_id]).await?;
    let reaction = Reaction::new(call, reaction, &accounts)?;
    if response.is_new {
        return Ok(Either::First(Created::at(location(&access, subject), reaction)));
    }
    Ok(Either::Second(Json(reaction)))
}

/// A reaction is found in the list of its subject.
fn location(access: &ResolvedAccess, subject: Subject) -> String {
    let subject = match subject {
        Subject::IssueNumber(number) => number.to_string(),
        Subject::CommentId(id) => format!("comments/{id}"),
    };
    format!("{}/issues/{subject}/reactions", access.urls.api())
}

async fn remove_from_issue(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<NamedReaction>,
) -> ApiResult<NoContent> {
    remove(&call, &path, of_issue(&params), body).await
}

async fn remove_from_comment(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<NamedReaction>,
) -> ApiResult<NoContent> {
    remove(&call, &path, of_comment(&params), body).await
}

async fn remove(
    call: &ApiCall,
    path: &RepoPath,
    subject: Subject,
    body: RequestBody<NamedReaction>,
) -> ApiResult<NoContent> {
    let access = call.access(path, operation::REMOVE_REACTION).await?;
    let blank = RemoveReactionRequest { repository_id: access.id, subject: named(subject), content: String::new() };
    let check =
        async { call.clients.reactions().remove_reaction(call.blank_with_grant(&access.grant, blank.clone())).await };
    let (NamedReaction { content }, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::REMOVE_REACTION).await?;
    let request = RemoveReactionRequest { content: content.to_owned(), ..blank };
    call.clients.reactions().remove_reaction(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}
