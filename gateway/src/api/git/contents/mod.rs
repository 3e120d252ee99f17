//! Reads files and directories. `change` has the changes of files.

mod change;
mod commit;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::schema::{Schema, Schemas, Shape};
use ferrite_api_types::{shape, word_shape};
use ferrite_proto::git::{self, GetContentsRequest};
use ferrite_proto::operation;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::response::read_error;
use crate::api::call::{MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::etag::{BodyTag, Tagged};
use crate::http::filters::{QueryOf, RawText, filters};
use crate::http::path::RepoPath;
use crate::http::response::Json;
use crate::http::routes::variant;

operations! {
    "/api/v1/repos/{owner}/{repo}/contents" =>
        get get as variant(operation::GET_CONTENTS, "OfRoot"),
        put change::put as variant(operation::PUT_CONTENTS, "OfRoot"),
        post change::change as operation::CHANGE_FILES,
        delete change::remove as variant(operation::DELETE_CONTENTS, "OfRoot");
    "/api/v1/repos/{owner}/{repo}/contents/{*file}" =>
        get get as operation::GET_CONTENTS,
        post change::create as operation::CREATE_CONTENTS,
        put change::put as operation::PUT_CONTENTS,
        delete change::remove as operation::DELETE_CONTENTS;
}

filters! {
    /// The revision of a file or directory.
    pub(super) struct RevisionFilter {
        /// The branch, tag or commit id. The default is the default branch.
        pub(super) revision as "ref": RawText = "main",
    }
}

word_shape! {
    /// The kind of an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum ContentKind {
        File = "file",
        Directory = "dir",
        Symlink = "symlink",
        Submodule = "submodule",
    }
}

word_shape! {
    /// The encoding of a file's content.
    #[derive(Clone, Copy, Debug)]
    enum ContentEncoding {
        Base64 = "base64",
        /// The content is omitted.
        None = "none",
    }
}

shape! {
    /// A file, directory, symbolic link or submodule.
    #[derive(Clone, Debug, Serialize)]
    struct Content {
        #[serde(rename = "type")]
        kind: ContentKind,
        /// The encoding of the content. Only for files; `none` if the content is omitted.
        #[serde(skip_serializing_if = "Option::is_none")]
        encoding: Option<ContentEncoding>,
        /// The size in bytes; zero for directories and submodules.
        size: i64,
        name: String,
        path: String,
        /// The content of a file; null for large files and all other entries.
        content: Option<String>,
        /// The target. Only for symbolic links.
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        /// The repository, as the submodule names it; empty if that is neither a path nor an address
        /// of `http`, `https`, `ssh` or `git`. Only for submodules.
        #[serde(skip_serializing_if = "Option::is_none")]
        submodule_git_url: Option<String>,
        sha: String,
        url: String,
        /// The URL of the git object; empty for symbolic links and submodules.
        git_url: String,
        html_url: String,
        /// The raw file; empty for directories and submodules.
        download_url: String,
        #[serde(rename = "_links")]
        links: ContentLinks,
    }
}

shape! {
    /// The URLs of an entry.
    #[derive(Clone, Debug, Serialize)]
    struct ContentLinks {
        git: String,
        #[serde(rename = "self")]
        this: String,
        html: String,
    }
}

/// The contents at a path: one entry, or the entries of a directory. There can be very many, so
/// each is converted when it is written.
#[derive(Clone, Debug)]
struct Contents {
    contents: git::get_contents_response::Contents,
    display_ref: Vec<u8>,
    urls: RepositoryLinks,
    requested_ref: Option<Vec<u8>>,
}

/// The repository and revision of an entry, for its links.
struct EntryLocation<'a> {
    urls: &'a RepositoryLinks,
    /// The branch, tag or commit in links to the site.
    display_ref: &'a [u8],
    /// The revision in the request, if any.
    requested_ref: Option<&'a [u8]>,
}

impl ContentKind {
    pub(super) fn new(kind: git::EntryKind) -> Result<Self, MissingField> {
        match kind {
            git::EntryKind::File => Ok(Self::File),
            git::EntryKind::Directory => Ok(Self::Directory),
            git::EntryKind::Symlink => Ok(Self::Symlink),
            git::EntryKind::Submodule => Ok(Self::Submodule),
            git::EntryKind::Unspecified => Err(MissingField("kind")),
        }
    }
}

