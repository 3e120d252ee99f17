use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{shape, word_shape};
use ferrite_proto::error::reason;
use ferrite_proto::git::{self, GetBlobRequest, GetRefRequest, GetTagObjectRequest, ListRefsRequest, ObjectType};
use ferrite_proto::operation;
use serde::Serialize;

use super::commits::Signature;
use super::response::{ObjectTags, read_error};
use crate::api::call::{ApiCall, MaybeAuthenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::etag::Tagged;
use crate::http::page::WholeList;
use crate::http::path::RepoPath;
use crate::http::response::{Json, List};

operations! {
    "/api/v1/repos/{owner}/{repo}/git/blobs/{sha}" => get blob as operation::GET_BLOB;
    "/api/v1/repos/{owner}/{repo}/git/tags/{sha}" => get tag_object as operation::GET_TAG_OBJECT;
    "/api/v1/repos/{owner}/{repo}/git/refs" => get refs as operation::LIST_REFS;
    "/api/v1/repos/{owner}/{repo}/git/refs/{*name}" => get named_refs as operation::GET_REF;
}

word_shape! {
    /// The type of a git object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum ObjectKind {
        Commit = "commit",
        Tree = "tree",
        Blob = "blob",
        Tag = "tag",
    }
}

shape! {
    /// A blob with its content.
    #[derive(Clone, Debug, Serialize)]
    struct Blob {
        content: String,
        encoding: BlobEncoding,
        url: String,
        sha: String,
        /// The size in bytes.
        size: usize,
    }
}

word_shape! {
    /// The encoding of a blob's content.
    #[derive(Clone, Copy, Debug)]
    enum BlobEncoding {
        Base64 = "base64",
    }
}

shape! {
    /// A ref and the object that it points to.
    #[derive(Clone, Debug, Serialize)]
    struct Ref {
        /// The full name.
        #[serde(rename = "ref")]
        name: String,
        url: String,
        object: Object,
    }
}

shape! {
    /// The object that a ref or an annotated tag points to.
    #[derive(Clone, Debug, Serialize)]
    struct Object {
        #[serde(rename = "type")]
        kind: ObjectKind,
        sha: String,
        url: String,
    }
}

