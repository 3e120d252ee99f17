//! The forms for a new webhook and for changes of one.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::events::Choices;
use super::view::{ChatOption, Hook, Kind};
use super::{Head, HookTab, HooksForm, HooksVisit};
use crate::http::error::ApiError;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::{Content, with_status};

/// The branch filter that clears another: the API takes an empty one for none.
const ALL_BRANCHES: &str = "*";

#[derive(Template)]
#[template(path = "hooks/new.html")]
struct NewPage<'a> {
    hooks: String,
    kind: &'static Kind,
    draft: &'a Draft,
    choices: Choices,
    is_new: bool,
    token: FormToken,
    message: Option<String>,
}

#[derive(Template)]
#[template(path = "hooks/edit.html")]
struct EditPage<'a> {
    head: Head<'a>,
    draft: &'a Draft,
    choices: Choices,
    is_new: bool,
    can_change: bool,
    token: FormToken,
    message: Option<String>,
}

/// What is in the fields, except for secrets, which no page shows.
#[derive(Default)]
struct Draft {
    url: String,
    content_type: String,
    options: Vec<(&'static ChatOption, String)>,
    events: Vec<String>,
    branch_filter: String,
    authorization_header: String,
    active: bool,
}

impl Content for NewPage<'_> {
    fn title(&self) -> String {
        format!("New webhook: {}", self.kind.title)
    }
}

impl Content for EditPage<'_> {
    fn title(&self) -> String {
        "Settings of a webhook".to_owned()
    }
}

impl Draft {
    fn of_new(kind: &'static Kind) -> Self {
        Self {
            content_type: "json".to_owned(),
            options: kind.options.iter().map(|option| (option, String::new())).collect(),
            events: vec!["push".to_owned()],
            active: true,
            ..Self::default()
        }
    }

    fn of_hook(hook: &Hook) -> Self {
        let options = hook.kind().options.iter();
        Self {
            url: hook.url().to_owned(),
            content_type: hook.option("content_type").to_owned(),
            options: options.map(|option| (option, hook.option(option.name).to_owned())).collect(),
            events: hook.events.clone(),
            branch_filter: hook.branch_filter.clone(),
            authorization_header: hook.authorization_header.clone(),
            active: hook.active,
        }
    }

    /// `old` is the webhook that the form changes.
    fn of_fields(fields: &Fields, kind: &'static Kind, old: Option<&Hook>) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self {
            url: text("url"),
            content_type: text("content_type"),
            options: kind.options.iter().map(|option| (option, text(option.name))).collect(),
            events: fields.all("events").map(str::to_owned).collect(),
            branch_filter: text("branch_filter"),
            // What was typed has credentials.
            authorization_header: old.map(|hook| hook.authorization_header.clone()).unwrap_or_default(),
            active: fields.is_checked("active"),
        }
    }
}

/// The parts that the requests for a new webhook and for a change have in common.
fn common(fields: &Fields, kind: &Kind) -> PageResult<Value> {
    let events: Vec<_> = fields.all("events").collect();
    if events.is_empty() {
        // The API takes no events for those of before, or for `push`.
        return Err(ApiError::invalid_field("events", "required", "select at least one").into());
    }
    let names = ["url", "content_type"].into_iter().chain(kind.options.iter().map(|option| option.name));
    let option = |name: &str| (name.to_owned(), Value::from(fields.text(name).trim()));
    let mut config: Map<String, Value> = names.map(option).collect();
    let secret = fields.text("secret");
    if !secret.is_empty() {
        config.insert("secret".to_owned(), secret.into());
    }
    Ok(json!({"config": config, "events": events, "active": fields.is_checked("active")}))
}

fn new_hook(fields: &Fields, kind: &Kind) -> PageResult<Value> {
    let mut body = common(fields, kind)?;
    body["type"] = kind.word.into();
    body["branch_filter"] = fields.text("branch_filter").trim().into();
    body["authorization_header"] = fields.text("authorization_header").trim().into();
    Ok(body)
}

fn changed_hook(fields: &Fields, old: &Hook) -> PageResult<Value> {
    let mut body = common(fields, old.kind())?;
    body["branch_filter"] = match fields.text("branch_filter").trim() {
        "" if !old.branch_filter.is_empty() => ALL_BRANCHES.into(),
        filter => filter.into(),
    };
    let authorization = fields.text("authorization_header").trim();
    body["authorization_header"] = authorization.into();
    body["drop_authorization_header"] = (authorization.is_empty() && !old.authorization_header.is_empty()).into();
    body["drop_previous_secret"] = fields.is_checked("drop_previous_secret").into();
    if fields.is_checked("remove_secret") && fields.text("secret").is_empty() {
        body["config"]["secret"] = "".into();
    }
    Ok(body)
}

/// The type in the path of the form for a new webhook.
fn kind(at: &HooksVisit) -> PageResult<&'static Kind> {
    Kind::find(at.segment(0)).ok_or_else(PageError::not_found)
}

pub(super) async fn new(at: HooksVisit) -> PageResult {
    let kind = kind(&at)?;
    // Who may list webhooks may create them.
    at.visit().api.list::<IgnoredAny>(&format!("{}?limit=1", at.api())).await?;
    new_page(&at, kind, &Draft::of_new(kind), None)
}

