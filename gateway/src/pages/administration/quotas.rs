//! The limits of a user or an organization, and what they use of them.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::users::{UserHead, UserTab};
use super::{AdministratorForm, AdministratorVisit, Part, saved};
use crate::pages::components::Bytes;
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken, changes};
use crate::pages::layout::Content;
use crate::pages::visit::Visit;

/// What the API and the form call a limit that limits nothing.
const UNLIMITED: &str = "-1";

#[derive(Clone, Copy, Debug, Deserialize)]
struct Usage {
    used: i64,
    limit: Option<i64>,
    is_default: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Quota {
    repositories: Usage,
    organizations: Option<Usage>,
    bytes: Usage,
    rate_percent: Option<i64>,
}

/// A field of the form.
struct Limit {
    name: &'static str,
    title: &'static str,
    /// What is used, and of how much.
    state: String,
    /// Empty for the site's default.
    value: String,
}

#[derive(Template)]
#[template(path = "administration/quota.html")]
struct QuotaPage {
    /// `None` for an organization.
    head: Option<UserHead>,
    name: String,
    action: String,
    limits: Vec<Limit>,
    token: FormToken,
}

impl Content for QuotaPage {
    fn title(&self) -> String {
        format!("Limits of {}", self.name)
    }
}

impl Usage {
    fn value(self) -> String {
        match (self.is_default, self.limit) {
            (true, _) => String::new(),
            (false, None) => UNLIMITED.to_owned(),
            (false, Some(limit)) => limit.to_string(),
        }
    }

    fn state(self, show: fn(i64) -> String) -> String {
        let used = show(self.used);
        match self.limit {
            Some(limit) => format!("{used} of {} are used.", show(limit)),
            None => format!("{used} are used. There is no limit."),
        }
    }
}

impl Limit {
    fn of(name: &'static str, title: &'static str, usage: Usage, show: fn(i64) -> String) -> Self {
        Self { name, title, state: usage.state(show), value: usage.value() }
    }
}

fn number(number: i64) -> String {
    number.to_string()
}

fn bytes(bytes: i64) -> String {
    Bytes(u64::try_from(bytes).unwrap_or_default()).to_string()
}

impl Quota {
    fn limits(self) -> Vec<Limit> {
        let rate = Limit {
            name: "rate_percent",
            title: "Requests that change something, in percent of the site's hourly limits",
            state: String::new(),
            value: self.rate_percent.map(number).unwrap_or_default(),
        };
        let title = "Organizations that the user creates";
        let organizations = self.organizations.map(|usage| Limit::of("organizations", title, usage, number));
        [Limit::of("repositories", "Repositories", self.repositories, number)]
            .into_iter()
            .chain(organizations)
            .chain([Limit::of("bytes", "Bytes of all repositories together", self.bytes, bytes), rate])
            .collect()
    }
}

/// The request that has these limits: null for the site's default. The API refuses other texts than
/// numbers.
fn request<'a>(limits: impl Iterator<Item = (&'static str, &'a str)>) -> Value {
    let value = |text: &str| match text.trim() {
        "" => Value::Null,
        text => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
    };
    limits.map(|(name, text)| (name.to_owned(), value(text))).collect::<Map<_, _>>().into()
}

/// Whose limits the page has: a part of the administration, and a name.
fn owner(visit: &Visit) -> (Part, String) {
    let part = if visit.segment(2) == Part::Users.word() { Part::Users } else { Part::Organizations };
    (part, visit.name(3))
}

fn api(visit: &Visit) -> String {
    format!("admin/users/{}/quota", visit.segment(3))
}

async fn read(visit: &Visit) -> PageResult<Vec<Limit>> {
    let (part, quota) = (owner(visit).0, visit.api.get::<Quota>(&api(visit)).await?);
    let organizations = quota.organizations.filter(|_| part == Part::Users);
    Ok(Quota { organizations, ..quota }.limits())
}

pub(super) async fn show(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    let limits = read(&visit).await?;
    page(&visit, limits, "")
}

fn page(visit: &Visit, limits: Vec<Limit>, error: &str) -> PageResult {
    let (part, name) = owner(visit);
    let head = (part == Part::Users).then(|| UserHead::new(&name, UserTab::Quota));
    let action = format!("{}/{}/quota", part.path(), visit.segment(3));
    part.page(visit, &QuotaPage { head, name, action, limits, token: FormToken::of(visit) }, error)
}

pub(super) async fn save(AdministratorForm { visit, fields }: AdministratorForm) -> PageResult {
    let limits = read(&visit).await?;
    let old = request(limits.iter().map(|limit| (limit.name, limit.value.as_str())));
    let new = request(limits.iter().map(|limit| (limit.name, fields.text(limit.name))));
    match visit.api.change(Method::PATCH, &api(&visit), Some(changes(new, &old))).await {
        Ok(_) => {
            let (part, _) = owner(&visit);
            Ok(saved(&visit, &format!("{}/{}/quota", part.path(), visit.segment(3))))
        }
        Err(error) => page(&visit, typed(limits, &fields), &error.mistake()?),
    }
}

fn typed(limits: Vec<Limit>, fields: &Fields) -> Vec<Limit> {
    limits.into_iter().map(|limit| Limit { value: fields.text(limit.name).to_owned(), ..limit }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_field_is_the_default_and_minus_one_no_limit() {
        let sent = request([("repositories", ""), ("bytes", " -1 "), ("rate_percent", "x")].into_iter());
        assert_eq!(sent, json!({"repositories": null, "bytes": -1, "rate_percent": "x"}));
        let usage = |limit, is_default| Usage { used: 2048, limit, is_default };
        let fields = [usage(Some(5), true), usage(Some(5), false), usage(None, false), usage(None, true)];
        assert_eq!(fields.map(Usage::value), ["", "5", "-1", ""]);
        let quota = Quota {
            repositories: usage(None, true),
            organizations: None,
            bytes: usage(Some(1 << 20), false),
            rate_percent: None,
        };
        let limits = quota.limits();
        let states: Vec<_> = limits.iter().map(|limit| limit.state.as_str()).collect();
        assert_eq!(states, ["2048 are used. There is no limit.", "2.0 KiB of 1.0 MiB are used.", ""]);
    }
}
