//! Pages of the folders and files of a revision.

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_api_types::links::encode_path;
use ferrite_markdown::render::highlight_file;
use ferrite_proto::raw::is_text;
use serde::Deserialize;

use super::document;
use super::edit_links::{AddLinks, FileLinks};
use super::editor::text::editable;
use super::folder::{EntryKind, Folder, Listing, Readme, Tip, join, parent};
use super::raw::{is_drawing, is_picture};
use super::revision::{Chooser, Kind, Names, Revision};
use super::{RepositoryVisit, Tab};
use crate::http::client_address::counted_client;
use crate::pages::components::{Bytes, Count, filters, parameter};
use crate::pages::error::{PageError, PageResult};
use crate::pages::layout::Content;

/// Smaller files are highlighted on the thread of the request.
const MAX_INLINE_BYTES: usize = 64 << 10;
/// Browsers take seconds to lay out more.
const MAX_LINES: usize = 20_000;
/// Characters that change the order of others, so that code is not what it seems.
const ORDER_CHANGES: [char; 9] =
    ['\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}'];

#[derive(Template)]
#[template(path = "repository/folder.html")]
struct FolderPage {
    chooser: Chooser,
    trail: Trail,
    find: String,
    add: Option<AddLinks>,
    listing: Listing,
    readme: Option<Readme>,
}

#[derive(Template)]
#[template(path = "repository/file.html")]
struct FilePage {
    chooser: Chooser,
    trail: Trail,
    tip: Option<Tip>,
    view: View,
    size: Option<Bytes>,
    raw: String,
    history: String,
    blame: String,
    permanent: String,
    links: FileLinks,
    switch: Option<Switch>,
    has_order_changes: bool,
}

/// The folders above a page, and its own name.
struct Trail {
    /// The name of the repository.
    repository: String,
    root: String,
    /// Names and pages.
    folders: Vec<(String, String)>,
    name: String,
    label: String,
}

/// The link to another view of the same file.
struct Switch {
    href: String,
    text: &'static str,
}

enum View {
    /// The lines as HTML.
    Code(Vec<String>),
    /// The HTML of our own renderer.
    Document(String),
    /// The path of the raw file.
    Picture(String),
    /// A file that is not shown, and why.
    Hidden(&'static str),
    /// The target, and its page if it is in the repository.
    Symlink(String, Option<String>),
    /// The address, and whether browsers can open it.
    Submodule(String, bool),
}

/// What the API says about a file.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "type")]
    kind: EntryKind,
    size: u64,
    name: String,
    /// In Base64; `None` for a large file.
    content: Option<String>,
    #[serde(default)]
    target: Option<String>,
    #[serde(default)]
    submodule_git_url: Option<String>,
}

impl Content for FolderPage {
    fn title(&self) -> String {
        self.trail.title()
    }
}

impl Content for FilePage {
    fn title(&self) -> String {
        self.trail.title()
    }
}

impl FilePage {
    /// The number of lines, for code.
    fn lines(&self) -> Option<String> {
        match &self.view {
            View::Code(lines) => Some(Count(lines.len() as u64, "line").to_string()),
            _ => None,
        }
    }

    /// Whether the content can be loaded by itself.
    fn is_raw(&self) -> bool {
        !matches!(self.view, View::Submodule(..))
    }
}

impl Trail {
    fn new(at: &RepositoryVisit, revision: &Revision, path: &str) -> Self {
        let mut folders = Vec::new();
        let mut above = parent(path);
        while let Some(folder) = above.filter(|folder| !folder.is_empty()) {
            let name = folder.rsplit('/').next().unwrap_or(folder);
            folders.push((name.to_owned(), revision.path_of("src", folder)));
            above = parent(folder);
        }
        folders.reverse();
        Self {
            repository: at.repository.name.clone(),
            root: revision.path_of("src", ""),
            folders,
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            label: revision.label().to_owned(),
        }
    }

    fn title(&self) -> String {
        let names = self.folders.iter().map(|(name, _)| name.as_str()).chain([self.name.as_str()]);
        let path = names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join("/");
        if path.is_empty() { self.label.clone() } else { format!("{path} at {}", self.label) }
    }
}

/// A folder or a file at a branch, a tag or a commit.
pub(super) async fn source(at: RepositoryVisit) -> PageResult {
    if Kind::split(&at.rest).is_none() {
        return redirect_from_gogs(&at).await;
    }
    let (revision, path) = Revision::of(&at).await?;
    let (folder, names) = tokio::try_join!(Folder::find(&at, &revision, &path), Names::read(&at))?;
    match folder {
        Some(folder) => show_folder(&at, revision, &path, &folder, names).await,
        None => show_file(&at, revision, &path, names).await,
    }
}

/// Gogs' paths name a revision without its kind.
async fn redirect_from_gogs(at: &RepositoryVisit) -> PageResult {
    let (revision, path) = Revision::resolve_any(at, &at.rest).await?;
    let page = format!("{}{}", at.visit.shell.site.root, revision.path_of("src", &path));
    Ok(Redirect::temporary(&page).into_response())
}

async fn show_folder(
    at: &RepositoryVisit,
    revision: Revision,
    path: &str,
    folder: &Folder,
    names: Names,
) -> PageResult {
    let readme = folder.readme(at, &revision, path).await?;
    let page = FolderPage {
        trail: Trail::new(at, &revision, path),
        find: revision.path_of("find", ""),
        add: AddLinks::find(at, &revision, path),
        listing: folder.listing(at, &revision, path),
        readme,
        chooser: names.chooser(revision, "src", path),
    };
    at.page(Tab::Code, &page)
}

