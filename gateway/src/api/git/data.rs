//! Objects and refs of git: tags, trees, blobs, refs and annotated tags.

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::schema::{Schema, Schemas, Shape};
use ferrite_api_types::{Accounts, LongTexts, shape, word_shape};
use ferrite_proto::error::reason;
use ferrite_proto::git::{
    self, GetBlobRequest, GetRefRequest, GetTagObjectRequest, GetTreeRequest, ListRefsRequest, ListTagsRequest,
    ObjectType,
};
use ferrite_proto::operation;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::commits::{PayloadCommit, Signature};
use super::response::{ObjectTags, read_error};
use crate::api::access::Emails;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::etag::Tagged;
use crate::http::filters::{QueryOf, filters};
use crate::http::json::{Shorten, json_bytes};
use crate::http::page::WholeList;
use crate::http::path::RepoPath;
use crate::http::request::Flag;
use crate::http::response::{Either, Json, List, Shortened, TextList};

/// Bytes of a tree in JSON besides its entries and its URL.
const TREE_BYTES: usize = 128;

operations! {
    "/api/v1/repos/{owner}/{repo}/tags" => get tags as operation::LIST_TAGS;
    "/api/v1/repos/{owner}/{repo}/git/trees/{*sha}" => get tree as operation::GET_TREE;
    "/api/v1/repos/{owner}/{repo}/git/blobs/{sha}" => get blob as operation::GET_BLOB;
    "/api/v1/repos/{owner}/{repo}/git/tags/{sha}" => get tag_object as operation::GET_TAG_OBJECT;
    "/api/v1/repos/{owner}/{repo}/git/refs" => get refs as operation::LIST_REFS;
    "/api/v1/repos/{owner}/{repo}/git/refs/{*name}" => get named_refs as operation::GET_REF;
}

filters! {
    /// Which entries of a tree.
    struct TreeFilters {
        /// True to return the entries of the subtrees as well, each after its tree.
        recursive: Flag = true,
    }
}

shape! {
    /// A tag and its commit.
    #[derive(Clone, Debug, Serialize)]
    struct Tag {
        name: String,
        commit: PayloadCommit,
    }
}

/// The entries of a tree. There may be very many, so each is converted when it is written.
#[derive(Clone, Debug)]
struct Tree {
    response: git::GetTreeResponse,
    urls: RepositoryLinks,
}

/// Entries that are converted one after the other.
struct TreeItems<'a>(&'a Tree);

shape! {
    /// An entry of a tree.
    #[derive(Clone, Debug, Serialize)]
    struct TreeItem {
        /// From the tree that was asked for.
        path: String,
        /// Six octal digits.
        mode: String,
        #[serde(rename = "type")]
        kind: ObjectKind,
        /// For blobs only.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<i64>,
        sha: String,
        /// Not for submodules, which are in another repository.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    }
}

word_shape! {
    /// The type of an object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum ObjectKind {
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
        /// In bytes.
        size: usize,
    }
}

word_shape! {
    /// How the content of a blob is written.
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
        /// Missing in some old tags.
        tagger: Option<Signature>,
        object: Object,
        /// Only where it is true.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    }
}

impl Tag {
    fn new(tag: git::Tag, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self { name: text(&tag.name), commit: PayloadCommit::new(tag.commit, accounts, urls)? })
    }
}

impl LongTexts for Tag {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        self.commit.for_each_text(visit);
    }
}

/// Returns the type of an object, and its URL.
fn type_and_url(kind: ObjectType, id: &str, urls: &RepositoryLinks) -> Result<(ObjectKind, String), MissingField> {
    match kind {
        ObjectType::Commit => Ok((ObjectKind::Commit, urls.commit(id))),
        ObjectType::Tree => Ok((ObjectKind::Tree, urls.tree(id))),
        ObjectType::Blob => Ok((ObjectKind::Blob, urls.blob(id))),
        ObjectType::Tag => Ok((ObjectKind::Tag, urls.tag_object(id))),
        ObjectType::Unspecified => Err(MissingField("type")),
    }
}

