//! Objects of git: trees, blobs, refs and annotated tags.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::git::{self, ObjectType};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::commit::Signature;
use crate::http::json::{Shorten, json_bytes};
use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::RepositoryLinks;

/// Bytes of a tree in JSON besides its entries and its URL.
const TREE_BYTES: usize = 128;

/// The entries of a tree. There may be very many, so each is converted when it is written.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    response: git::GetTreeResponse,
    urls: RepositoryLinks,
}

/// Entries that are converted one after the other.
struct TreeItems<'a>(&'a Tree);

#[derive(Clone, Debug, Serialize)]
struct TreeItem {
    path: String,
    mode: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// For blobs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<i64>,
    sha: String,
    /// Not for submodules, which are in another repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// Returns the name of an object's type, and the URL of the object.
fn type_and_url(kind: ObjectType, id: &str, urls: &RepositoryLinks) -> Result<(&'static str, String), MissingField> {
    match kind {
        ObjectType::Commit => Ok(("commit", urls.commit(id))),
        ObjectType::Tree => Ok(("tree", urls.tree(id))),
        ObjectType::Blob => Ok(("blob", urls.blob(id))),
        ObjectType::Tag => Ok(("tag", urls.tag_object(id))),
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
            url: (kind != "commit").then_some(url),
            sha: item.id.clone(),
        })
    }
}

impl Tree {
    pub(crate) fn new(response: git::GetTreeResponse, urls: &RepositoryLinks) -> Result<Self, MissingField> {
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

/// A blob with its content.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Blob {
    content: String,
    encoding: &'static str,
    url: String,
    sha: String,
    size: usize,
}

impl Blob {
    pub(crate) fn new(blob: git::GetBlobResponse, urls: &RepositoryLinks) -> Self {
        Self {
            content: STANDARD.encode(&blob.content),
            encoding: "base64",
            url: urls.blob(&blob.blob_id),
            size: blob.content.len(),
            sha: blob.blob_id,
        }
    }
}

/// A ref and the object that it points to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ref {
    #[serde(rename = "ref")]
    name: String,
    url: String,
    object: Object,
}

#[derive(Clone, Debug, Serialize)]
struct Object {
    #[serde(rename = "type")]
    kind: &'static str,
    sha: String,
    url: String,
}

impl Object {
    fn new(kind: ObjectType, sha: String, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let (kind, url) = type_and_url(kind, &sha, urls)?;
        Ok(Self { kind, sha, url })
    }
}

impl Ref {
    pub(crate) fn new(reference: git::Reference, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let kind = reference.object_type();
        Ok(Self {
            name: text(&reference.name),
            url: urls.reference(&reference.name),
            object: Object::new(kind, reference.object_id, urls)?,
        })
    }
}

/// An annotated tag.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TagObject {
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

impl TagObject {
    pub(crate) fn new(tag: git::GetTagObjectResponse, urls: &RepositoryLinks) -> Result<Self, MissingField> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ferrite_api_types::links::Links;

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
