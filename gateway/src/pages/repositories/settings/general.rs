//! What a repository is called and has, how its pull requests are merged, and whose it is.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Section, administered, fields_of, is_owner, missing};
use crate::http::error::ApiError;
use crate::pages::components::Time;
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::repositories::transfers::Transfer;
use crate::pages::view::Repository;
use crate::pages::visit::Visit;

/// The styles of merges: the switch and the style in the API, and what happens.
const STYLES: [(&str, &str, &str); 5] = [
    ("allow_merge_commits", "merge", "Create a merge commit"),
    ("allow_rebase", "rebase", "Rebase and fast-forward"),
    ("allow_rebase_explicit", "rebase-merge", "Rebase and create a merge commit"),
    ("allow_squash_merge", "squash", "Squash into one commit"),
    ("allow_fast_forward_only_merge", "fast-forward-only", "Fast-forward, without a new commit"),
];
/// The other switches of pull requests.
const SWITCHES: [(&str, &str); 4] = [
    ("default_delete_branch_after_merge", "Delete the head branch after a merge, unless the merge says otherwise"),
    ("allow_rebase_update", "A head branch can be rebased onto its base"),
    ("autodetect_manual_merge", "A push that brings the head into the base marks the pull request as merged"),
    ("allow_manual_merge", "A pull request can be marked as merged by a commit of the base"),
];

/// A repository with all settings that an administrator sees.
#[derive(Debug, Deserialize)]
struct Settings {
    external_tracker: Option<ExternalTracker>,
    external_wiki: Option<ExternalWiki>,
    mirror_info: Option<MirrorInfo>,
    original_url: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct ExternalTracker {
    external_tracker_url: String,
    external_tracker_format: String,
    external_tracker_style: String,
}

#[derive(Debug, Deserialize)]
struct ExternalWiki {
    external_wiki_url: String,
}

#[derive(Debug, Deserialize)]
struct MirrorInfo {
    last_sync_at: Option<Time>,
    next_sync_at: Option<Time>,
    #[serde(default)]
    last_error: String,
}

/// What only owners change.
struct Ownership {
    full_name: String,
    transfer: Option<Transfer>,
}

#[derive(Template)]
#[template(path = "repository_settings/general.html")]
struct General<'a> {
    repository: &'a Repository,
    token: FormToken,
    path: String,
    basics: &'a Fields,
    topics: &'a Fields,
    issues: &'a Fields,
    wiki: &'a Fields,
    pulls: &'a Fields,
    schedule: &'a Fields,
    transfer_form: &'a Fields,
    mirror: Option<MirrorInfo>,
    original_url: Option<String>,
    /// `None` for those who do not own it.
    ownership: Option<Ownership>,
}

impl Settings {
    /// The fields of all forms.
    fn fields(&self) -> Fields {
        let is_on = |name: &str| self.others.get(name) == Some(&Value::Bool(true));
        let mut fields = vec![
            ("issues", place(self.external_tracker.is_some(), is_on("has_issues"))),
            ("wiki", place(self.external_wiki.is_some(), is_on("has_wiki"))),
        ];
        if let Some(tracker) = &self.external_tracker {
            fields.push(("external_tracker_url", tracker.external_tracker_url.as_str()));
            fields.push(("tracker_url_format", tracker.external_tracker_format.as_str()));
            fields.push(("tracker_issue_style", tracker.external_tracker_style.as_str()));
        }
        if let Some(wiki) = &self.external_wiki {
            fields.push(("external_wiki_url", wiki.external_wiki_url.as_str()));
        }
        let fields = fields.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned()));
        fields.chain(fields_of(&self.others)).collect()
    }
}

impl General<'_> {
    fn styles(&self) -> [(&'static str, &'static str, &'static str); STYLES.len()] {
        STYLES
    }

    fn switches(&self) -> [(&'static str, &'static str); SWITCHES.len()] {
        SWITCHES
    }
}

/// Where issues or wiki are, as the word of a choice.
fn place(is_external: bool, is_own: bool) -> &'static str {
    match (is_external, is_own) {
        (true, _) => "external",
        (false, true) => "own",
        (false, false) => "off",
    }
}

pub(super) async fn show(visit: Visit) -> PageResult {
    let at = administered(visit).await?;
    page(&at, &Fields::default(), "").await
}

