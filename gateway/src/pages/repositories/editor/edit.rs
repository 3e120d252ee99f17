//! The forms that write a text file: a new one, or another version of one that is there.

use askama::Template;
use axum::http::{Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_api_types::links::encode_path;
use serde_json::{Value, json};

use super::commit::Commit;
use super::form::{EditorForm, File, Place};
use super::text::{Lines, editable};
use super::{require_writer, status_of};
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::ApiError;
use crate::pages::components::parameter;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::repositories::edit_links::Page;
use crate::pages::repositories::folder::{EntryKind, parent};
use crate::pages::repositories::{RepositoryVisit, Tab, document};

/// Enough for every text that the page can show, and to add as much.
type TextForm = EditorForm<MAX_JSON_BYTES>;

/// Characters of a text, so that a form fits into its limit whatever they are.
const MAX_TEXT_CHARS: usize = 1 << 20;
/// In place of the id of a file that is not there any more.
const DELETED: &str = "deleted";

#[derive(Template)]
#[template(path = "editor/edit.html")]
struct EditPage<'a> {
    heading: String,
    action: String,
    back: String,
    token: FormToken,
    place: &'a Place,
    draft: &'a Draft,
    commit: &'a Commit,
    placeholder: String,
    leads_to_pull: bool,
    max_text_chars: usize,
    has_preview: bool,
    preview: Option<String>,
    refusal: Option<Refusal>,
}

/// What is in the fields.
#[derive(Debug, Default)]
struct Draft {
    path: String,
    /// With line feeds alone.
    content: String,
    is_crlf: bool,
    is_mixed: bool,
    /// The id of the file that the text is to replace; empty for a new one.
    sha: String,
    commit: Commit,
}

/// Why a text is not saved.
struct Refusal {
    status: StatusCode,
    message: String,
    conflict: Option<Conflict>,
}

/// A file that changed while it was edited.
#[derive(Debug, PartialEq, Eq)]
struct Conflict {
    /// The id of the file that is there now, or [`DELETED`].
    sha: String,
    /// The page of the file.
    href: Option<String>,
}

impl Content for EditPage<'_> {
    fn title(&self) -> String {
        self.heading.clone()
    }
}

impl Draft {
    fn of_file(path: &str, sha: String, text: &str) -> Self {
        let Lines { text, is_crlf, is_mixed } = Lines::of(text);
        Self { path: path.to_owned(), content: text, is_crlf, is_mixed, sha, commit: Commit::default() }
    }

    fn of_fields(fields: &Fields) -> Self {
        let sha = match fields.text("replace") {
            "" => fields.text("sha"),
            present => present,
        };
        Self {
            path: fields.text("path").to_owned(),
            content: fields.text("content").to_owned(),
            is_crlf: fields.is_checked("crlf"),
            is_mixed: false,
            sha: sha.to_owned(),
            commit: Commit::of_fields(fields),
        }
    }

    /// The request that writes the file, which was at `from` until now.
    fn request(&self, branch: &str, from: &str) -> (Method, Value) {
        let mut body = self.commit.json(branch);
        let content = STANDARD.encode(Lines::restore(&self.content, self.is_crlf));
        body.insert("content".to_owned(), json!(content));
        if self.sha.is_empty() || self.sha == DELETED {
            return (Method::POST, Value::Object(body));
        }
        body.insert("sha".to_owned(), json!(self.sha));
        body.insert("from_path".to_owned(), json!(from));
        (Method::PUT, Value::Object(body))
    }
}

impl Conflict {
    /// Compares what is there now with what was edited. `None` if the file did not change.
    async fn find(at: &RepositoryVisit, place: &Place, sha: &str) -> Option<Self> {
        match place.find_file(at).await.ok()? {
            None => Some(Self { sha: DELETED.to_owned(), href: None }),
            Some(File { sha: present, .. }) if present != sha => {
                Some(Self { sha: present, href: Some(place.revision.path_of("src", &place.path)) })
            }
            Some(_) => None,
        }
    }
}

impl Refusal {
    fn new(error: &PageError) -> Self {
        Self { status: status_of(error), message: error.message(), conflict: None }
    }
}

pub(super) async fn edit(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    let place = Place::of(&at).await?;
    let file = place.find_file(&at).await?.ok_or_else(PageError::not_found)?;
    let draft = draft_of(&place.path, file)?;
    page(&at, &place, Page::Edit, &draft, None, None)
}

fn draft_of(path: &str, file: File) -> PageResult<Draft> {
    let refuse = |message: &'static str| PageError::from(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message));
    if file.kind != EntryKind::File {
        return Err(refuse("only files can be edited"));
    }
    let content = file.content.ok_or_else(|| refuse("the file is too large to edit here"))?;
    let bytes = STANDARD.decode(content).map_err(|_| PageError::from(ApiError::internal()))?;
    let text = editable(&bytes).ok_or_else(|| refuse("the file is no text in UTF-8: upload another version of it"))?;
    Ok(Draft::of_file(path, file.sha, text))
}