async fn show_file(at: &RepositoryVisit, revision: Revision, path: &str, names: Names) -> PageResult {
    let above = parent(path).ok_or_else(PageError::not_found)?;
    let contents = format!("{}/contents/{}?{}", at.repository.api(), encode_path(path.as_bytes()), revision.query());
    let (file, folder) = tokio::try_join!(at.visit.api.get::<File>(&contents), Folder::find(at, &revision, above))?;
    let is_source = parameter(&at.visit.shell.here, "display").as_deref() == Some("source");
    let bytes = file.content.as_ref().and_then(|content| STANDARD.decode(content).ok());
    let view = view(at, &revision, path, &file, bytes.as_deref(), is_source).await?;
    let tip = folder.and_then(|folder| folder.last_change(at, &file.name));
    let is_file = matches!(file.kind, EntryKind::File | EntryKind::Symlink);
    let page = FilePage {
        trail: Trail::new(at, &revision, path),
        tip,
        size: (file.kind == EntryKind::File).then_some(Bytes(file.size)),
        raw: revision.path_of("raw", path),
        history: revision.path_of("commits", path),
        blame: revision.path_of("blame", path),
        permanent: revision.permanent("src", path),
        links: FileLinks::new(at, &revision, path, is_file, bytes.as_deref().and_then(editable).is_some()),
        switch: switch(&file.name, is_source, bytes.as_deref(), revision.path_of("src", path)),
        has_order_changes: matches!(&view, View::Code(lines) if lines.iter().any(|line| line.contains(ORDER_CHANGES))),
        view,
        chooser: names.chooser(revision, "src", path),
    };
    at.page(Tab::Code, &page)
}

/// Returns the link between a document or a drawing and its source.
fn switch(name: &str, is_source: bool, bytes: Option<&[u8]>, page: String) -> Option<Switch> {
    let has_both = (document::is_markdown(name) || is_drawing(name)) && bytes.is_some_and(is_text);
    has_both.then(|| match is_source {
        true => Switch { href: page, text: "Rendered" },
        false => Switch { href: format!("{page}?display=source"), text: "Source" },
    })
}

async fn view(
    at: &RepositoryVisit,
    revision: &Revision,
    path: &str,
    file: &File,
    bytes: Option<&[u8]>,
    is_source: bool,
) -> PageResult<View> {
    let folder = parent(path).unwrap_or_default();
    match file.kind {
        EntryKind::Symlink => {
            let target = file.target.clone().unwrap_or_default();
            let page = target_of_link(folder, &target).map(|path| revision.path_of("src", &path));
            return Ok(View::Symlink(target, page));
        }
        EntryKind::Submodule => {
            let url = file.submodule_git_url.clone().unwrap_or_default();
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            return Ok(View::Submodule(url, is_web));
        }
        // The API responds with a list for a folder.
        EntryKind::Folder => return Err(PageError::not_found()),
        EntryKind::File => {}
    }
    if is_picture(&file.name) && !(is_source && is_drawing(&file.name)) {
        return Ok(View::Picture(revision.permanent("raw", path)));
    }
    let Some(bytes) = bytes else { return Ok(View::Hidden("This file is too large to show.")) };
    if !is_text(bytes) {
        return Ok(View::Hidden("This is a binary file."));
    }
    if bytes.is_empty() {
        return Ok(View::Hidden("This file is empty."));
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    if document::is_markdown(&file.name) && !is_source {
        return document::render(at, revision, folder, &text).await.map(View::Document);
    }
    if memchr::memchr_iter(b'\n', bytes).take(MAX_LINES + 1).count() > MAX_LINES {
        return Ok(View::Hidden("This file has too many lines to show."));
    }
    lines(at, &file.name, text).await.map(View::Code)
}

/// Highlights a file.
async fn lines(at: &RepositoryVisit, name: &str, text: String) -> PageResult<Vec<String>> {
    if text.len() <= MAX_INLINE_BYTES {
        return Ok(highlight_file(name, &text));
    }
    let visit = &at.visit;
    let client = counted_client(&visit.headers, visit.shell.viewer.as_ref().map(|viewer| viewer.id));
    let name = name.to_owned();
    let lines = visit.state.markdown.run(client, move |_| highlight_file(&name, &text)).await;
    lines.map_err(PageError::from)
}

/// Returns the path to which a symbolic link in `folder` leads; `None` outside of the repository.
fn target_of_link(folder: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut path = folder.to_owned();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => path = parent(&path)?.to_owned(),
            part => path = join(&path, part),
        }
    }
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_only_into_the_repository() {
        for (folder, target, expected) in [
            ("", "a", Some("a")),
            ("x/y", "../a/./b", Some("x/a/b")),
            ("x", "..", None),
            ("x", "../../etc/passwd", None),
            ("", "/etc/passwd", None),
        ] {
            assert_eq!(target_of_link(folder, target).as_deref(), expected, "{folder} {target}");
        }
    }

    #[test]
    fn a_document_has_a_source() {
        let of = |name, is_source, bytes: &[u8]| {
            switch(name, is_source, Some(bytes), "/p".to_owned()).map(|switch| (switch.href, switch.text))
        };
        assert_eq!(of("a.md", false, b"x"), Some(("/p?display=source".to_owned(), "Source")));
        assert_eq!(of("a.md", true, b"x"), Some(("/p".to_owned(), "Rendered")));
        assert_eq!(of("a.svg", false, b"<svg/>"), Some(("/p?display=source".to_owned(), "Source")));
        assert_eq!(of("a.rs", false, b"x"), None);
        assert_eq!(of("a.md", false, b"\0"), None);
    }
}
