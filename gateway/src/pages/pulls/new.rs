//! The form of a new pull request.

use askama::Template;
use axum::http::{Method, StatusCode};
use ferrite_api_types::links::{encode, encode_path};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::json;

use super::RepositoryForm;
use super::actions::names;
use crate::http::error::ApiError;
use crate::pages::components::{Count, parameter};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, FormToken};
use crate::pages::issues::view::can_comment;
use crate::pages::layout::{Content, with_status};
use crate::pages::markdown::render_many;
use crate::pages::repositories::{RepositoryVisit, Tab};
use crate::pages::view::commits::{Commit, Day, body, subject};

/// Branches to choose from; others can be typed.
const MAX_BRANCHES: u64 = 100;
/// Commits that are shown.
const MAX_COMMITS: u64 = 50;
/// The start of the title of a draft.
const DRAFT: &str = "WIP: ";

#[derive(Template)]
#[template(path = "pulls/choose.html")]
struct ChoosePage {
    repository: String,
    default_branch: String,
    branches: Vec<Branch>,
}

#[derive(Deserialize)]
struct Branch {
    name: String,
}

#[derive(Template)]
#[template(path = "pulls/new.html")]
struct NewPage<'a> {
    repository: String,
    /// The path of the form.
    action: String,
    ends: &'a Ends,
    draft: &'a Draft,
    /// `None` if the head is in another repository, or does not exist.
    compared: Option<Compared>,
    days: Vec<Day>,
    existing: Option<Existing>,
    token: FormToken,
    preview: Option<String>,
    message: Option<&'a str>,
}

/// The branches to merge, as the path names them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ends {
    base: String,
    /// `branch`, or `owner:branch` for another repository.
    head: String,
}

/// What is in the fields.
#[derive(Clone, Debug, Default)]
struct Draft {
    title: String,
    body: String,
    reviewers: String,
    is_draft: bool,
}

#[derive(Deserialize)]
struct Compared {
    total_commits: u64,
    commits: Vec<Commit>,
    additions: u64,
    deletions: u64,
    changed_files: u64,
}

/// An open pull request with the same branches.
#[derive(Deserialize)]
struct Existing {
    number: i64,
    title: String,
}

impl Content for ChoosePage {
    fn title(&self) -> String {
        "New pull request".to_owned()
    }
}

impl Content for NewPage<'_> {
    fn title(&self) -> String {
        "New pull request".to_owned()
    }
}

impl Ends {
    /// Parses `new/{base}...{head}`, encoded. An empty base is the default branch.
    fn parse(rest: &str, default_branch: &str) -> Option<Self> {
        let names = rest.strip_prefix("new/")?;
        let names = percent_decode_str(names).decode_utf8().ok()?;
        let (base, head) = names.split_once("...")?;
        let base = if base.is_empty() { default_branch } else { base };
        let is_name = |name: &str| !name.is_empty() && !name.chars().any(char::is_control);
        (is_name(base) && is_name(head)).then(|| Self { base: base.to_owned(), head: head.to_owned() })
    }

    /// The names as paths have them.
    fn path(&self) -> String {
        format!("{}...{}", encode_path(self.base.as_bytes()), encode_path(self.head.as_bytes()))
    }
}

impl Draft {
    fn of_fields(fields: &Fields) -> Self {
        Self {
            title: fields.text("title").to_owned(),
            body: fields.text("body").to_owned(),
            reviewers: fields.text("reviewers").to_owned(),
            is_draft: fields.is_checked("draft"),
        }
    }

    /// The text of the only commit, or the name of the branch.
    fn of(ends: &Ends, compared: Option<&Compared>) -> Self {
        if let Some(Compared { commits, .. }) = compared
            && let [commit] = commits.as_slice()
        {
            let message = &commit.commit.message;
            return Self { title: subject(message), body: body(message).to_owned(), ..Self::default() };
        }
        let branch = ends.head.rsplit([':', '/']).next().unwrap_or_default().replace(['-', '_'], " ");
        let mut chars = branch.chars();
        let title = chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default();
        Self { title, ..Self::default() }
    }

    /// The title, marked if it is a draft.
    fn full_title(&self) -> String {
        if self.is_draft { format!("{DRAFT}{}", self.title) } else { self.title.clone() }
    }
}

impl Compared {
    fn summary(&self) -> String {
        format!("{} in {}", Count(self.changed_files, "changed file"), Count(self.total_commits, "commit"))
    }
}

/// Asks for the branches.
pub(super) async fn choose(at: RepositoryVisit) -> PageResult {
    require_account(&at)?;
    let here = &at.visit.shell.here;
    let text = |name| parameter(here, name).unwrap_or_default().trim().to_owned();
    let ends = Ends { base: text("base"), head: text("head") };
    if !ends.head.is_empty() {
        return Ok(at.visit.redirect(&format!("{}/pulls/new/{}", at.repository.path(), ends.path())));
    }
    let path = format!("{}/branches?limit={MAX_BRANCHES}", at.repository.api());
    let branches = at.visit.api.list::<Branch>(&path).await?.items;
    let default_branch = at.repository.default_branch.clone();
    at.page(Tab::Pulls, &ChoosePage { repository: at.repository.path(), default_branch, branches })
}

