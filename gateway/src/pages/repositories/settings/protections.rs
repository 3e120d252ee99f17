//! The forms of the rules that protect branches.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::{encode, encode_path};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{Section, administered, fields_of};
use crate::http::error::ApiError;
use crate::pages::components::{Count, parameter};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::visit::Visit;

/// Rules of a repository, at most.
pub(super) const MAX_RULES: u64 = 50;
/// Lists of users, each with the switch that makes it count.
const USER_LISTS: [(&str, &str); 3] = [
    ("push_users", "enable_push_whitelist"),
    ("merge_whitelist_usernames", "enable_merge_whitelist"),
    ("approvals_whitelist_username", "enable_approvals_whitelist"),
];
const PUSH_SWITCHES: [(&str, &str); 3] = [
    ("enable_push", "Pushes are allowed. Without them, all changes need a pull request"),
    ("allow_force", "Force pushes are allowed"),
    ("allow_delete", "The branch can be deleted"),
];
const MERGE_SWITCHES: [(&str, &str); 5] = [
    ("block_on_outdated_branch", "The head must have all commits of the branch"),
    ("block_on_rejected_reviews", "A review that requests changes blocks the merge"),
    ("block_on_official_review_requests", "An open request for a review blocks the merge"),
    ("dismiss_stale_approvals", "A push to the head dismisses its approvals"),
    ("ignore_stale_approvals", "Approvals of earlier heads do not count"),
];
const CHECK_SWITCH: &str = "enable_status_check";
const CONTEXTS: &str = "status_check_contexts";

/// A rule.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Rule {
    pub(super) pattern: String,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

#[derive(Template)]
#[template(path = "repository_settings/protection.html")]
struct EditPage<'a> {
    token: FormToken,
    /// The path of the list.
    path: String,
    /// The pattern of the rule that is changed; empty for a new one.
    rule_name: &'a str,
    fields: &'a Fields,
}

#[derive(Template)]
#[template(path = "repository_settings/protection_delete.html")]
struct DeletePage<'a> {
    token: FormToken,
    path: String,
    rule_name: &'a str,
}

impl Rule {
    /// The pattern, encoded for a query.
    pub(super) fn parameter(&self) -> String {
        encode(self.pattern.as_bytes())
    }

    /// What it says, in a line.
    pub(super) fn summary(&self) -> String {
        let fields = self.fields();
        let users = |name: &str| fields.text(name).replace(' ', ", ");
        let only =
            |name: &str, may: &str| Some(format!("only {} {may}", users(name))).filter(|_| fields.is_checked(name));
        let says = |name: &str, text: &str| fields.is_checked(name).then(|| text.to_owned());
        let pushes = match fields.is_checked("enable_push") {
            true => only("push_users", "can push").unwrap_or_else(|| "writers can push".to_owned()),
            false => "nobody can push".to_owned(),
        };
        let approvals = fields.number("required_approvals").and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        let others = [
            says("allow_force", "force pushes are allowed"),
            says("allow_delete", "deletion is allowed"),
            (approvals > 0).then(|| format!("merges need {}", Count(approvals, "approval"))),
            only("merge_whitelist_usernames", "can merge"),
            says(CHECK_SWITCH, "checks must succeed"),
        ];
        [Some(pushes)].into_iter().chain(others).flatten().collect::<Vec<_>>().join("; ")
    }

    /// The fields of its form.
    fn fields(&self) -> Fields {
        let lines = self.settings.get(CONTEXTS).and_then(Value::as_array).into_iter().flatten();
        let lines: Vec<_> = lines.filter_map(Value::as_str).collect();
        let contexts = (CONTEXTS.to_owned(), lines.join("\n"));
        [contexts].into_iter().chain(fields_of(&self.settings)).collect()
    }
}

impl EditPage<'_> {
    fn push_switches(&self) -> [(&'static str, &'static str); PUSH_SWITCHES.len()] {
        PUSH_SWITCHES
    }

    fn merge_switches(&self) -> [(&'static str, &'static str); MERGE_SWITCHES.len()] {
        MERGE_SWITCHES
    }
}

/// The form of the rule that the query names, or of a new one.
pub(super) async fn show(visit: Visit) -> PageResult {
    let at = writable(visit).await?;
    let name = parameter(&at.visit.shell.here, "rule_name").unwrap_or_default();
    let fields: Fields = match name.as_str() {
        "" => [("enable_push", "true"), ("required_approvals", "0")]
            .into_iter()
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .collect(),
        name => read(&at, name).await?.fields(),
    };
    page(&at, &name, &fields, "")
}

/// Reads the repository, unless it is one whose rules nobody can change.
async fn writable(visit: Visit) -> PageResult<RepositoryVisit> {
    let at = administered(visit).await?;
    if at.repository.can_write() { Ok(at) } else { Err(PageError::not_found()) }
}

fn api_path(at: &RepositoryVisit, pattern: &str) -> String {
    format!("{}/branch_protections/{}", at.repository.api(), encode_path(pattern.as_bytes()))
}

async fn read(at: &RepositoryVisit, pattern: &str) -> PageResult<Rule> {
    at.visit.api.get(&api_path(at, pattern)).await
}

fn page(at: &RepositoryVisit, rule_name: &str, fields: &Fields, error: &str) -> PageResult {
    let (token, path) = (FormToken::of(&at.visit), Section::Branches.path(&at.repository.path()));
    Section::Branches.page(at, &EditPage { token, path, rule_name, fields }, error)
}