impl TreeItem {
    fn new(item: &git::TreeItem, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let (kind, url) = type_and_url(item.r#type(), &item.id, urls)?;
        Ok(Self {
            path: text(&item.path),
            mode: format!("{:06o}", item.mode),
            kind,
            size: item.size_bytes,
            url: (kind != ObjectKind::Commit).then_some(url),
            sha: item.id.clone(),
        })
    }
}

impl Tree {
    fn new(response: git::GetTreeResponse, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        if response.items.iter().any(|item| item.r#type() == ObjectType::Unspecified) {
            return Err(MissingField("type"));
        }
        Ok(Self { response, urls: urls.clone() })
    }

    fn items(&self) -> impl Iterator<Item = TreeItem> {
        // No entry is left out: their types are known.
        self.response.items.iter().filter_map(|item| TreeItem::new(item, &self.urls).ok())
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tree = serializer.serialize_struct("Tree", 4)?;
        tree.serialize_field("sha", &self.response.tree_id)?;
        tree.serialize_field("url", &self.urls.tree(&self.response.tree_id))?;
        tree.serialize_field("tree", &TreeItems(self))?;
        tree.serialize_field("truncated", &self.response.is_truncated)?;
        tree.end()
    }
}

impl Serialize for TreeItems<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.items())
    }
}

impl Shape for Tree {
    fn schema(schemas: &mut Schemas) -> Schema {
        let about = "The entries of a tree.";
        schemas.object(concat!(module_path!(), "::Tree"), &[about], |fields, schemas| {
            fields.add("sha", &[], String::schema(schemas), true);
            fields.add("url", &[], String::schema(schemas), true);
            fields.add("tree", &[], Vec::<TreeItem>::schema(schemas), true);
            fields.add("truncated", &["True if there are more entries."], bool::schema(schemas), true);
        })
    }
}

