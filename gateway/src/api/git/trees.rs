//! Trees, and the languages of the files in them.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use ferrite_api_types::convert::{MissingField, text};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::schema::{Schema, Schemas, Shape};
use ferrite_api_types::shape;
use ferrite_proto::git::{self, GetLanguagesRequest, GetTreeRequest, ObjectType};
use ferrite_proto::operation;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::data::{ObjectKind, path_after, type_and_url};
use super::response::{ObjectTags, read_error};
use crate::api::call::{MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::etag::Tagged;
use crate::http::filters::{LooseInteger, QueryOf, filters};
use crate::http::json::{Shorten, json_bytes};
use crate::http::path::RepoPath;
use crate::http::request::Flag;
use crate::http::response::{Json, Shortened};

/// Size of a tree in JSON without its entries and URL.
const TREE_BYTES: usize = 192;
/// Entries that git-svc returns at most, and of a page without `per_page`.
const MAX_ENTRIES: usize = 100_000;

operations! {
    "/api/v1/repos/{owner}/{repo}/git/trees/{*sha}" => get tree as operation::GET_TREE;
    "/api/v1/repos/{owner}/{repo}/languages" => get languages as operation::GET_LANGUAGES;
}

filters! {
    /// Which entries of a tree to return.
    struct TreeFilters {
        /// Whether to include the entries of subtrees, each after its tree.
        recursive: Flag = true,
        /// The page, from 1.
        page: LooseInteger = 1,
        /// The number of entries on a page. The default is all of them, up to 100,000.
        per_page: LooseInteger = 1000,
    }
}

/// A page of the entries.
#[derive(Clone, Copy, Debug)]
struct TreePage {
    number: usize,
    size: usize,
}

impl TreePage {
    fn of(page: Option<i64>, per_page: Option<i64>) -> Self {
        let positive =
            |value: Option<i64>| value.and_then(|value| usize::try_from(value).ok()).filter(|value| *value > 0);
        let size = positive(per_page).map_or(MAX_ENTRIES, |size| size.min(MAX_ENTRIES));
        Self { number: positive(page).unwrap_or(1), size }
    }

    /// Keeps only the entries of the page. Returns whether there are entries after it.
    fn cut<T>(self, items: &mut Vec<T>) -> bool {
        let begin = self.number.saturating_sub(1).saturating_mul(self.size).min(items.len());
        items.drain(..begin);
        let goes_on = items.len() > self.size;
        items.truncate(self.size);
        goes_on
    }
}

/// The entries of a tree. There can be very many, so each is converted when it is written.
#[derive(Clone, Debug)]
struct Tree {
    /// With the entries of the page.
    response: git::GetTreeResponse,
    page: usize,
    total_count: usize,
    urls: RepositoryLinks,
}

struct TreeItems<'a>(&'a Tree);

shape! {
    /// An entry of a tree.
    #[derive(Clone, Debug, Serialize)]
    struct TreeItem {
        /// The path relative to the requested tree.
        path: String,
        /// The mode, six octal digits.
        mode: String,
        #[serde(rename = "type")]
        kind: ObjectKind,
        /// The size in bytes. Only for blobs.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<i64>,
        sha: String,
        /// The URL of the object. Absent for submodules, which are in another repository.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
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
    fn new(mut response: git::GetTreeResponse, page: TreePage, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        if response.items.iter().any(|item| item.r#type() == ObjectType::Unspecified) {
            return Err(MissingField("type"));
        }
        let total_count = response.items.len();
        response.is_truncated |= page.cut(&mut response.items);
        Ok(Self { response, page: page.number, total_count, urls: urls.clone() })
    }

    fn items(&self) -> impl Iterator<Item = TreeItem> {
        // All types are known, so no entry is dropped.
        self.response.items.iter().filter_map(|item| TreeItem::new(item, &self.urls).ok())
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tree = serializer.serialize_struct("Tree", 6)?;
        tree.serialize_field("sha", &self.response.tree_id)?;
        tree.serialize_field("url", &self.urls.tree(&self.response.tree_id))?;
        tree.serialize_field("tree", &TreeItems(self))?;
        tree.serialize_field("truncated", &self.response.is_truncated)?;
        tree.serialize_field("page", &self.page)?;
        tree.serialize_field("total_count", &self.total_count)?;
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
            fields.add("truncated", &["Whether there are more entries."], bool::schema(schemas), true);
            fields.add("page", &[], i64::schema(schemas), true);
            let about = "The number of entries on all pages, at most 100,000.";
            fields.add("total_count", &[about], i64::schema(schemas), true);
        })
    }
}

