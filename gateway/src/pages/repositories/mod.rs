//! Pages of a repository: the frame around them, and one file per kind of page.

mod blame;
mod commits;
mod create;
mod diffs;
pub(super) mod document;
mod edit_links;
mod editor;
mod feeds;
mod files;
mod find;
mod folder;
mod forks;
mod home;
mod imports;
mod people;
mod raw;
mod ref_forms;
mod refs;
mod revision;
mod settings;
mod transfers;

use askama::Template;
use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::routing::get;

use super::atom::ENDING;
use super::components::filters;
use super::error::{PageError, PageResult, render};
use super::expensive::expensive;
use super::form::FormToken;
use super::layout::{Content, Shell, page};
use super::pool::Group;
use super::view::Repository;
use super::visit::{PagesState, Visit};

/// The tabs of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Code,
    Issues,
    Pulls,
    Releases,
    Wiki,
    Settings,
}

/// A visit of a page of a repository that the visitor may see.
pub(super) struct RepositoryVisit {
    pub(super) visit: Visit,
    pub(super) repository: Repository,
    /// Whether the visitor starred it; `None` for one without an account.
    pub(super) is_starred: Option<bool>,
    /// What follows the name of the page in the path, encoded: all after
    /// `/{owner}/{repo}/{page}/`.
    pub(super) rest: String,
}

#[derive(Template)]
#[template(path = "repository/frame.html")]
struct Frame<'a> {
    shell: &'a Shell,
    repository: &'a Repository,
    pub(super) is_starred: Option<bool>,
    token: FormToken,
    tab: Tab,
    title: String,
    main: String,
}

impl Content for Frame<'_> {
    fn title(&self) -> String {
        match self.title.as_str() {
            "" => self.repository.full_name(),
            title => format!("{title} · {}", self.repository.full_name()),
        }
    }

    fn feed(&self) -> Option<String> {
        Some(format!("{}{ENDING}", self.repository.path()))
    }
}

impl FromRequestParts<PagesState> for RepositoryVisit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &PagesState) -> PageResult<Self> {
        Self::of(Visit::from_request_parts(parts, state).await?).await
    }
}

impl RepositoryVisit {
    /// Reads the repository of the path, as for a form.
    pub(super) async fn of(visit: Visit) -> PageResult<Self> {
        let path = visit.shell.here.split('?').next().unwrap_or_default();
        let mut path = path.splitn(5, '/').skip(1);
        let mut next = || path.next().unwrap_or_default();
        let (owner, name, _page, rest) = (next(), next(), next(), next().to_owned());
        let (repository, star) = (format!("repos/{owner}/{name}"), format!("user/starred/{owner}/{name}"));
        let (repository, is_starred) = tokio::join!(visit.api.get(&repository), is_starred(&visit, &star));
        Ok(Self { repository: repository?, is_starred, rest, visit })
    }

    /// Responds with a page of the repository, below its name and tabs. Its title can be empty.
    pub(super) fn page(&self, tab: Tab, content: &impl Content) -> PageResult {
        let frame = Frame {
            shell: &self.visit.shell,
            repository: &self.repository,
            is_starred: self.is_starred,
            token: FormToken::of(&self.visit),
            tab,
            title: content.title(),
            main: render(content)?,
        };
        Ok(page(&self.visit.shell, &frame))
    }
}

/// A page that fails to learn this is shown without it.
async fn is_starred(visit: &Visit, star: &str) -> Option<bool> {
    visit.shell.viewer.as_ref()?;
    visit.api.exists(star).await.ok()
}

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}", get(home::home))
        .route("/{owner}/{repo}/src/{*rest}", get(files::source))
        .route("/{owner}/{repo}/find/{*rest}", get(expensive(Group::Search, find::find)))
        .route("/{owner}/{repo}/raw/{*rest}", get(raw::raw))
        .route("/{owner}/{repo}/wiki/raw/{*rest}", get(raw::of_wiki))
        .route("/{owner}/{repo}/releases/files/{release}/{file}/{name}", get(raw::of_release))
        .route("/{owner}/{repo}/media/{*rest}", get(raw::media))
        .route("/{owner}/{repo}/archive/{*rest}", get(expensive(Group::Archive, raw::archive)))
        .merge(blame::router())
        .merge(commits::router())
        .merge(diffs::router())
        .merge(editor::router())
        .merge(feeds::router())
        .merge(ref_forms::router())
        .merge(refs::router())
        .merge(settings::router())
        .merge(transfers::router())
        .route("/{owner}/{repo}/stars", get(people::stars).post(people::star))
        .route("/{owner}/{repo}/watchers", get(people::watchers).post(people::watch))
        .route("/{owner}/{repo}/forks", get(forks::show))
        .route("/{owner}/{repo}/fork", get(forks::show_form).post(forks::create))
        .route("/repo/create", get(create::show).post(create::create))
        .route("/repo/migrate", get(imports::show_form).post(imports::create))
        .route("/repo/migrations", get(imports::list))
        .route("/repo/migrations/{id}", get(imports::show))
}