impl Shorten for Tree {
    fn shorten(&mut self, max_bytes: usize) {
        let mut left = max_bytes.saturating_sub(TREE_BYTES + json_bytes(&self.urls.tree(&self.response.tree_id)));
        let fits = |item: &TreeItem| {
            // An entry has a comma behind it.
            let rest = left.checked_sub(json_bytes(item) + 1);
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let count = self.items().take_while(fits).count();
        if count < self.response.items.len() {
            self.response.items.truncate(count);
            self.response.is_truncated = true;
        }
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

/// Returns the part of a path below `git/` that follows `kind`.
fn path_after(path: &RepoPath, kind: &[u8]) -> Vec<u8> {
    let rest = path.rest.strip_prefix(kind).and_then(|rest| rest.strip_prefix(b"/"));
    rest.unwrap_or_default().to_vec()
}

/// Returns the id of an object in a path.
fn object_id(path: &RepoPath, kind: &[u8]) -> String {
    String::from_utf8_lossy(&path_after(path, kind)).into_owned()
}

async fn tags(Authenticated(call): Authenticated, path: RepoPath, query: WholeList) -> ApiResult<TextList<Tag>> {
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

async fn tree(
    Authenticated(call): Authenticated,
    path: RepoPath,
    filters: QueryOf<TreeFilters>,
    headers: HeaderMap,
) -> ApiResult<Tagged<Shortened<Tree>>> {
    let access = call.access(&path, operation::GET_TREE).await?;
    let TreeFilters { recursive } = filters.read()?;
    let tree_ish = path_after(&path, b"trees");
    // Entries that do not fit into a response are left out.
    let form = format!("{recursive} {}", call.max_response_bytes);
    let tags = ObjectTags::new("tree", &access, &tree_ish, form);
    if let Some(unchanged) = tags.unchanged(&headers) {
        return Ok(unchanged);
    }
    let request = GetTreeRequest { repository_id: access.id, tree_ish, is_recursive: recursive };
    let response = call.clients.git_data().get_tree(call.request_with_grant(&access.grant, request)).await;
    let response = response.map_err(read_error)?.into_inner();
    let id = response.tree_id.clone();
    Ok(tags.tagged(&id, Shortened(Tree::new(response, &access.urls)?)))
}

async fn blob(Authenticated(call): Authenticated, path: RepoPath, headers: HeaderMap) -> ApiResult<Tagged<Json<Blob>>> {
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
    Authenticated(call): Authenticated,
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

async fn refs(Authenticated(call): Authenticated, path: RepoPath, query: WholeList) -> ApiResult<List<Ref>> {
    let (list, _) = list(&call, &path, &query, Vec::new()).await?;
    Ok(list)
}

/// Handles a full name of a ref: returns the ref of that name, or else the refs whose names begin with it.
async fn named_refs(
    Authenticated(call): Authenticated,
    path: RepoPath,
    query: WholeList,
) -> ApiResult<Either<Json<Ref>, List<Ref>>> {
    let access = call.access(&path, operation::GET_REF).await?;
    // The rest of the path begins with `refs/`, as full names do.
    let name = path.rest.clone();
    let request = GetRefRequest { repository_id: access.id, name: name.clone() };
    match call.clients.git_data().get_ref(call.request_with_grant(&access.grant, request)).await {
        Ok(response) => {
            let reference = require(response.into_inner().reference, "reference")?;
            return Ok(Either::First(Json(Ref::new(reference, &access.urls)?)));
        }
        Err(status) if reason(&status).as_deref() == Some("REF_NOT_FOUND") => {}
        Err(status) => return Err(status.into()),
    }
    let (list, total) = list(&call, &path, &query, name).await?;
    if total == 0 { Err(ApiError::not_found("reference does not exist")) } else { Ok(Either::Second(list)) }
}

/// Returns a page of the refs whose full names begin with `prefix`, and their total number.
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
    fn entries_of_a_tree_have_modes_of_six_digits_and_the_url_of_their_object() {
        let item = |path: &[u8], mode, kind: ObjectType, size_bytes| git::TreeItem {
            path: path.to_vec(),
            mode,
            r#type: kind.into(),
            id: "a".repeat(40),
            size_bytes,
        };
        let items = vec![
            item(b"run.sh", 0o100_755, ObjectType::Blob, Some(0)),
            item(b"src", 0o040_000, ObjectType::Tree, None),
            item(b"\xff", 0o160_000, ObjectType::Commit, None),
        ];
        let tree = git::GetTreeResponse { tree_id: "b".repeat(40), items, is_truncated: true };
        let (base, id) = ("http://h/api/v1/repos/bob/demo/git", "a".repeat(40));
        let expected = json!({
            "sha": "b".repeat(40), "url": format!("{base}/trees/{}", "b".repeat(40)), "truncated": true,
            "tree": [
                {"path": "run.sh", "mode": "100755", "type": "blob", "size": 0, "sha": id, "url": format!("{base}/blobs/{id}")},
                {"path": "src", "mode": "040000", "type": "tree", "sha": id, "url": format!("{base}/trees/{id}")},
                {"path": "\u{fffd}", "mode": "160000", "type": "commit", "sha": id},
            ],
        });
        assert_eq!(serde_json::to_value(Tree::new(tree, &urls()).unwrap()).unwrap(), expected);
    }

    #[test]
    fn a_tree_that_does_not_fit_ends_early_and_says_so() {
        let item = |index: usize| git::TreeItem {
            path: format!("folder/<{index}>").into_bytes(),
            mode: 0o100_644,
            r#type: ObjectType::Blob.into(),
            id: "a".repeat(40),
            size_bytes: Some(7),
        };
        let items = (0..1000).map(item).collect();
        let mut tree =
            Tree::new(git::GetTreeResponse { tree_id: "b".repeat(40), items, is_truncated: false }, &urls()).unwrap();
        let whole = json_bytes(&tree);
        tree.shorten(whole + TREE_BYTES);
        assert_eq!((tree.response.items.len(), tree.response.is_truncated), (1000, false));
        tree.shorten(whole / 2);
        assert!(json_bytes(&tree) <= whole / 2 && tree.response.is_truncated);
        assert!((480..500).contains(&tree.response.items.len()), "{}", tree.response.items.len());
        tree.shorten(0);
        assert!(tree.response.items.is_empty());
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