/// Creates or changes a rule.
pub(super) async fn save(Form { visit, fields }: Form) -> PageResult {
    let at = writable(visit).await?;
    let changed = match fields.text("rule_name") {
        "" => create(&at, &fields).await,
        name => {
            let stored = read(&at, name).await?.fields();
            at.visit.api.change(Method::PATCH, &api_path(&at, name), Some(body(&fields, &stored))).await
        }
    };
    match changed {
        Ok(_) => Ok(Section::Branches.saved(&at)),
        Err(error) => page(&at, fields.text("rule_name"), &fields, &error.refusal()?),
    }
}

async fn create(at: &RepositoryVisit, fields: &Fields) -> PageResult<Value> {
    let pattern = fields.text("pattern").trim();
    // The API would replace the rule.
    if !pattern.is_empty() && at.visit.api.find::<IgnoredAny>(&api_path(at, pattern)).await?.is_some() {
        return Err(ApiError::invalid_field("pattern", "taken", "has a rule already").into());
    }
    let mut body = body(fields, &Fields::default());
    body["pattern"] = pattern.into();
    at.visit.api.change(Method::POST, &format!("{}/branch_protections", at.repository.api()), Some(body)).await
}

/// The request for a rule. `stored` is what it was.
fn body(fields: &Fields, stored: &Fields) -> Value {
    let contexts: Vec<_> = fields.text(CONTEXTS).lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut body = json!({CONTEXTS: contexts, CHECK_SWITCH: fields.is_checked(CHECK_SWITCH)});
    for (name, _) in PUSH_SWITCHES.iter().chain(&MERGE_SWITCHES) {
        body[*name] = fields.is_checked(name).into();
    }
    body["required_approvals"] = match (fields.number("required_approvals"), fields.text("required_approvals").trim()) {
        (Some(count), _) => count.into(),
        (None, "") => 0.into(),
        // The API says what is wrong.
        (None, text) => text.into(),
    };
    for (list, switch) in USER_LISTS {
        let names = names(fields.text(list));
        // A list that stays is not sent: it can have a deleted user, whom the API would not take.
        if names != self::names(stored.text(list)) {
            body[switch] = (!names.is_empty()).into();
            body[list] = names.into();
        }
    }
    body
}

fn names(text: &str) -> Vec<&str> {
    text.split([' ', ',', '\n']).filter(|name| !name.is_empty()).collect()
}

/// Asks whether to delete the rule of the query.
pub(super) async fn ask_to_delete(visit: Visit) -> PageResult {
    let at = writable(visit).await?;
    let name = parameter(&at.visit.shell.here, "rule_name").unwrap_or_default();
    read(&at, &name).await?;
    deletion(&at, &name, "")
}

pub(super) async fn delete(Form { visit, fields }: Form) -> PageResult {
    let at = writable(visit).await?;
    let name = fields.text("rule_name");
    match at.visit.api.change(Method::DELETE, &api_path(&at, name), None).await {
        Ok(_) => Ok(Section::Branches.saved(&at)),
        Err(error) => deletion(&at, name, &error.refusal()?),
    }
}

fn deletion(at: &RepositoryVisit, rule_name: &str, error: &str) -> PageResult {
    let (token, path) = (FormToken::of(&at.visit), Section::Branches.path(&at.repository.path()));
    Section::Branches.page(at, &DeletePage { token, path, rule_name }, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(settings: &Value) -> Rule {
        let mut rule = json!({"pattern": "main", "enable_push": true});
        rule.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        serde_json::from_value(rule).unwrap()
    }

    #[test]
    fn a_form_that_is_sent_as_it_was_changes_nothing() {
        let stored = rule(&json!({
            "push_users": ["ada", "ghost"], "enable_push_whitelist": true, "merge_whitelist_usernames": [],
            "status_check_contexts": ["ci / build", "lint"], "required_approvals": 2, "allow_force": false,
        }));
        let sent = body(&stored.fields(), &stored.fields());
        assert_eq!(sent["status_check_contexts"], json!(["ci / build", "lint"]));
        assert_eq!((&sent["required_approvals"], &sent["enable_push"]), (&json!(2), &json!(true)));
        assert_eq!(sent["allow_force"], false);
        for (list, switch) in USER_LISTS {
            assert!(sent.get(list).is_none() && sent.get(switch).is_none(), "{list}");
        }
    }

    #[test]
    fn an_emptied_list_is_switched_off() {
        let stored = rule(&json!({"push_users": ["ada"], "merge_whitelist_usernames": ["ada"]})).fields();
        let fields = [("push_users", " "), ("merge_whitelist_usernames", "ada, bob"), ("required_approvals", "x")];
        let fields = fields.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        let sent = body(&fields, &stored);
        assert_eq!((&sent["push_users"], &sent["enable_push_whitelist"]), (&json!([]), &json!(false)));
        assert_eq!(sent["merge_whitelist_usernames"], json!(["ada", "bob"]));
        assert_eq!((&sent["enable_merge_whitelist"], &sent["required_approvals"]), (&json!(true), &json!("x")));
    }

    #[test]
    fn a_summary_says_who_can_do_what() {
        let settings = json!({"push_users": ["ada", "bob"], "required_approvals": 1, "allow_force": true});
        let expected = "only ada, bob can push; force pushes are allowed; merges need 1 approval";
        assert_eq!(rule(&settings).summary(), expected);
        assert_eq!(rule(&json!({"enable_push": false, "allow_delete": false})).summary(), "nobody can push");
    }
}