/// `typed` are the fields of the form that was sent.
async fn page(at: &RepositoryVisit, typed: &Fields, error: &str) -> PageResult {
    let api = at.repository.api();
    let (settings, ownership) = tokio::try_join!(at.visit.api.get::<Settings>(&api), ownership(at))?;
    let stored = settings.fields();
    let form = |action: &str| if typed.text("action") == action { typed } else { &stored };
    let content = General {
        repository: &at.repository,
        token: FormToken::of(&at.visit),
        path: Section::General.path(&at.repository.path()),
        basics: form("update"),
        topics: form("topics"),
        issues: form("issues"),
        wiki: form("wiki"),
        pulls: form("pulls"),
        schedule: form("mirror"),
        transfer_form: form("transfer"),
        mirror: settings.mirror_info,
        original_url: settings.original_url,
        ownership,
    };
    Section::General.page(at, &content, error)
}

async fn ownership(at: &RepositoryVisit) -> PageResult<Option<Ownership>> {
    if !is_owner(at).await? {
        return Ok(None);
    }
    let transfer = at.visit.api.find(&format!("{}/transfer", at.repository.api())).await?;
    Ok(Some(Ownership { full_name: at.repository.full_name(), transfer }))
}

/// Changes what one of the forms is about.
pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let at = administered(visit).await?;
    if let Some(mistake) = mistake(&fields, &at.repository.full_name()) {
        return page(&at, &fields, &mistake).await;
    }
    let (method, rest, body) = request(&fields).ok_or_else(|| ApiError::bad_request("the form has no action"))?;
    let path = format!("{}{rest}", at.repository.api());
    let made = match at.visit.api.change(method, &path, body).await {
        Ok(made) => made,
        Err(error) => return page(&at, &fields, &error.refusal()?).await,
    };
    // A new name, or that of a new owner who took the repository at once.
    let name = made["full_name"].as_str().map_or_else(|| at.repository.path(), |name| format!("/{name}"));
    let to = match fields.text("action") {
        "delete" => format!("/{}", at.repository.owner.login),
        "transfer" if name != at.repository.path() => name,
        "sync" => format!("{name}/settings?saved=sync"),
        _ => format!("{name}/settings?saved=1"),
    };
    Ok(at.visit.redirect(&to))
}

/// What is wrong with a form that the API would take, for no change or one that nobody meant.
fn mistake(fields: &Fields, full_name: &str) -> Option<String> {
    let is_empty = |name: &str| fields.text(name).trim().is_empty();
    match fields.text("action") {
        "update" if is_empty("name") => Some(missing("name")),
        "mirror" if is_empty("mirror_interval") => Some(missing("mirror_interval")),
        "transfer" | "delete" if fields.text("full_name").trim() != full_name => {
            Some(format!("Type {full_name} to confirm."))
        }
        _ => None,
    }
}

/// The change that a form asks for: the method, the path after that of the repository, and the body.
fn request(fields: &Fields) -> Option<(Method, &'static str, Option<Value>)> {
    let text = |name: &str| fields.text(name).trim();
    let change = match fields.text("action") {
        "update" => (
            Method::PATCH,
            "",
            Some(json!({
                "name": text("name"), "description": text("description"), "website": text("website"),
                "private": fields.is_checked("private"),
            })),
        ),
        "topics" => {
            let topics: Vec<_> = text("topics").split([' ', ',']).filter(|topic| !topic.is_empty()).collect();
            (Method::PUT, "/topics", Some(json!({ "topics": topics })))
        }
        "issues" => (Method::PATCH, "/issue-tracker", Some(issues(fields))),
        "wiki" => (Method::PATCH, "/wiki", Some(wiki(fields))),
        "pulls" => (Method::PATCH, "", Some(pulls(fields))),
        "mirror" => (Method::PATCH, "", Some(json!({"mirror_interval": text("mirror_interval")}))),
        "sync" => (Method::POST, "/mirror-sync", None),
        "archive" => (Method::PATCH, "", Some(json!({"archived": true}))),
        "unarchive" => (Method::PATCH, "", Some(json!({"archived": false}))),
        "transfer" => (Method::POST, "/transfer", Some(json!({"new_owner": text("new_owner")}))),
        "cancel_transfer" => (Method::DELETE, "/transfer", None),
        "delete" => (Method::DELETE, "", None),
        _ => return None,
    };
    Some(change)
}

