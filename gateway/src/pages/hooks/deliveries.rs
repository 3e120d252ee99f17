//! The deliveries of a webhook: the log, one delivery with its attempts, tests and redeliveries.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode;

use super::view::{Attempt, Delivery, DeliveryWithAttempts, Status};
use super::{Head, HookTab, HooksForm, HooksVisit, events};
use crate::pages::components::{Count, Pager, page_number, parameter};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::FormToken;
use crate::pages::layout::Content;

const PAGE_SIZE: u64 = 30;

#[derive(Template)]
#[template(path = "hooks/deliveries.html")]
struct LogPage<'a> {
    head: Head<'a>,
    deliveries: Vec<Delivery>,
    status: String,
    event: String,
    /// How many deliveries a replay has just queued.
    replayed: Option<String>,
    pager: Pager,
    token: FormToken,
}

#[derive(Template)]
#[template(path = "hooks/delivery.html")]
struct DeliveryPage<'a> {
    head: Head<'a>,
    delivery: &'a Delivery,
    log: &'a [Attempt],
    /// The one that is shown; `None` before the first.
    attempt: Option<&'a Attempt>,
    token: FormToken,
}

impl Content for LogPage<'_> {
    fn title(&self) -> String {
        "Deliveries".to_owned()
    }
}

impl Content for DeliveryPage<'_> {
    fn title(&self) -> String {
        format!("Delivery of {}", self.delivery.event)
    }
}

impl LogPage<'_> {
    fn is_filtered(&self) -> bool {
        !self.status.is_empty() || !self.event.is_empty()
    }

    /// The names of events to choose from, with that which is chosen.
    fn events(&self) -> impl Iterator<Item = (&'static str, bool)> {
        events::sent().map(move |name| (name, name == self.event))
    }

    fn statuses(&self) -> [(Status, bool); Status::ALL.len()] {
        Status::ALL.map(|status| (status, status.word() == self.status))
    }
}

impl DeliveryPage<'_> {
    fn is_shown(&self, attempt: &Attempt) -> bool {
        self.attempt.is_some_and(|shown| shown.number == attempt.number)
    }
}

pub(super) async fn list(at: HooksVisit) -> PageResult {
    let here = &at.visit().shell.here;
    let filter = |name| parameter(here, name).unwrap_or_default();
    let (status, event) = (filter("status"), filter("event"));
    let mut path = format!("{}/{}/deliveries?page={}&limit={PAGE_SIZE}", at.api(), at.id()?, page_number(here));
    for (name, value) in [("status", &status), ("event", &event)].into_iter().filter(|(_, value)| !value.is_empty()) {
        path = format!("{path}&{name}={}", encode(value.as_bytes()));
    }
    let (hook, listed) = tokio::try_join!(at.hook(), at.visit().api.list::<Delivery>(&path))?;
    let replayed: Option<u64> = parameter(here, "replayed").and_then(|count| count.parse().ok());
    at.page(&LogPage {
        head: at.head(&hook, HookTab::Deliveries),
        status,
        event,
        replayed: replayed.map(|count| Count(count, "delivery").to_string()),
        pager: Pager::of(here, PAGE_SIZE, &listed),
        deliveries: listed.items,
        token: FormToken::of(at.visit()),
    })
}

/// Sends a test.
pub(super) async fn test(HooksForm { at, .. }: HooksForm) -> PageResult {
    let id = at.id()?;
    let queued = at.visit().api.change(Method::POST, &format!("{}/{id}/test", at.api()), None).await?;
    Ok(at.see(&format!("/{id}/deliveries/{}", queued["id"].as_str().unwrap_or_default())))
}

pub(super) async fn show(at: HooksVisit) -> PageResult {
    let path = api_path(&at)?;
    let (hook, read) = tokio::try_join!(at.hook(), at.visit().api.get::<DeliveryWithAttempts>(&path))?;
    let DeliveryWithAttempts { delivery, log } = read;
    let number: Option<u64> = parameter(&at.visit().shell.here, "attempt").and_then(|number| number.parse().ok());
    let chosen = number.and_then(|number| log.iter().find(|attempt| attempt.number == number));
    at.page(&DeliveryPage {
        head: at.head(&hook, HookTab::Deliveries),
        delivery: &delivery,
        attempt: chosen.or(log.last()),
        log: &log,
        token: FormToken::of(at.visit()),
    })
}

pub(super) async fn redeliver(HooksForm { at, .. }: HooksForm) -> PageResult {
    let (id, delivery) = (at.id()?, at.segment(2));
    at.visit().api.change(Method::POST, &format!("{}/redeliver", api_path(&at)?), None).await?;
    Ok(at.see(&format!("/{id}/deliveries/{delivery}")))
}

/// The path of the delivery in the API.
fn api_path(at: &HooksVisit) -> PageResult<String> {
    match at.segment(2) {
        "" => Err(PageError::not_found()),
        delivery => Ok(format!("{}/{}/deliveries/{delivery}", at.api(), at.id()?)),
    }
}
