//! The milestones of a repository, and the issues of each.

use askama::Template;

use super::list::{Kind, PAGE_SIZE, Tabs, count, states};
use super::number;
use super::view::{Issue, Milestone, is_writer};
use crate::pages::components::{Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::FormToken;
use crate::pages::layout::Content;
use crate::pages::markdown::render_many;
use crate::pages::repositories::RepositoryVisit;

#[derive(Template)]
#[template(path = "issues/milestones.html")]
struct Milestones {
    kind: Kind,
    repository: String,
    token: FormToken,
    tabs: Tabs,
    /// With their descriptions as HTML.
    milestones: Vec<(Milestone, String)>,
    is_writer: bool,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "issues/milestone.html")]
struct MilestonePage {
    kind: Kind,
    repository: String,
    token: FormToken,
    milestone: Milestone,
    html: String,
    is_writer: bool,
    tabs: Tabs,
    issues: Vec<Issue>,
    shows_repository: bool,
    pager: Pager,
}

impl Content for Milestones {
    fn title(&self) -> String {
        "Milestones".to_owned()
    }
}

impl Content for MilestonePage {
    fn title(&self) -> String {
        self.milestone.title.clone()
    }
}

pub(super) async fn list(at: RepositoryVisit) -> PageResult {
    let (api, here, repository) = (&at.visit.api, &at.visit.shell.here, at.repository.api());
    let (shown, other) = states(here);
    let path = format!("{repository}/milestones?state={shown}&page={}&limit={PAGE_SIZE}", page_number(here));
    let other_path = format!("{repository}/milestones?state={other}&limit=1");
    let (milestones, other) = tokio::try_join!(api.list::<Milestone>(&path), count(api, &other_path))?;
    let (pager, tabs) = (Pager::of(here, PAGE_SIZE, &milestones), Tabs::new(here, milestones.total, other));
    let texts = milestones.items.iter().map(|milestone| milestone.description.clone()).collect();
    let html = render_many(&at.visit, texts, &at.repository.full_name()).await?;
    let kind = Kind::of(&at);
    let content = Milestones {
        kind,
        repository: at.repository.path(),
        token: FormToken::of(&at.visit),
        tabs,
        milestones: milestones.items.into_iter().zip(html).collect(),
        is_writer: is_writer(&at),
        pager,
    };
    at.page(kind.tab(), &content)
}

/// The issues and pull requests of a milestone.
pub(super) async fn show(at: RepositoryVisit) -> PageResult {
    let (api, here, repository) = (&at.visit.api, &at.visit.shell.here, at.repository.api());
    let (id, (state, _), page) = (number(&at)?, states(here), page_number(here));
    let milestone_path = format!("{repository}/milestones/{id}");
    let path = format!("{repository}/issues?type=all&milestone={id}&state={state}&page={page}&limit={PAGE_SIZE}");
    let (milestone, issues) = tokio::try_join!(api.get::<Milestone>(&milestone_path), api.list::<Issue>(&path))?;
    let html = render_many(&at.visit, vec![milestone.description.clone()], &at.repository.full_name()).await?;
    let pager = Pager::of(here, PAGE_SIZE, &issues);
    let mut tabs = Tabs::new(here, None, None);
    (tabs.open, tabs.closed) = (Some(milestone.open_issues), Some(milestone.closed_issues));
    let kind = Kind::of(&at);
    let content = MilestonePage {
        kind,
        repository: at.repository.path(),
        token: FormToken::of(&at.visit),
        milestone,
        html: html.concat(),
        is_writer: is_writer(&at),
        tabs,
        issues: issues.items,
        shows_repository: false,
        pager,
    };
    at.page(kind.tab(), &content)
}