impl Content {
    fn new(entry: git::TreeEntry, location: &EntryLocation<'_>) -> Result<Self, MissingField> {
        let this = location.urls.contents(&entry.path, location.requested_ref);
        let html = location.urls.source(location.display_ref, &entry.path);
        let kind = ContentKind::new(entry.kind())?;
        let git = match kind {
            ContentKind::File => location.urls.blob(&entry.id),
            ContentKind::Directory => location.urls.tree(&entry.id),
            ContentKind::Symlink | ContentKind::Submodule => String::new(),
        };
        let is_file = kind == ContentKind::File;
        let is_raw = is_file || kind == ContentKind::Symlink;
        let download = is_raw.then(|| location.urls.raw(location.display_ref, &entry.path));
        let encoding = is_file.then_some(match entry.content {
            Some(_) => ContentEncoding::Base64,
            None => ContentEncoding::None,
        });
        let target = (kind == ContentKind::Symlink).then(|| text(entry.content.as_deref().unwrap_or_default()));
        Ok(Self {
            kind,
            encoding,
            size: entry.size_bytes,
            name: text(&entry.name),
            path: text(&entry.path),
            content: entry.content.filter(|_| is_file).map(|content| STANDARD.encode(content)),
            target,
            submodule_git_url: (kind == ContentKind::Submodule).then(|| submodule_url(entry.submodule_url)),
            sha: entry.id,
            download_url: download.unwrap_or_default(),
            links: ContentLinks { git: git.clone(), this: this.clone(), html: html.clone() },
            url: this,
            git_url: git,
            html_url: html,
        })
    }
}

/// Returns the URL of a submodule for a response. Clients may show it as a link, so it must not have
/// a scheme such as `javascript`.
fn submodule_url(written: Option<String>) -> String {
    let is_safe = |url: &String| match url.split_once(':') {
        // Browsers drop control characters in a scheme.
        _ if url.contains(char::is_control) => false,
        Some((scheme, rest)) if rest.starts_with("//") => {
            ["http", "https", "ssh", "git"].iter().any(|known| known.eq_ignore_ascii_case(scheme))
        }
        // `user@host:path`, `host.example:path` or a path, which are no scheme.
        Some((start, _)) => start.contains(['@', '.', '/']),
        None => true,
    };
    written.filter(is_safe).unwrap_or_default()
}

impl Contents {
    fn new(
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

impl Contents {
    /// Returns the tag of the JSON, made of all that determines it. The content of a file is
    /// represented by its id.
    fn tag(&self) -> BodyTag {
        let (kind, entries) = match &self.contents {
            git::get_contents_response::Contents::Entry(entry) => ("entry", std::slice::from_ref(entry)),
            git::get_contents_response::Contents::Directory(directory) => ("directory", directory.entries.as_slice()),
        };
        let url = self.urls.api();
        let requested_ref = self.requested_ref.as_deref();
        let mut parts: Vec<&[u8]> = vec![kind.as_bytes(), url.as_bytes(), self.display_ref.as_slice()];
        parts.extend([presence(requested_ref.is_some()), requested_ref.unwrap_or_default()]);
        for entry in entries {
            let module = entry.submodule_url.as_deref().unwrap_or_default();
            // Even for the same id, the content can be omitted, depending on how git stores it.
            let has_content = presence(entry.content.is_some());
            parts.extend([entry.kind().as_str_name().as_bytes(), entry.id.as_bytes(), has_content]);
            parts.extend([entry.path.as_slice(), entry.name.as_slice(), module.as_bytes()]);
        }
        BodyTag::of_parts(&parts)
    }
}

/// Returns the part of a tag for an optional value.
fn presence(is_there: bool) -> &'static [u8] {
    if is_there { b"1" } else { b"0" }
}

impl Serialize for Contents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (urls, display_ref) = (&self.urls, self.display_ref.as_slice());
        let location = EntryLocation { urls, display_ref, requested_ref: self.requested_ref.as_deref() };
        // All kinds are known, so no entry is dropped.
        let content = |entry: &git::TreeEntry| Content::new(entry.clone(), &location).ok();
        match &self.contents {
            git::get_contents_response::Contents::Entry(entry) => content(entry).serialize(serializer),
            git::get_contents_response::Contents::Directory(directory) => {
                serializer.collect_seq(directory.entries.iter().filter_map(content))
            }
        }
    }
}

impl Shape for Contents {
    fn schema(schemas: &mut Schemas) -> Schema {
        json!({"anyOf": [Content::schema(schemas), Vec::<Content>::schema(schemas)]})
    }
}