pub(super) async fn form(at: RepositoryVisit) -> PageResult {
    require_account(&at)?;
    let ends = ends_of(&at)?;
    page(&at, &ends, None, None).await
}

pub(super) async fn create(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let ends = ends_of(&at)?;
    if fields.is_checked("preview") {
        return page(&at, &ends, Some(&fields), None).await;
    }
    let draft = Draft::of_fields(&fields);
    let pull = json!({
        "base": ends.base,
        "head": ends.head,
        "title": draft.full_title(),
        "body": draft.body,
        "reviewers": names(&draft.reviewers, |char| char == ',' || char.is_whitespace()),
    });
    match at.visit.api.change(Method::POST, &format!("{}/pulls", at.repository.api()), Some(pull)).await {
        Ok(made) => {
            let number = made["number"].as_i64().unwrap_or_default();
            Ok(at.visit.redirect(&format!("{}/pulls/{number}", at.repository.path())))
        }
        Err(error) => {
            let message = error.refusal()?;
            let shown = page(&at, &ends, Some(&fields), Some(&message)).await?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, shown))
        }
    }
}

fn require_account(at: &RepositoryVisit) -> PageResult<()> {
    at.visit.signed_in()?;
    if can_comment(at) {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::FORBIDDEN, "nobody can open pull requests in an archived repository").into())
}

fn ends_of(at: &RepositoryVisit) -> PageResult<Ends> {
    Ends::parse(&at.rest, &at.repository.default_branch).ok_or_else(PageError::not_found)
}

async fn page(at: &RepositoryVisit, ends: &Ends, fields: Option<&Fields>, message: Option<&str>) -> PageResult {
    let (api, repository) = (&at.visit.api, at.repository.api());
    let compared = async {
        if ends.head.contains(':') {
            return Ok(None);
        }
        let path = format!("{repository}/compare/{}?limit={MAX_COMMITS}&stat=false&files=false", ends.path());
        api.find::<Compared>(&path).await
    };
    let existing = async {
        let path = format!("{repository}/pulls/{}/{}", encode(ends.base.as_bytes()), encode_path(ends.head.as_bytes()));
        // An unknown repository of the head is the business of the form.
        Ok(api.find::<Existing>(&path).await.unwrap_or_default())
    };
    let (mut compared, existing) = tokio::try_join!(compared, existing)?;
    let draft = fields.map_or_else(|| Draft::of(ends, compared.as_ref()), Draft::of_fields);
    let preview = match fields.filter(|fields| fields.is_checked("preview")) {
        Some(_) => render_many(&at.visit, vec![draft.body.clone()], &at.repository.full_name()).await?.pop(),
        None => None,
    };
    let commits = compared.as_mut().map(|compared| std::mem::take(&mut compared.commits)).unwrap_or_default();
    let shown = NewPage {
        repository: at.repository.path(),
        action: format!("{}/pulls/new/{}", at.repository.path(), ends.path()),
        ends,
        draft: &draft,
        compared,
        days: Day::group(commits, &at.repository.path()),
        existing,
        token: FormToken::of(&at.visit),
        preview,
        message,
    };
    at.page(Tab::Pulls, &shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_both_branches() {
        let parse = |rest: &str| Ends::parse(rest, "main").map(|ends| (ends.base, ends.head));
        let ends = |base: &str, head: &str| Some((base.to_owned(), head.to_owned()));
        assert_eq!(parse("new/main...topic"), ends("main", "topic"));
        assert_eq!(parse("new/release/1...eve:fix/a"), ends("release/1", "eve:fix/a"));
        assert_eq!(parse("new/...a%20b"), ends("main", "a b"));
        for bad in ["new/main", "new/main...", "new/a...b%0a", "new/a...%ff"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_title_is_that_of_the_only_commit_or_the_branch() {
        let ends = |head: &str| Ends { base: "main".to_owned(), head: head.to_owned() };
        assert_eq!(Draft::of(&ends("eve:feature/long-lines"), None).title, "Long lines");
        let person = json!({"name": "a", "email": "a@b", "date": "2026-01-01T00:00:00Z"});
        let commit = json!({"sha": "a", "commit": {"message": "One\n\nTwo", "author": person, "committer": person}});
        let compared = json!({
            "total_commits": 1, "commits": [commit], "additions": 0, "deletions": 0, "changed_files": 0
        });
        let draft = Draft::of(&ends("x"), Some(&serde_json::from_value(compared).unwrap()));
        assert_eq!((draft.title.as_str(), draft.body.as_str()), ("One", "Two"));
        assert_eq!(Draft { is_draft: true, ..draft }.full_title(), "WIP: One");
    }
}
