//! The form that sends the deliveries of a period again.

use askama::Template;
use axum::http::{Method, StatusCode};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::view::Hook;
use super::{Head, HookTab, HooksForm, HooksVisit};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::{Content, with_status};

/// The period that the form offers ends now.
const USUAL_HOURS: i64 = 1;
/// The length of a time that a browser sends without seconds.
const MINUTE_CHARS: usize = "2026-01-02T03:04".len();

#[derive(Template)]
#[template(path = "hooks/replay.html")]
struct ReplayPage<'a> {
    head: Head<'a>,
    from: String,
    to: String,
    new_ids: bool,
    token: FormToken,
    message: Option<String>,
}

impl Content for ReplayPage<'_> {
    fn title(&self) -> String {
        "Replay deliveries".to_owned()
    }
}

/// Returns a time of a form, in UTC, as the API takes it. `seconds` completes one without seconds.
fn time(typed: &str, seconds: &str) -> String {
    let typed = typed.trim();
    match typed.len() {
        0 => String::new(),
        MINUTE_CHARS => format!("{typed}:{seconds}Z"),
        _ => format!("{typed}Z"),
    }
}

/// A period has all of its first and last minute.
fn body(fields: &Fields) -> Value {
    json!({
        "from": time(fields.text("from"), "00"),
        "to": time(fields.text("to"), "59"),
        "new_ids": fields.is_checked("new_ids"),
    })
}

pub(super) async fn show(at: HooksVisit) -> PageResult {
    let hook = at.hook().await?;
    let (now, minute) = (Utc::now(), |time: DateTime<Utc>| time.format("%Y-%m-%dT%H:%M").to_string());
    page(&at, &hook, [minute(now - TimeDelta::hours(USUAL_HOURS)), minute(now)], false, None)
}

pub(super) async fn send(HooksForm { at, fields }: HooksForm) -> PageResult {
    let id = at.id()?;
    match at.visit().api.change(Method::POST, &format!("{}/{id}/replay", at.api()), Some(body(&fields))).await {
        Ok(queued) => {
            let count = queued["count"].as_u64().unwrap_or_default();
            Ok(at.see(&format!("/{id}/deliveries?replayed={count}")))
        }
        Err(error) => {
            let message = error.mistake()?;
            let (hook, typed) = (at.hook().await?, ["from", "to"].map(|name| fields.text(name).to_owned()));
            page(&at, &hook, typed, fields.is_checked("new_ids"), Some(message))
        }
    }
}

fn page(at: &HooksVisit, hook: &Hook, [from, to]: [String; 2], new_ids: bool, message: Option<String>) -> PageResult {
    let status = if message.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let (head, token) = (at.head(hook, HookTab::Replay), FormToken::of(at.visit()));
    Ok(with_status(status, at.page(&ReplayPage { head, from, to, new_ids, token, message })?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_all_of_its_minutes() {
        for (typed, seconds, expected) in [
            ("2026-01-02T03:04", "00", "2026-01-02T03:04:00Z"),
            (" 2026-01-02T03:04 ", "59", "2026-01-02T03:04:59Z"),
            ("2026-01-02T03:04:05", "59", "2026-01-02T03:04:05Z"),
            ("", "59", ""),
            ("x", "59", "xZ"),
        ] {
            assert_eq!(time(typed, seconds), expected);
        }
    }
}
