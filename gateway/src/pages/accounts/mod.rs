//! Pages of users and organizations, and of the visitor's own account.

mod members;
mod organization_avatar;
pub(super) mod organization_frame;
mod organization_labels;
mod organization_settings;
mod organizations;
mod search;
mod settings;
mod team_forms;
mod teams;
mod users;

use axum::Router;
use axum::routing::{get, post};
use ferrite_api_types::links::encode;

use super::atom::ENDING;
use super::components::{Listed, page_number, parameter};
use super::error::{PageError, PageResult};
use super::expensive::expensive;
use super::pool::Group;
use super::view::{Organization, Repository};
use super::visit::{PagesState, Visit};

const REPOSITORIES_PER_PAGE: u64 = 20;
const PEOPLE_PER_PAGE: u64 = 40;
const ACTIVITIES_PER_PAGE: u64 = 30;
/// Organizations that a profile shows.
const MAX_ORGANIZATIONS: u64 = 50;

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}", get(show).post(users::follow))
        .route("/org/create", get(organizations::show_form).post(organizations::create))
        .merge(of_organizations())
        .route("/search", get(expensive(Group::Search, search::search)))
        .route("/explore/users", get(search::users))
        .route("/explore/organizations", get(search::organizations))
        .merge(settings::router())
}

/// Pages of one organization.
fn of_organizations() -> Router<PagesState> {
    Router::new()
        .route("/org/{org}/members", get(members::list).post(members::change))
        .route("/org/{org}/members/{member}/remove", get(members::ask_to_remove).post(members::remove))
        .route("/org/{org}/teams", get(teams::list))
        .route("/org/{org}/teams/new", get(team_forms::new).post(team_forms::create))
        .route("/org/{org}/teams/{team}", get(teams::members).post(teams::change_members))
        .route("/org/{org}/teams/{team}/repositories", get(teams::repositories).post(teams::change_repositories))
        .route("/org/{org}/teams/{team}/edit", get(team_forms::edit).post(team_forms::save))
        .route("/org/{org}/teams/{team}/delete", get(team_forms::ask_to_delete).post(team_forms::delete))
        .route("/org/{org}/settings", get(organization_settings::show).post(organization_settings::save))
        .route("/org/{org}/settings/avatar", post(organization_avatar::change))
        .route(
            "/org/{org}/settings/delete",
            get(organization_settings::ask_to_delete).post(organization_settings::delete),
        )
        .route("/org/{org}/settings/labels", get(organization_labels::list).post(organization_labels::create))
        .route("/org/{org}/settings/labels/{id}/edit", get(organization_labels::edit).post(organization_labels::save))
}

/// The page of an account: of a user, or of an organization. With the ending of feeds in the path the
/// activity, because a route has no endings.
async fn show(visit: Visit) -> PageResult {
    let name = visit.segment(0);
    if let Some(name) = name.strip_suffix(ENDING) {
        return users::feed(&visit, name).await;
    }
    let (user, organization) = (format!("users/{name}"), format!("orgs/{name}"));
    let (user, organization) = tokio::try_join!(visit.api.find(&user), visit.api.find::<Organization>(&organization))?;
    match (organization, user) {
        (Some(organization), _) => organizations::repositories(visit, organization).await,
        (None, Some(user)) => users::show(visit, user).await,
        (None, None) => Err(PageError::not_found()),
    }
}

/// Reads the repositories of an account that the visitor may see.
async fn repositories_of(visit: &Visit, account: i64) -> PageResult<Listed<Repository>> {
    let here = &visit.shell.here;
    let query = parameter(here, "q").unwrap_or_default();
    let path = format!(
        "repos/search?q={}&uid={account}&exclusive=true&page={}&limit={REPOSITORIES_PER_PAGE}&sort=updated&order=desc",
        encode(query.as_bytes()),
        page_number(here)
    );
    visit.api.search(&path).await
}

/// Returns the address of a website for a link, if it is one that a browser opens as a page.
fn website(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_web = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    is_web.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_web_is_linked() {
        assert_eq!(website(" https://example.com "), Some("https://example.com"));
        for text in ["", "example.com", "javascript:alert(1)", "data:text/html,x", "//example.com"] {
            assert_eq!(website(text), None, "{text}");
        }
    }
}
