//! Tags with their commits. Annotated tags as objects are in `data`.

use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::{RepositoryLinks, encode_path};
use ferrite_api_types::{Accounts, LongTexts, shape};
use ferrite_proto::git::{self, AddTagRequest, DeleteTagRequest, GetTagRequest, ListTagsRequest};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;

use super::commits::PayloadCommit;
use super::response::read_error;
use crate::api::access::{Emails, ResolvedAccess};
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::page::WholeList;
use crate::http::path::RepoPath;
use crate::http::request::{OrDefault, RequestBody, Required, Text, fields};
use crate::http::response::{Created, Json, NoContent, TextList};
use crate::upstream::clients::LONG_CALL_DEADLINE;

/// Maximum message: that of an annotated tag of 1 MiB, minus 16 KiB for the rest of the tag.
const MAX_MESSAGE: usize = (1024 - 16) * 1024;

operations! {
    "/api/v1/repos/{owner}/{repo}/tags" =>
        get list as operation::LIST_TAGS,
        post create as operation::ADD_TAG;
    "/api/v1/repos/{owner}/{repo}/tags/{*tag}" =>
        get get as operation::GET_TAG,
        delete remove as operation::DELETE_TAG;
}

fields! {
    /// A tag to create.
    struct NewTag {
        /// The name of the tag.
        tag_name: Required<Text<1000>> = "v1.0",
        /// The message of an annotated tag. Without a message the tag is lightweight.
        message: OrDefault<Text<MAX_MESSAGE>> = "The first release.",
        /// The branch, tag or commit to tag. The default is the default branch.
        target: OrDefault<Text<1000>> = "main",
    }
}

shape! {
    /// A tag and its commit.
    #[derive(Clone, Debug, Serialize)]
    struct Tag {
        name: String,
        /// The id of the annotated tag; for a lightweight tag that of the commit.
        id: String,
        /// The message of the annotated tag; for a lightweight tag that of the commit.
        message: String,
        /// Whether the message is cut. Present only if true.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        commit: PayloadCommit,
        tarball_url: String,
        zipball_url: String,
    }
}

impl Tag {
    fn new(tag: git::Tag, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let commit = require(tag.commit, "commit")?;
        let (id, message, truncated) = match tag.tag_id.is_empty() {
            true => (commit.id.clone(), text(&commit.message), commit.is_truncated),
            false => (tag.tag_id, text(&tag.message), tag.is_truncated),
        };
        let name = text(&tag.name);
        Ok(Self {
            id,
            message,
            truncated,
            commit: PayloadCommit::new(Some(commit), accounts, urls)?,
            tarball_url: urls.archive(&name, "tar.gz"),
            zipball_url: urls.archive(&name, "zip"),
            name,
        })
    }
}

impl LongTexts for Tag {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.message, &mut self.truncated);
        self.commit.for_each_text(visit);
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
) -> ApiResult<TextList<Tag>> {
    let access = call.access(&path, operation::LIST_TAGS).await?;
    let request = ListTagsRequest { repository_id: access.id, page: query.page.number, page_size: query.page.size };
    let response =
        call.clients.git_data().list_tags(call.request_with_grant(&access.grant, request)).await?.into_inner();
    let emails = Emails::of(response.tags.iter().filter_map(|tag| tag.commit.as_ref()));
    let accounts = call.accounts_by_email(emails).await?;
    let tags = response.tags.into_iter().map(|tag| Tag::new(tag, &accounts, &access.urls));
    let tags = tags.collect::<Result<Vec<_>, _>>()?;
    Ok(query.text_list(tags, response.total_count, &call.links))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult<Json<Tag>> {
    let access = call.access(&path, operation::GET_TAG).await?;
    let request = GetTagRequest { repository_id: access.id, name: path.rest };
    let response = call.clients.tags().get_tag(call.request_with_grant(&access.grant, request)).await;
    let tag = require(response.map_err(read_error)?.into_inner().tag, "tag")?;
    Ok(Json(convert(&call, &access, tag).await?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewTag>,
) -> ApiResult<Created<Tag>> {
    let (access, new, _permit) = call.access_and_body(&path, operation::ADD_TAG, body).await?;
    let request = AddTagRequest {
        repository_id: access.id,
        tag_name: new.tag_name,
        target: new.target.into_bytes(),
        message: new.message,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.tags().add_tag(request).await.map_err(read_error)?.into_inner();
    let tag = require(response.tag, "tag")?;
    let location = format!("{}/tags/{}", access.urls.api(), encode_path(&tag.name));
    Ok(Created::at(location, convert(&call, &access, tag).await?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::DELETE_TAG).await?;
    let request = DeleteTagRequest { repository_id: access.id, name: path.rest };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    call.clients.tags().delete_tag(request).await.map_err(read_error)?;
    Ok(NoContent)
}

/// Converts the tag of a response, with its accounts.
async fn convert(call: &ApiCall, access: &ResolvedAccess, tag: git::Tag) -> Result<Tag, ApiError> {
    let accounts = call.accounts_by_email_beside_caller(access, Emails::of(&tag.commit)).await?;
    Ok(Tag::new(tag, &accounts, &access.urls)?)
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use ferrite_core::timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lightweight_tag_has_the_id_and_the_message_of_its_commit() {
        let urls = Links::new("http://h", "h:22").repository("bob", "demo");
        let signature = git::CommitSignature { time: Some(timestamp(0)), ..Default::default() };
        let commit = git::Commit {
            id: "c".repeat(40),
            message: b"Change\n".to_vec(),
            author: Some(signature.clone()),
            committer: Some(signature),
            ..Default::default()
        };
        let light = git::Tag { name: b"v1/rc#1".to_vec(), commit: Some(commit), ..Default::default() };
        let annotated = git::Tag { tag_id: "d".repeat(40), message: b"One\n".to_vec(), ..light.clone() };
        let shown = |tag| serde_json::to_value(Tag::new(tag, &Accounts::default(), &urls).unwrap()).unwrap();
        let light = shown(light);
        assert_eq!((&light["id"], &light["message"]), (&light["commit"]["sha"], &json!("Change\n")));
        assert_eq!(light["zipball_url"], "http://h/api/v1/repos/bob/demo/archive/v1/rc%231.zip");
        let annotated = shown(annotated);
        assert_eq!((&annotated["id"], &annotated["message"]), (&json!("d".repeat(40)), &json!("One\n")));
        assert_eq!(annotated["commit"], light["commit"]);
    }
}