pub(super) async fn create(HooksForm { at, fields }: HooksForm) -> PageResult {
    let kind = kind(&at)?;
    let made = match new_hook(&fields, kind) {
        Ok(body) => at.visit().api.change(Method::POST, &at.api(), Some(body)).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(made) => Ok(at.see(&format!("/{}/deliveries", made["id"].as_i64().unwrap_or_default()))),
        Err(error) => new_page(&at, kind, &Draft::of_fields(&fields, kind, None), Some(error.mistake()?)),
    }
}

pub(super) async fn edit(at: HooksVisit) -> PageResult {
    let hook = at.hook().await?;
    edit_page(&at, &hook, &Draft::of_hook(&hook), None)
}

pub(super) async fn save(HooksForm { at, fields }: HooksForm) -> PageResult {
    let hook = at.hook().await?;
    let changed = match changed_hook(&fields, &hook) {
        Ok(body) => at.visit().api.change(Method::PATCH, &format!("{}/{}", at.api(), hook.id), Some(body)).await,
        Err(error) => Err(error),
    };
    match changed {
        Ok(_) => Ok(at.see(&format!("/{}/deliveries", hook.id))),
        Err(error) => {
            let draft = Draft::of_fields(&fields, hook.kind(), Some(&hook));
            edit_page(&at, &hook, &draft, Some(error.mistake()?))
        }
    }
}

fn new_page(at: &HooksVisit, kind: &'static Kind, draft: &Draft, message: Option<String>) -> PageResult {
    let status = status(message.as_ref());
    let (choices, token) = (Choices::of(&draft.events), FormToken::of(at.visit()));
    let content = NewPage { hooks: at.hooks(), kind, draft, choices, is_new: true, token, message };
    Ok(with_status(status, at.page(&content)?))
}

fn edit_page(at: &HooksVisit, hook: &Hook, draft: &Draft, message: Option<String>) -> PageResult {
    let status = status(message.as_ref());
    let content = EditPage {
        head: at.head(hook, HookTab::Settings),
        draft,
        choices: Choices::of(&draft.events),
        is_new: false,
        can_change: at.can_change(),
        token: FormToken::of(at.visit()),
        message,
    };
    Ok(with_status(status, at.page(&content)?))
}

fn status(message: Option<&String>) -> StatusCode {
    if message.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(branch_filter: &str, authorization_header: &str) -> Hook {
        let hook = json!({
            "id": 3, "type": "slack", "config": {"url": "https://a:***@example.com", "content_type": "json"},
            "events": ["push"], "branch_filter": branch_filter, "authorization_header": authorization_header,
            "active": true,
        });
        serde_json::from_value(hook).unwrap()
    }

    fn fields(more: &str) -> Fields {
        Fields::parse(format!("url=+https://a.example+&content_type=json&events=push&{more}").as_bytes())
    }

    #[test]
    fn a_new_webhook_has_the_options_of_its_type_alone() {
        let typed = fields("channel=%23a&secret=+s+&events=issues&active=1");
        let expected = json!({
            "type": "dingtalk", "config": {"url": "https://a.example", "content_type": "json", "secret": " s "},
            "events": ["push", "issues"], "active": true, "branch_filter": "", "authorization_header": "",
        });
        assert_eq!(new_hook(&typed, Kind::find("dingtalk").unwrap()).unwrap(), expected);
        let slack = new_hook(&typed, Kind::find("slack").unwrap()).unwrap();
        assert_eq!((&slack["config"]["channel"], &slack["config"]["color"]), (&json!("#a"), &json!("")));
        assert_eq!(Draft::of_fields(&typed, Kind::find("slack").unwrap(), None).options[0].1, "#a");
    }

    #[test]
    fn a_form_without_events_is_a_mistake() {
        let none = Fields::default();
        assert_eq!(new_hook(&none, hook("", "").kind()).unwrap_err().message(), "`events`: select at least one");
    }

    #[test]
    fn an_empty_field_keeps_the_secret_and_removes_the_rest() {
        let body = changed_hook(&fields(""), &hook("main", "Bearer ***")).unwrap();
        assert!(body["config"].get("secret").is_none() && body.get("type").is_none(), "{body}");
        assert_eq!((&body["branch_filter"], &body["drop_authorization_header"]), (&json!("*"), &json!(true)));
        let body = changed_hook(&fields(""), &hook("", "")).unwrap();
        assert_eq!((&body["branch_filter"], &body["drop_authorization_header"]), (&json!(""), &json!(false)));
        let kept = fields("authorization_header=Bearer+***&remove_secret=1");
        let body = changed_hook(&kept, &hook("", "Bearer ***")).unwrap();
        assert_eq!((&body["authorization_header"], &body["config"]["secret"]), (&json!("Bearer ***"), &json!("")));
        let both = changed_hook(&fields("secret=new&remove_secret=1"), &hook("", "")).unwrap();
        assert_eq!((&both["config"]["secret"], &both["active"]), (&json!("new"), &json!(false)));
    }
}
