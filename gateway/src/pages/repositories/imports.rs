//! The form to import or mirror a repository, and the visitor's imports.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::create::{own_organizations, to_repository};
use crate::pages::components::{Bytes, Count, Listed, Pager, Time, filters, page_number, parameter};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::view::Organization;
use crate::pages::visit::Visit;

const PAGE_SIZE: u64 = 30;
/// Small repositories, and addresses without one, are known by then.
const PREFERENCE: &str = "respond-async, wait=4";
const IMPORTS: &str = "/repo/migrations";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    Queued,
    Fetching,
    Indexing,
    Done,
    Failed,
}

#[derive(Clone, Debug, Deserialize)]
struct Import {
    id: i64,
    /// `owner/name`, as it was called when the import started.
    repository: String,
    phase: Phase,
    objects: u64,
    bytes: u64,
    error: String,
    created_at: Time,
    finished_at: Option<Time>,
}

#[derive(Template)]
#[template(path = "imports/new.html")]
struct NewImport<'a> {
    token: FormToken,
    viewer: &'a str,
    organizations: Vec<Organization>,
    owner: &'a str,
    address: String,
    includes_wiki: bool,
    fields: &'a Fields,
    error: &'a str,
}

#[derive(Template)]
#[template(path = "imports/list.html")]
struct Imports {
    imports: Vec<Import>,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "imports/import.html")]
struct ImportPage {
    import: Import,
}

impl Content for NewImport<'_> {
    fn title(&self) -> String {
        "Import a repository".to_owned()
    }
}

impl Content for Imports {
    fn title(&self) -> String {
        "Imports".to_owned()
    }
}

impl Content for ImportPage {
    fn title(&self) -> String {
        format!("Import of {}", self.import.repository)
    }
}

impl Phase {
    fn title(self) -> &'static str {
        match self {
            Self::Queued => "Queued",
            Self::Fetching => "Fetching",
            Self::Indexing => "Indexing",
            Self::Done => "Done",
            Self::Failed => "Failed",
        }
    }

    fn tone(self) -> &'static str {
        match self {
            Self::Queued | Self::Fetching | Self::Indexing => "warn",
            Self::Done => "good",
            Self::Failed => "bad",
        }
    }
}

impl Import {
    fn path(&self) -> String {
        format!("{IMPORTS}/{}", self.id)
    }

    fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    fn is_running(&self) -> bool {
        self.finished_at.is_none()
    }

    fn progress(&self) -> String {
        format!("{}, {}", Count(self.objects, "object"), Bytes(self.bytes))
    }
}

pub(super) async fn show_form(visit: Visit) -> PageResult {
    let owner = parameter(&visit.shell.here, "owner").unwrap_or_default();
    form(&visit, &owner, &Fields::default(), "").await
}

async fn form(visit: &Visit, owner: &str, fields: &Fields, error: &str) -> PageResult {
    let viewer = &visit.signed_in()?.login;
    visit.page(&NewImport {
        token: FormToken::of(visit),
        viewer,
        organizations: own_organizations(visit).await?,
        owner,
        address: without_credentials(fields.text("clone_addr").trim()),
        includes_wiki: error.is_empty() || fields.is_checked("wiki"),
        fields,
        error,
    })
}

/// Starts an import. Goes to the repository if it is there soon.
pub(super) async fn create(Form { visit, fields }: Form) -> PageResult {
    let owner = fields.text("repo_owner");
    let made = visit.api.change_preferring(Method::POST, "repos/migrate", request(&fields), PREFERENCE).await;
    match made {
        Ok(made) if made["full_name"].is_string() => Ok(to_repository(&visit, &made)),
        Ok(made) => Ok(visit.redirect(&format!("{IMPORTS}/{}", made["id"].as_i64().unwrap_or_default()))),
        Err(error) => {
            let message = mistake(error)?;
            let page = form(&visit, owner, &fields, &message).await?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, page))
        }
    }
}

fn request(fields: &Fields) -> Value {
    let text = |name| fields.text(name).trim();
    let mut body = json!({
        "clone_addr": text("clone_addr"), "auth_username": text("auth_username"),
        "auth_password": fields.text("auth_password"), "auth_token": text("auth_token"),
        "repo_owner": text("repo_owner"), "repo_name": text("repo_name"), "description": text("description"),
        "private": fields.is_checked("private"), "wiki": fields.is_checked("wiki"),
        "mirror": fields.is_checked("mirror"),
    });
    if fields.is_checked("mirror") {
        body["mirror_interval"] = text("mirror_interval").into();
    }
    body
}

/// What the form says about what was refused. The visitor may lack a right on the owner, or there may
/// be no room.
fn mistake(error: PageError) -> PageResult<String> {
    match error.status() {
        StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::INSUFFICIENT_STORAGE => Ok(error.message()),
        _ => error.mistake(),
    }
}

/// Returns an address without user and password, to show it again.
fn without_credentials(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |place| place + 1);
    format!("{scheme}://{}", &rest[host..])
}

pub(super) async fn list(visit: Visit) -> PageResult {
    visit.signed_in()?;
    let here = &visit.shell.here;
    let path = format!("user/migrations?page={}&limit={PAGE_SIZE}", page_number(here));
    let listed: Listed<Import> = visit.api.list(&path).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    visit.page(&Imports { imports: listed.items, pager })
}

pub(super) async fn show(visit: Visit) -> PageResult {
    visit.signed_in()?;
    let import = visit.api.get(&format!("repos/migrations/{}", visit.segment(2))).await?;
    visit.page(&ImportPage { import })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_an_address_are_not_shown_again() {
        for (typed, shown) in [
            ("https://ada:secret@example.com/a.git", "https://example.com/a.git"),
            ("https://ada:se@cret@example.com", "https://example.com"),
            ("https://example.com/a@b?c@d", "https://example.com/a@b?c@d"),
            ("example.com/a", "example.com/a"),
        ] {
            assert_eq!(without_credentials(typed), shown);
        }
    }

    #[test]
    fn an_import_has_a_state() {
        let text = r#"{"id": 7, "repository": "ada/demo", "phase": "fetching", "objects": 1, "bytes": 2048,
            "error": "", "created_at": "2026-01-02T03:04:05Z", "finished_at": null}"#;
        let import: Import = serde_json::from_str(text).unwrap();
        assert_eq!((import.phase.title(), import.progress().as_str()), ("Fetching", "1 object, 2.0 KiB"));
        assert!(import.is_running() && !import.is_done() && import.path() == "/repo/migrations/7");
    }
}