shape! {
    /// An annotated tag.
    #[derive(Clone, Debug, Serialize)]
    struct TagObject {
        tag: String,
        sha: String,
        url: String,
        message: String,
        /// Null in some old tags, which have no tagger.
        tagger: Option<Signature>,
        object: Object,
        /// Whether the message is cut. Present only if true.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    }
}

pub(super) fn type_and_url(
    kind: ObjectType,
    id: &str,
    urls: &RepositoryLinks,
) -> Result<(ObjectKind, String), MissingField> {
    match kind {
        ObjectType::Commit => Ok((ObjectKind::Commit, urls.commit(id))),
        ObjectType::Tree => Ok((ObjectKind::Tree, urls.tree(id))),
        ObjectType::Blob => Ok((ObjectKind::Blob, urls.blob(id))),
        ObjectType::Tag => Ok((ObjectKind::Tag, urls.tag_object(id))),
        ObjectType::Unspecified => Err(MissingField("type")),
    }
}

impl Blob {
    fn new(blob: git::GetBlobResponse, urls: &RepositoryLinks) -> Self {
        Self {
            content: STANDARD.encode(&blob.content),
            encoding: BlobEncoding::Base64,
            url: urls.blob(&blob.blob_id),
            size: blob.content.len(),
            sha: blob.blob_id,
        }
    }
}

impl Object {
    fn new(kind: ObjectType, sha: String, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let (kind, url) = type_and_url(kind, &sha, urls)?;
        Ok(Self { kind, sha, url })
    }
}

impl Ref {
    fn new(reference: git::Reference, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let kind = reference.object_type();
        Ok(Self {
            name: text(&reference.name),
            url: urls.reference(&reference.name),
            object: Object::new(kind, reference.object_id, urls)?,
        })
    }
}

impl TagObject {
    fn new(tag: git::GetTagObjectResponse, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let kind = tag.object_type();
        Ok(Self {
            tag: text(&tag.name),
            url: urls.tag_object(&tag.tag_id),
            sha: require(Some(tag.tag_id).filter(|id| !id.is_empty()), "tag_id")?,
            message: text(&tag.message),
            tagger: tag.tagger.as_ref().map(Signature::new).transpose()?,
            object: Object::new(kind, tag.object_id, urls)?,
            truncated: tag.is_truncated,
        })
    }
}

/// Returns the rest of a path after `git/` and `kind`.
pub(super) fn path_after(path: &RepoPath, kind: &[u8]) -> Vec<u8> {
    let rest = path.rest.strip_prefix(kind).and_then(|rest| rest.strip_prefix(b"/"));
    rest.unwrap_or_default().to_vec()
}

fn object_id(path: &RepoPath, kind: &[u8]) -> String {
    String::from_utf8_lossy(&path_after(path, kind)).into_owned()
}

async fn blob(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    headers: HeaderMap,
) -> ApiResult<Tagged<Json<Blob>>> {
    let access = call.access(&path, operation::GET_BLOB).await?;
    let blob_id = object_id(&path, b"blobs");
    let tags = ObjectTags::new("blob", &access, blob_id.as_bytes(), String::new());
    if let Some(unchanged) = tags.unchanged(&headers) {
        return Ok(unchanged);
    }
    let request = GetBlobRequest { repository_id: access.id, blob_id };
    let response = call.clients.git_data().get_blob(call.request_with_grant(&access.grant, request)).await;
    let blob = Blob::new(response.map_err(read_error)?.into_inner(), &access.urls);
    Ok(tags.tagged(&blob.sha.clone(), Json(blob)))
}

async fn tag_object(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    headers: HeaderMap,
) -> ApiResult<Tagged<Json<TagObject>>> {
    let access = call.access(&path, operation::GET_TAG_OBJECT).await?;
    let tag_id = object_id(&path, b"tags");
    let tags = ObjectTags::new("tag", &access, tag_id.as_bytes(), String::new());
    if let Some(unchanged) = tags.unchanged(&headers) {
        return Ok(unchanged);
    }
    let request = GetTagObjectRequest { repository_id: access.id, tag_id };
    let response = call.clients.git_data().get_tag_object(call.request_with_grant(&access.grant, request)).await;
    let tag = TagObject::new(response.map_err(read_error)?.into_inner(), &access.urls)?;
    Ok(tags.tagged(&tag.sha.clone(), Json(tag)))
}

async fn refs(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, query: WholeList) -> ApiResult<List<Ref>> {
    let (list, _) = list(&call, &path, &query, Vec::new()).await?;
    Ok(list)
}

/// Returns the ref with this full name, or else the refs whose names start with it. Either is a
/// list: clients of Gitea up to 1.25 expect one.
async fn named_refs(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
) -> ApiResult<List<Ref>> {
    let access = call.access(&path, operation::GET_REF).await?;
    let name = path.rest.clone();
    let request = GetRefRequest { repository_id: access.id, name: name.clone() };
    match call.clients.git_data().get_ref(call.request_with_grant(&access.grant, request)).await {
        Ok(response) => {
            let reference = require(response.into_inner().reference, "reference")?;
            let found = vec![Ref::new(reference, &access.urls)?];
            return Ok(query.list(query.page.of(found).collect(), 1, &call.links));
        }
        Err(status) if reason(&status).as_deref() == Some("REF_NOT_FOUND") => {}
        Err(status) => return Err(status.into()),
    }
    let (list, total) = list(&call, &path, &query, name).await?;
    if total == 0 { Err(ApiError::not_found("reference does not exist")) } else { Ok(list) }
}

/// Returns a page of the refs whose full names start with `prefix`, and their total number.
async fn list(call: &ApiCall, path: &RepoPath, query: &WholeList, prefix: Vec<u8>) -> ApiResult<(List<Ref>, i64)> {
    let access = call.access(path, operation::LIST_REFS).await?;
    let (page, page_size) = (query.page.number, query.page.size);
    let request = ListRefsRequest { repository_id: access.id, prefix, page, page_size };
    let response =
        call.clients.git_data().list_refs(call.request_with_grant(&access.grant, request)).await?.into_inner();
    let refs = response.references.into_iter().map(|reference| Ref::new(reference, &access.urls));
    let refs = refs.collect::<Result<Vec<_>, _>>()?;
    Ok((query.list(refs, response.total_count, &call.links), response.total_count))
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use serde_json::json;

    use super::*;

    fn urls() -> RepositoryLinks {
        Links::new("http://h", "h:22").repository("bob", "demo")
    }

    #[test]
    fn refs_and_tags_name_their_object() {
        let reference = git::Reference {
            name: b"refs/heads/a/\xff".to_vec(),
            object_type: ObjectType::Commit.into(),
            object_id: "c".repeat(40),
        };
        let commit = format!("http://h/api/v1/repos/bob/demo/commits/{}", "c".repeat(40));
        let object = json!({"type": "commit", "sha": "c".repeat(40), "url": commit});
        let url = "http://h/api/v1/repos/bob/demo/git/refs/heads/a/%FF";
        let shown = serde_json::to_value(Ref::new(reference, &urls()).unwrap()).unwrap();
        assert_eq!(shown, json!({"ref": "refs/heads/a/\u{fffd}", "url": url, "object": object}));
        let tag = git::GetTagObjectResponse {
            tag_id: "d".repeat(40),
            name: b"v1".to_vec(),
            message: b"One\n".to_vec(),
            object_type: ObjectType::Commit.into(),
            object_id: "c".repeat(40),
            tagger: None,
            is_truncated: false,
        };
        let shown = serde_json::to_value(TagObject::new(tag, &urls()).unwrap()).unwrap();
        assert_eq!((&shown["tag"], &shown["tagger"], &shown["object"]), (&json!("v1"), &json!(null), &object));
    }
}
