//! What a commit changed, and what two branches, tags or commits differ in.

use askama::Template;
use axum::Router;
use axum::http::header::{CACHE_CONTROL, COOKIE, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::routing::get;
use ferrite_api_types::links::encode_path;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::commits::redirect;
use super::{RepositoryVisit, Tab};
use crate::http::caching::IMMUTABLE;
use crate::pages::components::{Count, Listed, Pager, Time, filters, page_number, parameter};
use crate::pages::diff::Diff;
use crate::pages::error::{PageError, PageResult};
use crate::pages::expensive::expensive;
use crate::pages::layout::{Content, with_status};
use crate::pages::pool::Group;
use crate::pages::view::Repository;
use crate::pages::view::commits::{Commit, Day, Entry, Parent};
use crate::pages::visit::PagesState;

/// Digits of the id of a commit.
const ID_DIGITS: std::ops::RangeInclusive<usize> = 4..=40;
/// Commits of a comparison on a page.
const PAGE_SIZE: u64 = 50;
/// Branches to choose from.
const CHOOSABLE_BRANCHES: usize = 100;

#[derive(Template)]
#[template(path = "commits/commit.html")]
struct CommitPage<'a> {
    repository: &'a Repository,
    entry: Entry,
    /// When its author wrote it.
    written: Time,
    parents: Vec<Parent>,
    state: State,
    statuses: Vec<Status>,
    diff: Diff,
}

/// The statuses of a commit, one of each context.
#[derive(Deserialize)]
struct Statuses {
    state: State,
    statuses: Vec<Status>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(rename = "status")]
    state: State,
    context: String,
    description: String,
    target_url: String,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct State {
    word: String,
}

#[derive(Template)]
#[template(path = "commits/compare.html")]
struct Compare<'a> {
    repository: &'a Repository,
    /// What the form has.
    base: String,
    head: String,
    branches: Vec<Branch>,
    message: Option<String>,
    found: Option<Found>,
    days: Vec<Day>,
    pager: Pager,
    /// The changes since the common ancestor.
    diff: Option<Diff>,
}

#[derive(Deserialize)]
struct Branch {
    name: String,
}

#[derive(Deserialize)]
struct Comparison {
    total_commits: u64,
    commits: Vec<Commit>,
    #[serde(flatten)]
    found: Found,
}

/// The files that differ.
#[derive(Deserialize)]
struct Found {
    merge_base: Option<String>,
    additions: u64,
    deletions: u64,
    changed_files: u64,
    files: Vec<ComparedFile>,
    truncated: bool,
    /// The number of commits on all pages.
    #[serde(skip)]
    commit_count: u64,
    /// Where a pull request can be opened.
    #[serde(skip)]
    new_pull: Option<String>,
}

#[derive(Deserialize)]
struct ComparedFile {
    filename: String,
    #[serde(default)]
    previous_filename: Option<String>,
    status: String,
    additions: u64,
    deletions: u64,
    #[serde(default)]
    binary: bool,
}

/// The sides of a comparison, encoded.
#[derive(Debug, PartialEq, Eq)]
struct Sides<'a> {
    /// Empty for the default branch.
    base: &'a str,
    head: &'a str,
    /// Whether the comparison starts at the common ancestor.
    is_from_ancestor: bool,
}

impl Content for CommitPage<'_> {
    fn title(&self) -> String {
        format!("{} · {}", self.entry.subject, self.entry.short())
    }
}

impl Content for Compare<'_> {
    fn title(&self) -> String {
        if self.found.is_some() { format!("Compare {} and {}", self.base, self.head) } else { "Compare".to_owned() }
    }
}

impl State {
    /// The class of its badge.
    fn class(&self) -> &'static str {
        match self.word.as_str() {
            "success" => "good",
            "failure" | "error" => "bad",
            "pending" | "warning" => "warn",
            _ => "",
        }
    }
}

impl Status {
    /// The page with details; other schemes than those of the web are not followed.
    fn link(&self) -> Option<&str> {
        ["https://", "http://"].iter().any(|scheme| self.target_url.starts_with(scheme)).then_some(&*self.target_url)
    }
}

impl Found {
    fn summary(&self) -> String {
        Count(self.commit_count, "commit").to_string()
    }

    fn file_summary(&self) -> String {
        Count(self.changed_files, "changed file").to_string()
    }
}

