use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::git;
use serde::Serialize;

use super::{Commit, Incomplete, present, text};
use crate::http::links::RepositoryLinks;

/// A file, directory, symbolic link or submodule.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Content {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    size: i64,
    name: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submodule_git_url: Option<String>,
    sha: String,
    url: String,
    git_url: String,
    html_url: String,
    download_url: String,
    #[serde(rename = "_links")]
    links: ContentLinks,
}

#[derive(Clone, Debug, Serialize)]
struct ContentLinks {
    git: String,
    #[serde(rename = "self")]
    this: String,
    html: String,
}

/// Where an entry was found, for its links.
pub(crate) struct Place<'a> {
    pub(crate) urls: &'a RepositoryLinks,
    /// The branch, tag or commit that links to the site name.
    pub(crate) display_ref: &'a [u8],
    /// What the client asked for, if it did.
    pub(crate) asked: Option<&'a [u8]>,
}

impl Content {
    pub(crate) fn new(entry: git::TreeEntry, place: &Place<'_>) -> Result<Self, Incomplete> {
        let this = place.urls.contents(&entry.path, place.asked);
        let html = place.urls.source(place.display_ref, &entry.path);
        let (kind, git) = match entry.kind() {
            git::EntryKind::File => ("file", place.urls.blob(&entry.id)),
            git::EntryKind::Directory => ("dir", place.urls.tree(&entry.id)),
            git::EntryKind::Symlink => ("symlink", String::new()),
            git::EntryKind::Submodule => ("submodule", String::new()),
            git::EntryKind::Unspecified => return Err(Incomplete("kind")),
        };
        let is_file = kind == "file";
        let encoding = is_file.then_some(if entry.content.is_some() { "base64" } else { "none" });
        let target = (kind == "symlink").then(|| text(entry.content.as_deref().unwrap_or_default()));
        Ok(Self {
            kind,
            encoding,
            size: entry.size_bytes,
            name: text(&entry.name),
            path: text(&entry.path),
            content: entry.content.filter(|_| is_file).map(|content| STANDARD.encode(content)),
            target,
            submodule_git_url: (kind == "submodule").then(|| entry.submodule_url.unwrap_or_default()),
            sha: entry.id,
            download_url: place.urls.raw(place.display_ref, &entry.path),
            links: ContentLinks { git: git.clone(), this: this.clone(), html: html.clone() },
            url: this,
            git_url: git,
            html_url: html,
        })
    }
}

/// What is at a path: one thing, or the entries of a directory.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Contents {
    One(Box<Content>),
    Many(Vec<Content>),
}

impl Contents {
    pub(crate) fn new(
        answer: git::GetContentsResponse,
        urls: &RepositoryLinks,
        asked: Option<&[u8]>,
    ) -> Result<Self, Incomplete> {
        let place = Place { urls, display_ref: &answer.display_ref, asked };
        Ok(match present(answer.contents, "contents")? {
            git::get_contents_response::Contents::Entry(entry) => Self::One(Box::new(Content::new(entry, &place)?)),
            git::get_contents_response::Contents::Directory(directory) => {
                let entries = directory.entries.into_iter().map(|entry| Content::new(entry, &place));
                Self::Many(entries.collect::<Result<_, _>>()?)
            }
        })
    }
}

/// A file that was written, and the commit that did it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FileWritten {
    pub(crate) content: Content,
    pub(crate) commit: Commit,
}

/// A commit that removed a file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FileRemoved {
    /// Always null: it is gone.
    pub(crate) content: Option<Content>,
    pub(crate) commit: Commit,
}

/// Files that were created, updated or moved, and the commit that did it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FilesChanged {
    pub(crate) files: Vec<Content>,
    pub(crate) commit: Commit,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::links::Links;

    fn entry(kind: git::EntryKind, content: Option<&[u8]>) -> git::TreeEntry {
        git::TreeEntry {
            kind: kind.into(),
            name: b"main.rs".to_vec(),
            path: b"src/main.rs".to_vec(),
            id: "b".repeat(40),
            size_bytes: 13,
            content: content.map(bytes::Bytes::copy_from_slice),
            submodule_url: None,
        }
    }

    fn shown(entry: git::TreeEntry) -> serde_json::Value {
        let urls = Links::new("http://git.example.com", "h:22").repository("bob", "demo");
        let place = Place { urls: &urls, display_ref: b"master", asked: None };
        serde_json::to_value(Content::new(entry, &place).unwrap()).unwrap()
    }

    #[test]
    fn a_file_has_the_shape_of_the_contract() {
        let blob = "b".repeat(40);
        let expected = serde_json::json!({
            "type": "file", "encoding": "base64", "size": 13, "name": "main.rs", "path": "src/main.rs",
            "content": "Zm4gbWFpbigpIHt9Cg==", "sha": blob,
            "url": "http://git.example.com/api/v1/repos/bob/demo/contents/src/main.rs",
            "git_url": format!("http://git.example.com/api/v1/repos/bob/demo/git/blobs/{blob}"),
            "html_url": "http://git.example.com/bob/demo/src/master/src/main.rs",
            "download_url": "http://git.example.com/bob/demo/raw/master/src/main.rs",
            "_links": {
                "git": format!("http://git.example.com/api/v1/repos/bob/demo/git/blobs/{blob}"),
                "self": "http://git.example.com/api/v1/repos/bob/demo/contents/src/main.rs",
                "html": "http://git.example.com/bob/demo/src/master/src/main.rs",
            },
        });
        assert_eq!(shown(entry(git::EntryKind::File, Some(b"fn main() {}\n"))), expected);
    }

    #[test]
    fn each_kind_has_its_own_fields() {
        let empty = shown(entry(git::EntryKind::File, Some(b"")));
        assert_eq!((&empty["content"], &empty["encoding"]), (&"".into(), &"base64".into()));
        let large = shown(entry(git::EntryKind::File, None));
        assert_eq!(large["encoding"], "none");
        assert!(large.get("content").is_none());
        let link = shown(entry(git::EntryKind::Symlink, Some(b"../x")));
        assert_eq!((&link["target"], &link["git_url"]), (&"../x".into(), &"".into()));
        assert!(link.get("content").is_none() && link.get("encoding").is_none());
        let directory = shown(entry(git::EntryKind::Directory, None));
        assert!(directory["git_url"].as_str().unwrap().contains("/git/trees/"));
        assert!(directory.get("target").is_none());
        let module =
            shown(git::TreeEntry { submodule_url: Some("u".into()), ..entry(git::EntryKind::Submodule, None) });
        assert_eq!(module["submodule_git_url"], "u");
    }
}