fn issues(fields: &Fields) -> Value {
    let place = fields.text("issues");
    let is_external = place == "external";
    let mut body = json!({"enable_issues": place != "off", "enable_external_tracker": is_external});
    if is_external {
        for name in ["external_tracker_url", "tracker_url_format", "tracker_issue_style"] {
            body[name] = fields.text(name).trim().into();
        }
    }
    body
}

fn wiki(fields: &Fields) -> Value {
    let place = fields.text("wiki");
    let is_external = place == "external";
    let mut body = json!({"enable_wiki": place != "off", "enable_external_wiki": is_external});
    if is_external {
        body["external_wiki_url"] = fields.text("external_wiki_url").trim().into();
    }
    // The API does not say what it is, so it can be left as it is.
    if let is_public @ ("true" | "false") = fields.text("allow_public_wiki") {
        body["allow_public_wiki"] = (is_public == "true").into();
    }
    body
}

fn pulls(fields: &Fields) -> Value {
    let mut body = json!({"has_pull_requests": fields.is_checked("has_pull_requests")});
    // While pull requests are off, the form has no other settings, and they stay.
    if fields.is_checked("has_styles") {
        let styles = STYLES.iter().map(|(name, ..)| *name);
        for name in styles.chain(SWITCHES.iter().map(|(name, _)| *name)) {
            body[name] = fields.is_checked(name).into();
        }
        body["default_merge_style"] = fields.text("default_merge_style").into();
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn body(pairs: &[(&str, &str)]) -> Value {
        request(&fields(pairs)).expect("the action is known").2.expect("it has a body")
    }

    #[test]
    fn the_forms_show_what_the_repository_has() {
        let repository = json!({
            "name": "demo", "private": true, "fork": false, "topics": ["a", "b"], "has_issues": false, "has_wiki": true,
            "external_tracker": {
                "external_tracker_url": "https://t", "external_tracker_format": "https://t/{index}",
                "external_tracker_style": "numeric",
            },
            "mirror_info": {"interval": "8h0m0s"}, "mirror_interval": "8h0m0s", "owner": {"login": "ada"},
        });
        let shown = serde_json::from_value::<Settings>(repository).unwrap().fields();
        for (name, text) in [
            ("name", "demo"),
            ("topics", "a b"),
            ("issues", "external"),
            ("tracker_url_format", "https://t/{index}"),
            ("wiki", "own"),
            ("mirror_interval", "8h0m0s"),
        ] {
            assert_eq!(shown.text(name), text);
        }
        assert!(shown.is_checked("private") && !shown.is_checked("fork"));
    }

    #[test]
    fn settings_that_a_form_does_not_have_stay() {
        assert_eq!(body(&[("action", "pulls")]), json!({"has_pull_requests": false}));
        let on = [("action", "pulls"), ("has_pull_requests", "true"), ("has_styles", "true"), ("allow_rebase", "true")];
        let sent = body(&on);
        assert_eq!((&sent["allow_rebase"], &sent["allow_squash_merge"]), (&json!(true), &json!(false)));
        assert_eq!(
            body(&[("action", "wiki"), ("wiki", "off")]),
            json!({
                "enable_wiki": false, "enable_external_wiki": false,
            })
        );
        let sent = body(&[("action", "issues"), ("issues", "own"), ("external_tracker_url", "https://t")]);
        assert_eq!(sent, json!({"enable_issues": true, "enable_external_tracker": false}));
        assert_eq!(body(&[("action", "topics"), ("topics", "a, b  c")]), json!({"topics": ["a", "b", "c"]}));
    }

    #[test]
    fn what_cannot_be_undone_needs_the_name() {
        for action in ["transfer", "delete"] {
            assert!(mistake(&fields(&[("action", action), ("full_name", "ada/dem")]), "ada/demo").is_some());
            assert_eq!(mistake(&fields(&[("action", action), ("full_name", " ada/demo ")]), "ada/demo"), None);
        }
        assert!(request(&fields(&[("action", "erase")])).is_none());
    }
}
