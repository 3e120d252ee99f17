//! Pages of wikis. As in Gitea, `?action=_edit` is a form of the page in the path; the paths of Gogs
//! lead to the same forms.

mod edit;
mod lists;
mod page;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::components::{Count, Time, filters, parameter};
use super::error::{PageError, PageResult, render};
use super::issues::RepositoryForm;
use super::layout::Content;
use super::repositories::{RepositoryVisit, Tab};
use super::visit::{PagesState, Visit};
use crate::http::error::ApiError;

/// The page that a wiki begins with.
const HOME: &str = "Home";

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}/wiki", get(show).post(save))
        .route("/{owner}/{repo}/wiki/{*page}", get(show).post(save))
}

/// A page without its text.
#[derive(Clone, Debug, Deserialize)]
struct PageHead {
    title: String,
    /// The name in URLs, encoded.
    sub_url: String,
    #[serde(default)]
    sha: String,
    last_commit: Option<Commit>,
}

#[derive(Clone, Debug, Deserialize)]
struct WikiPage {
    #[serde(flatten)]
    head: PageHead,
    content_base64: String,
    /// Whether the text is too long, and left out.
    #[serde(default)]
    truncated: bool,
    commit_count: u64,
    sidebar: String,
    footer: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Commit {
    sha: String,
    author: Author,
    message: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Author {
    name: String,
    date: Time,
}

impl WikiPage {
    fn text(&self) -> String {
        decode(&self.content_base64)
    }

    fn revisions(&self) -> String {
        Count(self.commit_count, "revision").to_string()
    }
}

impl Commit {
    /// The first line of the message.
    fn subject(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }

    fn short(&self) -> &str {
        self.sha.get(..10).unwrap_or(&self.sha)
    }
}

/// Decodes a text of the API.
fn decode(base64: &str) -> String {
    STANDARD.decode(base64).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// A visit of a wiki that is read. A visitor who may not see the repository can read its wiki if that
/// is public.
enum WikiVisit {
    Repository(Box<RepositoryVisit>),
    Wiki { visit: Box<Visit>, owner: String, name: String },
}

/// What a visitor sees around a wiki who may not see its repository.
#[derive(Template)]
#[template(path = "wiki/frame.html")]
struct Frame<'a> {
    owner: &'a str,
    name: &'a str,
    title: String,
    main: String,
}

impl Content for Frame<'_> {
    fn title(&self) -> String {
        format!("{} · {}/{}", self.title, self.owner, self.name)
    }
}

impl WikiVisit {
    /// Reads the repository of the path. Whether its wiki is public turns out when that is read.
    async fn of(visit: Visit) -> PageResult<Self> {
        match RepositoryVisit::of(visit.clone()).await {
            Ok(at) => {
                require_wiki(&at)?;
                Ok(Self::Repository(Box::new(at)))
            }
            Err(error) if error.status() == StatusCode::NOT_FOUND => {
                let (owner, name) = (visit.segment(0).to_owned(), visit.segment(1).to_owned());
                if is_name(&owner) && is_name(&name) {
                    Ok(Self::Wiki { visit: Box::new(visit), owner, name })
                } else {
                    Err(error)
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The repository, if the visitor may see it.
    fn repository(&self) -> Option<&RepositoryVisit> {
        match self {
            Self::Repository(at) => Some(at),
            Self::Wiki { .. } => None,
        }
    }

    fn visit(&self) -> &Visit {
        match self {
            Self::Repository(at) => &at.visit,
            Self::Wiki { visit, .. } => visit,
        }
    }

    /// The name of the repository with its owner.
    fn full_name(&self) -> String {
        match self {
            Self::Repository(at) => at.repository.full_name(),
            Self::Wiki { owner, name, .. } => format!("{owner}/{name}"),
        }
    }

    /// The path of the wiki.
    fn path(&self) -> String {
        format!("/{}/wiki", self.full_name())
    }

    /// A path in the API below that of the wiki.
    fn api(&self, rest: &str) -> String {
        format!("repos/{}/wiki/{rest}", self.full_name())
    }

    fn can_write(&self) -> bool {
        self.repository().is_some_and(can_write)
    }

    fn page(&self, content: &impl Content) -> PageResult {
        match self {
            Self::Repository(at) => at.page(Tab::Wiki, content),
            Self::Wiki { visit, owner, name } => {
                visit.page(&Frame { owner, name, title: content.title(), main: render(content)? })
            }
        }
    }
}

/// Returns whether a part of a path is a name of an account or a repository, which needs no encoding.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// What a URL asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Show,
    Pages,
    New,
    Edit,
    Delete,
    Revisions,
}

/// Returns the name of the page in a URL, encoded as one segment and empty without one, and what is
/// asked for. `rest` is the path below that of the wiki.
fn asked(rest: &str, here: &str) -> (String, Action) {
    let rest = rest.trim_end_matches('/');
    let (page, of_gogs) = match (rest, rest.rsplit_once('/')) {
        ("_new" | "_pages", _) => ("", Some(rest)),
        (_, Some((page, "_edit"))) => (page, Some("_edit")),
        _ => (rest, None),
    };
    let action = parameter(here, "action");
    let action = match action.as_deref().or(of_gogs) {
        Some("_pages") => Action::Pages,
        Some("_new") => Action::New,
        Some("_edit") => Action::Edit,
        Some("_delete") => Action::Delete,
        Some("_revision") => Action::Revisions,
        _ => Action::Show,
    };
    (page.replace('/', "%2F"), action)
}

async fn show(visit: Visit) -> PageResult {
    let path = visit.shell.here.split('?').next().unwrap_or_default();
    let (page, action) = asked(path.splitn(5, '/').nth(4).unwrap_or_default(), &visit.shell.here);
    let wiki = WikiVisit::of(visit).await?;
    match (action, wiki.repository()) {
        (Action::Show, _) => page::show(&wiki, &page).await,
        (Action::Pages, _) => lists::pages(&wiki).await,
        (Action::Revisions, _) => lists::revisions(&wiki, or_home(&page)).await,
        (Action::New, Some(at)) => edit::new(at).await,
        (Action::Edit, Some(at)) => edit::edit(at, or_home(&page)).await,
        (Action::Delete, Some(at)) => edit::ask_to_delete(at, or_home(&page)).await,
        (Action::New | Action::Edit | Action::Delete, None) => Err(PageError::not_found()),
    }
}

async fn save(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    require_wiki(&at)?;
    let (page, action) = asked(&at.rest, &at.visit.shell.here);
    match action {
        Action::New => edit::create(&at, &fields).await,
        Action::Edit => edit::save(&at, or_home(&page), &fields).await,
        Action::Delete => edit::delete(&at, or_home(&page)).await,
        Action::Show | Action::Pages | Action::Revisions => Err(PageError::not_found()),
    }
}

fn or_home(page: &str) -> &str {
    if page.is_empty() { HOME } else { page }
}

fn require_wiki(at: &RepositoryVisit) -> PageResult<()> {
    if at.repository.has_wiki { Ok(()) } else { Err(PageError::not_found()) }
}

/// Returns whether the visitor may write pages.
fn can_write(at: &RepositoryVisit) -> bool {
    at.visit.shell.viewer.is_some() && at.repository.can_write()
}

fn require_writer(at: &RepositoryVisit) -> PageResult<()> {
    at.visit.signed_in()?;
    let message = "only users with write permission can change the wiki";
    if can_write(at) { Ok(()) } else { Err(ApiError::new(StatusCode::FORBIDDEN, message).into()) }
}

/// The path of the wiki.
fn wiki(at: &RepositoryVisit) -> String {
    format!("{}/wiki", at.repository.path())
}

/// The path of a page in the API. `page` is encoded.
fn api_path(at: &RepositoryVisit, page: &str) -> String {
    format!("{}/wiki/page/{page}", at.repository.api())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_gitea_and_gogs_ask_for_the_same() {
        for (rest, here, page, action) in [
            ("", "/a/b/wiki", "", Action::Show),
            ("Home", "/a/b/wiki/Home", "Home", Action::Show),
            ("dir/Page%20x/", "/a/b/wiki/dir/Page%20x/", "dir%2FPage%20x", Action::Show),
            ("", "/a/b/wiki?action=_pages", "", Action::Pages),
            ("_pages", "/a/b/wiki/_pages", "", Action::Pages),
            ("_new", "/a/b/wiki/_new?title=x", "", Action::New),
            ("Home", "/a/b/wiki/Home?action=_edit", "Home", Action::Edit),
            ("Home/_edit", "/a/b/wiki/Home/_edit", "Home", Action::Edit),
            ("Home", "/a/b/wiki/Home?action=_delete", "Home", Action::Delete),
            ("Home", "/a/b/wiki/Home?action=_revision&page=2", "Home", Action::Revisions),
            ("Home", "/a/b/wiki/Home?action=x", "Home", Action::Show),
        ] {
            assert_eq!(asked(rest, here), (page.to_owned(), action), "{here}");
        }
    }
}