/// Returns a file, or the entries of a directory.
async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    filters: QueryOf<RevisionFilter>,
) -> ApiResult<Tagged<Json<Contents>>> {
    let access = call.access(&path, operation::GET_CONTENTS).await?;
    let RevisionFilter { revision } = filters.read()?;
    let requested_ref = Some(revision.clone()).filter(|revision| !revision.is_empty());
    let request = GetContentsRequest { repository_id: access.id, revision, path: path.rest };
    let response = call.clients.git().get_contents(call.request_with_grant(&access.grant, request)).await;
    let contents = Contents::new(response.map_err(read_error)?.into_inner(), &access.urls, requested_ref)?;
    Ok(Tagged::new(contents.tag(), Json(contents)))
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;

    use super::*;

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
            "download_url": "http://git.example.com/api/v1/repos/bob/demo/raw/master/src/main.rs",
            "_links": {
                "git": format!("http://git.example.com/api/v1/repos/bob/demo/git/blobs/{blob}"),
                "self": "http://git.example.com/api/v1/repos/bob/demo/contents/src/main.rs",
                "html": "http://git.example.com/bob/demo/src/master/src/main.rs",
            },
        });
        assert_eq!(to_json(entry(git::EntryKind::File, Some(b"fn main() {}\n"))), expected);
    }

    #[test]
    fn all_that_the_json_shows_is_part_of_the_tag() {
        let urls = Links::new("http://git.example.com", "h:22").repository("bob", "demo");
        let contents = |entry, display_ref: &[u8], requested_ref: Option<&[u8]>| Contents {
            contents: git::get_contents_response::Contents::Entry(entry),
            display_ref: display_ref.to_vec(),
            urls: urls.clone(),
            requested_ref: requested_ref.map(<[u8]>::to_vec),
        };
        let file = || entry(git::EntryKind::File, Some(b"fn main() {}\n"));
        let first = contents(file(), b"main", None);
        assert_eq!(first.tag(), contents(file(), b"main", None).tag());
        let named = |id: &str, path: &[u8]| git::TreeEntry { id: id.repeat(40), path: path.to_vec(), ..file() };
        let directory = git::Directory { entries: vec![file()] };
        let of_directory = git::get_contents_response::Contents::Directory(directory);
        for other in [
            contents(file(), b"master", None),
            contents(file(), b"main", Some(b"")),
            contents(file(), b"main", Some(b"main")),
            contents(named("c", b"src/main.rs"), b"main", None),
            contents(named("b", b"main.rs"), b"main", None),
            contents(entry(git::EntryKind::File, None), b"main", None),
            contents(entry(git::EntryKind::Symlink, Some(b"fn main() {}\n")), b"main", None),
            contents(git::TreeEntry { submodule_url: Some("u".into()), ..file() }, b"main", None),
            Contents { urls: Links::new("http://h", "h:22").repository("bob", "demo"), ..first.clone() },
            Contents { contents: of_directory, ..first.clone() },
        ] {
            assert_ne!(other.tag(), first.tag(), "{other:?}");
        }
    }

    #[test]
    fn each_kind_has_its_own_fields() {
        let empty = to_json(entry(git::EntryKind::File, Some(b"")));
        assert_eq!((&empty["content"], &empty["encoding"]), (&"".into(), &"base64".into()));
        let large = to_json(entry(git::EntryKind::File, None));
        assert_eq!(large["encoding"], "none");
        assert_eq!(large.get("content"), Some(&serde_json::Value::Null));
        let link = to_json(entry(git::EntryKind::Symlink, Some(b"../x")));
        assert_eq!((&link["target"], &link["git_url"]), (&"../x".into(), &"".into()));
        assert!(link["content"].is_null() && link.get("encoding").is_none());
        let directory = to_json(entry(git::EntryKind::Directory, None));
        assert!(directory["git_url"].as_str().unwrap().contains("/git/trees/"));
        assert!(directory.get("target").is_none());
        let module = |url: &str| {
            let entry = git::TreeEntry { submodule_url: Some(url.into()), ..entry(git::EntryKind::Submodule, None) };
            to_json(entry)["submodule_git_url"].clone()
        };
        for url in
            ["u", "../other.git", "https://h/a", "SSH://git@h/a", "git@h:a/b", "h.example:a/b", "git://h/a", "/srv/a:b"]
        {
            assert_eq!(module(url), url);
        }
        for url in [
            "javascript:alert(1)",
            "JavaScript://%0aalert(1)",
            "java\nscript:alert(1)",
            " javascript:x",
            "data:,x",
            "file:///etc",
        ] {
            assert_eq!(module(url), "", "{url}");
        }
    }
}
