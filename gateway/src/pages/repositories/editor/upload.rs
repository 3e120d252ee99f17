//! The form that uploads files into a folder, in one commit.

use askama::Template;
use axum::http::Method;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::commit::Commit;
use super::form::{EditorForm, Place};
use super::{require_writer, status_of};
use crate::http::error::ApiError;
use crate::pages::error::PageResult;
use crate::pages::form::FormToken;
use crate::pages::layout::{Content, with_status};
use crate::pages::multipart::{FilePart, Parts};
use crate::pages::repositories::edit_links::Page;
use crate::pages::repositories::folder::join;
use crate::pages::repositories::{RepositoryVisit, Tab};

/// The files of one commit of the API, and the heads of the parts.
const MAX_FORM_BYTES: usize = (48 << 20) + (512 << 10);

#[derive(Template)]
#[template(path = "editor/upload.html")]
struct UploadPage<'a> {
    action: String,
    back: String,
    token: FormToken,
    place: &'a Place,
    /// The folder, as it was typed.
    folder: &'a str,
    commit: &'a Commit,
    placeholder: String,
    leads_to_pull: bool,
    message: Option<String>,
}

impl Content for UploadPage<'_> {
    fn title(&self) -> String {
        "Upload files".to_owned()
    }
}

pub(super) async fn show(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    let place = Place::of(&at).await?;
    page(&at, &place, &place.path, &Commit::default(), None)
}

/// A file of the same name is replaced.
pub(super) async fn upload(EditorForm { at, place, sent }: EditorForm<MAX_FORM_BYTES>) -> PageResult {
    let Parts { fields, files, permit } = sent;
    let (folder, commit) = (fields.text("path").trim_matches('/'), Commit::of_fields(&fields));
    let paths: Vec<_> = files.iter().map(|file| join(folder, &file.name)).collect();
    let mut body = commit.json(place.branch());
    body.insert("files".to_owned(), changes(&paths, files));
    drop(permit);
    let path = format!("{}/contents", at.repository.api());
    let uploaded = match paths.is_empty() {
        true => Err(ApiError::invalid_field("files", "required", "select at least one file").into()),
        false => at.visit.api.change(Method::POST, &path, Some(Value::Object(body))).await,
    };
    match uploaded {
        Ok(_) => Ok(at.visit.redirect(&commit.target(&at, &place, folder))),
        Err(error) => {
            let status = status_of(&error);
            let shown = page(&at, &place, folder, &commit, Some(named(&error.message(), &paths)))?;
            Ok(with_status(status, shown))
        }
    }
}

/// The changes of a request. Each file is dropped once it is encoded.
fn changes(paths: &[String], files: Vec<FilePart>) -> Value {
    let change = |(path, file): (&String, FilePart)| json!({"operation": "upload", "path": path, "content": STANDARD.encode(file.content)});
    paths.iter().zip(files).map(change).collect()
}

/// Names the file that a message of the API counts, as in `files[3].path`.
fn named(message: &str, paths: &[String]) -> String {
    let Some((before, rest)) = message.split_once("files[") else { return message.to_owned() };
    let place = rest.split_once(']').and_then(|(number, rest)| Some((paths.get(number.parse::<usize>().ok()?)?, rest)));
    match place {
        Some((path, rest)) => format!("{before}{path}{rest}"),
        None => message.to_owned(),
    }
}

fn page(at: &RepositoryVisit, place: &Place, folder: &str, commit: &Commit, message: Option<String>) -> PageResult {
    let content = UploadPage {
        action: Page::Upload.path(&at.repository, place.branch(), &place.path),
        back: if place.has_commit() { place.revision.path_of("src", &place.path) } else { at.repository.path() },
        token: FormToken::of(&at.visit),
        place,
        folder,
        commit,
        placeholder: "Add the files".to_owned(),
        leads_to_pull: at.repository.has_pull_requests,
        message,
    };
    at.page(Tab::Code, &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_changes_of_one_commit() {
        let file = |name: &str| FilePart { field: "files".into(), name: name.into(), content: "a\r\n".into() };
        let paths = ["docs/a".to_owned(), "docs/b".to_owned()];
        let content = STANDARD.encode("a\r\n");
        let expected = json!([
            {"operation": "upload", "path": "docs/a", "content": content},
            {"operation": "upload", "path": "docs/b", "content": content},
        ]);
        assert_eq!(changes(&paths, vec![file("a"), file("b")]), expected);
    }

    #[test]
    fn a_message_names_the_file() {
        let paths = ["a".to_owned(), "docs/b".to_owned()];
        assert_eq!(named("`files[1].path`: is a directory", &paths), "`docs/b.path`: is a directory");
        for other in ["`message`: is too long", "`files[2].path`: x", "`files`: x", "files["] {
            assert_eq!(named(other, &paths), other);
        }
    }
}
