//! Files and directories of a repository, and the results of writing files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::git;
use serde::{Serialize, Serializer};

use super::commit::Commit;
use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::RepositoryLinks;

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

/// The repository and revision of an entry, for its links.
pub(crate) struct EntryLocation<'a> {
    pub(crate) urls: &'a RepositoryLinks,
    /// The branch, tag or commit in links to the site.
    pub(crate) display_ref: &'a [u8],
    /// The revision that the client asked for, if any.
    pub(crate) requested_ref: Option<&'a [u8]>,
}

impl Content {
    pub(crate) fn new(entry: git::TreeEntry, location: &EntryLocation<'_>) -> Result<Self, MissingField> {
        let this = location.urls.contents(&entry.path, location.requested_ref);
        let html = location.urls.source(location.display_ref, &entry.path);
        let (kind, git) = match entry.kind() {
            git::EntryKind::File => ("file", location.urls.blob(&entry.id)),
            git::EntryKind::Directory => ("dir", location.urls.tree(&entry.id)),
            git::EntryKind::Symlink => ("symlink", String::new()),
            git::EntryKind::Submodule => ("submodule", String::new()),
            git::EntryKind::Unspecified => return Err(MissingField("kind")),
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
            download_url: location.urls.raw(location.display_ref, &entry.path),
            links: ContentLinks { git: git.clone(), this: this.clone(), html: html.clone() },
            url: this,
            git_url: git,
            html_url: html,
        })
    }
}

/// The contents at a path: one entry, or the entries of a directory. There may be very many, so each is converted when it is written.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    contents: git::get_contents_response::Contents,
    display_ref: Vec<u8>,
    urls: RepositoryLinks,
    requested_ref: Option<Vec<u8>>,
}

impl Contents {
    pub(crate) fn new(
        response: git::GetContentsResponse,
        urls: &RepositoryLinks,
        requested_ref: Option<Vec<u8>>,
    ) -> Result<Self, MissingField> {
        let contents = require(response.contents, "contents")?;
        let entries = match &contents {
            git::get_contents_response::Contents::Entry(entry) => std::slice::from_ref(entry),
            git::get_contents_response::Contents::Directory(directory) => directory.entries.as_slice(),
        };
        if entries.iter().any(|entry| entry.kind() == git::EntryKind::Unspecified) {
            return Err(MissingField("kind"));
        }
        Ok(Self { contents, display_ref: response.display_ref, urls: urls.clone(), requested_ref })
    }
}

impl Serialize for Contents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (urls, display_ref) = (&self.urls, self.display_ref.as_slice());
        let location = EntryLocation { urls, display_ref, requested_ref: self.requested_ref.as_deref() };
        // No entry is left out: their kinds are known.
        let content = |entry: &git::TreeEntry| Content::new(entry.clone(), &location).ok();
        match &self.contents {
            git::get_contents_response::Contents::Entry(entry) => content(entry).serialize(serializer),
            git::get_contents_response::Contents::Directory(directory) => {
                serializer.collect_seq(directory.entries.iter().filter_map(content))
            }
        }
    }
}

/// A file that was written, and its commit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FileWritten {
    pub(crate) content: Content,
    pub(crate) commit: Commit,
}

/// The commit that removed a file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FileRemoved {
    /// Always null.
    pub(crate) content: Option<Content>,
    pub(crate) commit: Commit,
}

/// Files that were created, updated or moved, and their commit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FilesChanged {
    pub(crate) files: Vec<Content>,
    pub(crate) commit: Commit,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_api_types::links::Links;

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

    fn to_json(entry: git::TreeEntry) -> serde_json::Value {
        let urls = Links::new("http://git.example.com", "h:22").repository("bob", "demo");
        let location = EntryLocation { urls: &urls, display_ref: b"master", requested_ref: None };
        serde_json::to_value(Content::new(entry, &location).unwrap()).unwrap()
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
        assert_eq!(to_json(entry(git::EntryKind::File, Some(b"fn main() {}\n"))), expected);
    }

    #[test]
    fn each_kind_has_its_own_fields() {
        let empty = to_json(entry(git::EntryKind::File, Some(b"")));
        assert_eq!((&empty["content"], &empty["encoding"]), (&"".into(), &"base64".into()));
        let large = to_json(entry(git::EntryKind::File, None));
        assert_eq!(large["encoding"], "none");
        assert!(large.get("content").is_none());
        let link = to_json(entry(git::EntryKind::Symlink, Some(b"../x")));
        assert_eq!((&link["target"], &link["git_url"]), (&"../x".into(), &"".into()));
        assert!(link.get("content").is_none() && link.get("encoding").is_none());
        let directory = to_json(entry(git::EntryKind::Directory, None));
        assert!(directory["git_url"].as_str().unwrap().contains("/git/trees/"));
        assert!(directory.get("target").is_none());
        let module =
            to_json(git::TreeEntry { submodule_url: Some("u".into()), ..entry(git::EntryKind::Submodule, None) });
        assert_eq!(module["submodule_git_url"], "u");
    }
}
