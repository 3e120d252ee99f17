//! The list of all organizations.

use askama::Template;

use super::{AdministratorVisit, Part};
use crate::pages::components::{Listed, Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::layout::Content;
use crate::pages::view::{Account, Organization};

const PAGE_SIZE: u64 = 50;

#[derive(Template)]
#[template(path = "administration/organizations.html")]
struct Organizations {
    organizations: Vec<(Organization, Account)>,
    pager: Pager,
}

impl Content for Organizations {
    fn title(&self) -> String {
        "Organizations".to_owned()
    }
}

pub(super) async fn list(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    let here = &visit.shell.here;
    let path = format!("admin/orgs?page={}&limit={PAGE_SIZE}", page_number(here));
    let listed: Listed<Organization> = visit.api.list(&path).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let organizations = listed.items.into_iter().map(|organization| (organization.clone(), organization.into()));
    Part::Organizations.page(&visit, &Organizations { organizations: organizations.collect(), pager }, "")
}