/// A link can name the file, as in `?path=README.md`.
pub(super) async fn new(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    let place = Place::of(&at).await?;
    let path = match parameter(&at.visit.shell.here, "path") {
        Some(path) => path,
        None if place.path.is_empty() => String::new(),
        None => format!("{}/", place.path),
    };
    page(&at, &place, Page::New, &Draft { path, ..Draft::default() }, None, None)
}

pub(super) async fn save(form: TextForm) -> PageResult {
    write(form, Page::Edit).await
}

pub(super) async fn create(form: TextForm) -> PageResult {
    write(form, Page::New).await
}

async fn write(EditorForm { at, place, sent }: TextForm, this: Page) -> PageResult {
    let draft = Draft::of_fields(&sent.fields);
    if sent.fields.is_checked("preview") {
        return show_preview(&at, &place, this, &draft).await;
    }
    let (method, body) = draft.request(place.branch(), &place.path);
    let path = format!("{}/contents/{}", at.repository.api(), encode_path(draft.path.as_bytes()));
    let saved = match draft.path.is_empty() {
        true => Err(ApiError::invalid_field("path", "required", "is required").into()),
        false => at.visit.api.change(method, &path, Some(body)).await,
    };
    let error = match saved {
        Ok(_) => return Ok(at.visit.redirect(&draft.commit.target(&at, &place, &draft.path))),
        Err(error) => error,
    };
    let mut refusal = Refusal::new(&error);
    if refusal.status == StatusCode::CONFLICT && this == Page::Edit {
        refusal.conflict = Conflict::find(&at, &place, &draft.sha).await;
    }
    page(&at, &place, this, &draft, None, Some(refusal))
}

async fn show_preview(at: &RepositoryVisit, place: &Place, this: Page, draft: &Draft) -> PageResult {
    let folder = parent(&draft.path).unwrap_or_default();
    if !document::is_markdown(&draft.path) {
        let error = ApiError::invalid_field("path", "invalid", "only Markdown files have a preview");
        return page(at, place, this, draft, None, Some(Refusal::new(&error.into())));
    }
    match document::render(at, &place.revision, folder, &draft.content).await {
        Ok(html) => page(at, place, this, draft, Some(html), None),
        Err(error) => page(at, place, this, draft, None, Some(Refusal::new(&error))),
    }
}

fn page(
    at: &RepositoryVisit,
    place: &Place,
    this: Page,
    draft: &Draft,
    preview: Option<String>,
    refusal: Option<Refusal>,
) -> PageResult {
    let is_new = this == Page::New;
    let status = refusal.as_ref().map_or(StatusCode::OK, |refusal| refusal.status);
    let content = EditPage {
        heading: if is_new { "New file".to_owned() } else { format!("Edit {}", place.path) },
        action: this.path(&at.repository, place.branch(), &place.path),
        back: if place.has_commit() { place.revision.path_of("src", &place.path) } else { at.repository.path() },
        token: FormToken::of(&at.visit),
        place,
        draft,
        commit: &draft.commit,
        placeholder: if is_new { "Add the file".to_owned() } else { format!("Update {}", place.path) },
        leads_to_pull: at.repository.has_pull_requests,
        max_text_chars: MAX_TEXT_CHARS,
        has_preview: is_new || document::is_markdown(&draft.path),
        preview,
        refusal,
    };
    Ok(with_status(status, at.page(Tab::Code, &content)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(pairs: &[(&str, &str)]) -> Draft {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Draft::of_fields(&pairs.collect::<Fields>())
    }

    #[test]
    fn a_file_is_replaced_only_if_it_is_the_one_that_was_edited() {
        let fields = [("path", "b.txt"), ("content", "x\ny\n"), ("sha", "1"), ("crlf", "1"), ("message", "Move")];
        let (method, body) = draft(&fields).request("main", "a.txt");
        let expected = json!({
            "branch": "main", "new_branch": "", "message": "Move", "content": STANDARD.encode("x\r\ny\r\n"),
            "sha": "1", "from_path": "a.txt",
        });
        assert_eq!((method, body), (Method::PUT, expected));
        let (_, body) = draft(&[&fields[..], &[("replace", "2")]].concat()).request("main", "a.txt");
        assert_eq!(body["sha"], "2");
        for more in [&[("path", "a.txt")][..], &[("sha", "1"), ("replace", DELETED)]] {
            let (method, body) = draft(more).request("main", "a.txt");
            assert_eq!((method, body.get("sha")), (Method::POST, None), "it must not be there");
        }
    }

    #[test]
    fn only_text_files_of_some_size_are_edited() {
        let file = |kind, content: Option<&[u8]>| {
            let content = content.map(|content| STANDARD.encode(content));
            draft_of("a", File { kind, sha: "1".to_owned(), content })
        };
        let draft = file(EntryKind::File, Some(b"\r\na\r\n")).unwrap();
        assert_eq!((draft.content.as_str(), draft.is_crlf, draft.sha.as_str()), ("\na\n", true, "1"));
        for (kind, content) in
            [(EntryKind::Symlink, None), (EntryKind::File, None), (EntryKind::File, Some(&b"\0"[..]))]
        {
            assert_eq!(file(kind, content).unwrap_err().status(), StatusCode::UNPROCESSABLE_ENTITY);
        }
    }
}