impl<'a> Sides<'a> {
    /// Splits `<base>...<head>` or `<base>..<head>`, as the API does.
    fn of(basehead: &'a str) -> Self {
        let Some((base, head)) = basehead.split_once("..") else {
            return Self { base: "", head: basehead, is_from_ancestor: true };
        };
        match head.strip_prefix('.') {
            Some(head) => Self { base, head, is_from_ancestor: true },
            None => Self { base, head, is_from_ancestor: false },
        }
    }

    /// Whether both are full ids of commits, whose difference never changes.
    fn are_permanent(&self) -> bool {
        [self.base, self.head].iter().all(|side| side.len() == *ID_DIGITS.end() && is_id(side))
    }
}

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}/commit/{sha}", get(expensive(Group::Diff, commit)))
        .route("/{owner}/{repo}/compare", get(compare))
        .route("/{owner}/{repo}/compare/{*basehead}", get(expensive(Group::Diff, compare)))
}

/// `/commit/{sha}`, and its text with `.diff` or `.patch` behind the id.
async fn commit(at: RepositoryVisit) -> PageResult {
    if let Some(sha) = named_text(&at.rest) {
        return if is_id(sha) { text(&at, "git/commits").await } else { Err(PageError::not_found()) };
    }
    if !is_id(&at.rest) {
        return Err(PageError::not_found());
    }
    let (visit, here, sha) = (&at.visit, &at.visit.shell.here, &at.rest);
    let (api, path) = (at.repository.api(), at.repository.path());
    let found = format!("{api}/git/commits/{sha}?stat=false&files=false");
    let text = format!("{api}/git/commits/{sha}.diff");
    let statuses = format!("{api}/commits/{sha}/status");
    let (commit, diff, statuses) = tokio::try_join!(
        visit.api.get::<Commit>(&found),
        Diff::load(&visit.api, &text, here),
        visit.api.get::<Statuses>(&statuses),
    )?;
    let (parents, written) = (commit.parents.clone(), commit.commit.author.date);
    let entry = Entry::new(commit, &path);
    let content = CommitPage {
        repository: &at.repository,
        written,
        parents,
        state: statuses.state,
        statuses: statuses.statuses,
        diff: diff.at(here, entry.files.clone(), format!("{}.diff", entry.href)),
        entry,
    };
    at.page(Tab::Code, &content)
}