impl Shorten for Tree {
    fn shorten(&mut self, max_bytes: usize) {
        let mut left = max_bytes.saturating_sub(TREE_BYTES + json_bytes(&self.urls.tree(&self.response.tree_id)));
        let fits = |item: &TreeItem| {
            // Each entry is followed by a comma.
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

async fn tree(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    filters: QueryOf<TreeFilters>,
    headers: HeaderMap,
) -> ApiResult<Tagged<Shortened<Tree>>> {
    let access = call.access(&path, operation::GET_TREE).await?;
    let TreeFilters { recursive, page, per_page } = filters.read()?;
    let page = TreePage::of(page, per_page);
    let tree_ish = path_after(&path, b"trees");
    // Entries that exceed the size limit of a response are dropped.
    let form = format!("{recursive} {} {} {}", page.number, page.size, call.max_response_bytes);
    let tags = ObjectTags::new("tree", &access, &tree_ish, form);
    if let Some(unchanged) = tags.unchanged(&headers) {
        return Ok(unchanged);
    }
    let request = GetTreeRequest { repository_id: access.id, tree_ish, is_recursive: recursive };
    let response = call.clients.git_data().get_tree(call.request_with_grant(&access.grant, request)).await;
    let response = response.map_err(read_error)?.into_inner();
    let id = response.tree_id.clone();
    Ok(tags.tagged(&id, Shortened(Tree::new(response, page, &access.urls)?)))
}

/// Bytes by language.
type Languages = BTreeMap<String, i64>;

async fn languages(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult<Json<Languages>> {
    let access = call.access(&path, operation::GET_LANGUAGES).await?;
    let request = GetLanguagesRequest { repository_id: access.id };
    let response = call.clients.git_data().get_languages(call.request_with_grant(&access.grant, request)).await?;
    let languages = response.into_inner().languages.into_iter();
    Ok(Json(languages.map(|language| (language.name, language.size_bytes)).collect()))
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
            "page": 1, "total_count": 3,
            "tree": [
                {"path": "run.sh", "mode": "100755", "type": "blob", "size": 0, "sha": id, "url": format!("{base}/blobs/{id}")},
                {"path": "src", "mode": "040000", "type": "tree", "sha": id, "url": format!("{base}/trees/{id}")},
                {"path": "\u{fffd}", "mode": "160000", "type": "commit", "sha": id},
            ],
        });
        assert_eq!(
            serde_json::to_value(Tree::new(tree, TreePage::of(None, None), &urls()).unwrap()).unwrap(),
            expected
        );
    }

    #[test]
    fn a_page_has_its_entries_and_says_whether_there_are_more() {
        let cut = |page, per_page| {
            let mut items: Vec<_> = (0..5).collect();
            let goes_on = TreePage::of(page, per_page).cut(&mut items);
            (items, goes_on)
        };
        assert_eq!(cut(None, None), (vec![0, 1, 2, 3, 4], false));
        assert_eq!(cut(Some(1), Some(2)), (vec![0, 1], true));
        assert_eq!(cut(Some(3), Some(2)), (vec![4], false));
        assert_eq!(cut(Some(2), Some(5)), (vec![], false));
        assert_eq!(cut(Some(i64::MAX), Some(i64::MAX)), (vec![], false));
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
        let response = git::GetTreeResponse { tree_id: "b".repeat(40), items, is_truncated: false };
        let mut tree = Tree::new(response, TreePage::of(Some(0), Some(-1)), &urls()).unwrap();
        let whole = json_bytes(&tree);
        tree.shorten(whole + TREE_BYTES);
        assert_eq!((tree.response.items.len(), tree.response.is_truncated), (1000, false));
        tree.shorten(whole / 2);
        assert!(json_bytes(&tree) <= whole / 2 && tree.response.is_truncated);
        assert!((480..500).contains(&tree.response.items.len()), "{}", tree.response.items.len());
        tree.shorten(0);
        assert!(tree.response.items.is_empty());
    }
}
