//! The audit log.

use std::collections::BTreeMap;

use askama::Template;
use ferrite_api_types::links::encode;
use serde::Deserialize;

use super::{AdministratorVisit, Part};
use crate::pages::components::{Listed, Pager, Time, page_number, parameter, with_parameter};
use crate::pages::error::PageResult;
use crate::pages::layout::Content;

const PAGE_SIZE: u64 = 50;
const FILTERS: [&str; 5] = ["actor", "target", "action", "since", "until"];

#[derive(Clone, Debug, Deserialize)]
struct Event {
    time: Time,
    actor: Actor,
    token_id: i64,
    action: String,
    target: Target,
    details: BTreeMap<String, String>,
    address: String,
    request_id: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Actor {
    username: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Target {
    kind: String,
    name: String,
}

/// What is in the fields of the filter.
#[derive(Default)]
struct Filter {
    actor: String,
    target: String,
    action: String,
    since: String,
    until: String,
}

#[derive(Template)]
#[template(path = "administration/audit.html")]
struct Log<'a> {
    here: &'a str,
    filter: Filter,
    is_filtered: bool,
    events: Vec<Event>,
    pager: Pager,
}

impl Content for Log<'_> {
    fn title(&self) -> String {
        "Audit log".to_owned()
    }
}

impl Filter {
    fn of(here: &str) -> Self {
        let text = |name| parameter(here, name).map(|text| text.trim().to_owned()).unwrap_or_default();
        Self {
            actor: text("actor"),
            target: text("target"),
            action: text("action"),
            since: text("since"),
            until: text("until"),
        }
    }

    /// The query of the API.
    fn query(&self) -> String {
        let values = [&self.actor, &self.target, &self.action, &time(&self.since), &time(&self.until)];
        FILTERS.iter().zip(values).map(|(name, value)| format!("{name}={}&", encode(value.as_bytes()))).collect()
    }

    fn is_active(&self) -> bool {
        [&self.actor, &self.target, &self.action, &self.since, &self.until].iter().any(|value| !value.is_empty())
    }
}

impl Log<'_> {
    /// The path of the log with one more filter, from its first page.
    fn with(&self, name: &str, value: &str) -> String {
        with_parameter(&with_parameter(self.here, name, value), "page", "")
    }
}

/// Returns the time of a field in UTC, as browsers write it, for the API.
fn time(text: &str) -> String {
    match text.len() {
        // 2026-01-02T03:04, and with seconds.
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        _ => text.to_owned(),
    }
}

pub(super) async fn list(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    let here = &visit.shell.here;
    let filter = Filter::of(here);
    let path = format!("admin/audit?{}page={}&limit={PAGE_SIZE}", filter.query(), page_number(here));
    let (listed, error) = match visit.api.list(&path).await {
        Ok(listed) => (listed, String::new()),
        Err(error) => (Listed { items: Vec::new(), total: Some(0) }, error.mistake()?),
    };
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let content = Log { here, is_filtered: filter.is_active(), filter, events: listed.items, pager };
    Part::Audit.page(&visit, &content, &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_sent_with_times_in_utc() {
        let filter = Filter::of("/-/admin/audit?actor=+ada&since=2026-01-02T03%3A04&until=now&page=2");
        let expected = "actor=ada&target=&action=&since=2026-01-02T03%3A04%3A00Z&until=now&";
        assert_eq!((filter.query().as_str(), filter.is_active()), (expected, true));
        assert!(!Filter::of("/-/admin/audit?actor=").is_active());
        assert_eq!(time("2026-01-02T03:04:05"), "2026-01-02T03:04:05Z");
    }
}