fn is_id(text: &str) -> bool {
    ID_DIGITS.contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Returns what precedes the ending that asks for a text.
fn named_text(rest: &str) -> Option<&str> {
    rest.strip_suffix(".diff").or(rest.strip_suffix(".patch"))
}

/// Responds with the text of the API, which never changes for a full id.
async fn text(at: &RepositoryVisit, operation: &str) -> PageResult {
    let condition = at.visit.headers.get(IF_NONE_MATCH).map(|tag| (IF_NONE_MATCH, tag.clone()));
    let conditions: HeaderMap = condition.into_iter().collect();
    let path = format!("{}/{operation}/{}", at.repository.api(), at.rest);
    let mut response = at.visit.api.pass(&path, &conditions).await?;
    response.headers_mut().append(VARY, HeaderValue::from(COOKIE));
    Ok(response)
}

/// `/compare/{base}...{head}`, or a form to choose them.
async fn compare(at: RepositoryVisit) -> PageResult {
    let here = &at.visit.shell.here;
    let asked = |name: &str| parameter(here, name).map(|text| text.trim().to_owned()).unwrap_or_default();
    let (base, head) = (asked("base"), asked("head"));
    if at.rest.is_empty() {
        if !base.is_empty() && !head.is_empty() {
            let (base, head) = (encode_path(base.as_bytes()), encode_path(head.as_bytes()));
            return Ok(redirect(&at, &format!("{}/compare/{base}...{head}", at.repository.path())));
        }
        let branches = branches(&at).await?;
        let base = if base.is_empty() { at.repository.default_branch.clone() } else { base };
        return at.page(Tab::Code, &Compare::form(&at.repository, base, head, branches, None));
    }
    // Links of Gitea to the form of a pull request.
    if !asked("expand").is_empty() {
        return Ok(redirect(&at, &format!("{}/pulls/new/{}", at.repository.path(), at.rest)));
    }
    if let Some(basehead) = named_text(&at.rest) {
        let mut response = text(&at, "compare").await?;
        if Sides::of(basehead).are_permanent() {
            response.headers_mut().insert(CACHE_CONTROL, IMMUTABLE);
        }
        return Ok(response);
    }
    let sides = Sides::of(&at.rest);
    let list = format!(
        "{}/compare/{}?page={}&limit={PAGE_SIZE}&stat=false&files=false",
        at.repository.api(),
        at.rest,
        page_number(here)
    );
    let api = &at.visit.api;
    let path = format!("{}/compare/{}...{}.diff", at.repository.api(), sides.base, sides.head);
    let diff = async {
        // Only changes since the common ancestor have a text.
        match sides.is_from_ancestor {
            true => Diff::load(api, &path, here).await.map(Some),
            false => Ok(None),
        }
    };
    let (found, diff, branches) = tokio::join!(api.get::<Comparison>(&list), diff, branches(&at));
    let branches = branches?;
    let (base, head) = (shown(sides.base, &at.repository), shown(sides.head, &at.repository));
    let Comparison { total_commits, commits, found } = match found {
        Ok(comparison) => comparison,
        Err(error) if matches!(error.status(), StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY) => {
            let form = Compare::form(&at.repository, base, head, branches, Some(error.message()));
            return at.page(Tab::Code, &form).map(|page| with_status(error.status(), page));
        }
        Err(error) => return Err(error),
    };
    let can_open = at.visit.shell.viewer.is_some() && at.repository.has_pull_requests && !at.repository.archived;
    let new_pull = (can_open && sides.is_from_ancestor && total_commits > 0)
        .then(|| format!("{}/pulls/new/{}...{}", at.repository.path(), sides.base, sides.head));
    let listed = Listed { items: commits, total: Some(total_commits) };
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let repository = at.repository.path();
    // The newest commit is that of the head.
    let newest = listed.items.first().filter(|_| pager.number == 1);
    let source = newest.map(|commit| format!("{repository}/src/commit/{}", commit.sha)).unwrap_or_default();
    let raw = format!("{repository}/compare/{}...{}.diff", sides.base, sides.head);
    let diff = diff?.map(|diff| diff.at(here, source, raw));
    let days = Day::group(listed.items, &repository);
    let found = Some(Found { commit_count: total_commits, new_pull, ..found });
    let content = Compare { found, days, pager, diff, ..Compare::form(&at.repository, base, head, branches, None) };
    at.page(Tab::Code, &content)
}

impl<'a> Compare<'a> {
    /// The form alone.
    fn form(
        repository: &'a Repository,
        base: String,
        head: String,
        branches: Vec<Branch>,
        message: Option<String>,
    ) -> Self {
        let (days, pager) = (Vec::new(), Pager::default());
        Self { repository, base, head, branches, message, found: None, days, pager, diff: None }
    }
}

async fn branches(at: &RepositoryVisit) -> PageResult<Vec<Branch>> {
    let path = format!("{}/branches?limit={CHOOSABLE_BRANCHES}", at.repository.api());
    Ok(at.visit.api.list(&path).await?.items)
}

/// Returns a side of a comparison as a text.
fn shown(side: &str, repository: &Repository) -> String {
    match side {
        "" => repository.default_branch.clone(),
        side => percent_decode_str(side).decode_utf8_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_dots_separate_the_sides() {
        for (basehead, base, head, is_from_ancestor) in [
            ("main...feature/a.b", "main", "feature/a.b", true),
            ("v1.0..main", "v1.0", "main", false),
            ("...main", "", "main", true),
            ("main", "", "main", true),
        ] {
            assert_eq!(Sides::of(basehead), Sides { base, head, is_from_ancestor }, "{basehead}");
        }
    }

    #[test]
    fn only_a_difference_of_full_ids_is_permanent() {
        let (one, two) = ("1".repeat(40), "a".repeat(40));
        assert!(Sides::of(&format!("{one}...{two}")).are_permanent());
        for other in [&one, &format!("main...{two}"), &format!("{}...{two}", &one[..7])] {
            assert!(!Sides::of(other).are_permanent(), "{other}");
        }
    }

    #[test]
    fn only_addresses_of_the_web_are_links() {
        let link = |target_url: &str| {
            let fields = serde_json::json!({
                "status": "success", "context": "ci", "description": "", "target_url": target_url,
            });
            let status: Status = serde_json::from_value(fields).unwrap();
            assert_eq!(status.state.class(), "good");
            status.link().map(str::to_owned)
        };
        assert_eq!(link("https://ci.example.com/1").as_deref(), Some("https://ci.example.com/1"));
        assert_eq!((link("javascript:alert(1)"), link("")), (None, None));
    }

    #[test]
    fn an_id_has_hexadecimal_digits() {
        assert!(is_id("0123") && is_id(&"aF".repeat(20)));
        assert!(!is_id("012") && !is_id("main") && !is_id(&"a".repeat(41)) && !is_id("012/") && !is_id(""));
    }
}
