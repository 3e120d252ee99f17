//! One delivery attempt: renders the payload in the hook's format, sends the request, and decides
//! what happens next.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ferrite_core::telemetry;
use ferrite_db::DbError;
use ferrite_outbound::{BodyEnd, Limits, OutboundUrl, Request, Response, SendError};
use http::Method;
use tokio::time::timeout;
use tracing::Instrument;

use super::Sender;
use super::message::{Envelope, Message, logged_request_headers, logged_response_headers};
use super::schedule::{Facts, HookState, effect, retry_after};
use super::sent_secrets::SentSecrets;
use crate::error::HookError;
use crate::payload::{delivery_text, event_type_of};
use crate::store::StoredHook;
use crate::store::attempts::{Attempt, MAX_KEPT_BODY_BYTES};
use crate::store::claims::{Claim, Head};
use crate::store::deliveries::{self, StoredPayload};
use crate::store::outcomes::Settlement;

/// How long a large delivery waits for one of [`super::MAX_LARGE_SENDS`] slots.
const LARGE_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Why this process, not the receiver, kept a delivery from being attempted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error("database error")]
    Store(#[from] DbError),
    #[error("too many large deliveries at once")]
    Busy,
}

/// The request as it was sent, with the response or the error.
struct Exchange {
    headers: String,
    body: Option<Bytes>,
    result: Result<Response, String>,
    is_silent: bool,
    secrets: SentSecrets,
}

impl Exchange {
    /// A delivery that failed before it was sent, because of the hook or the event.
    fn unsent(error: &str) -> Self {
        let (headers, result) = ("[]".to_owned(), Err(error.to_owned()));
        Self { headers, body: None, result, is_silent: false, secrets: SentSecrets::default() }
    }
}

impl Sender {
    /// Sends a delivery to a hook. The returned settlement does not extend the lease.
    pub(super) async fn attempt(&self, claim: &Claim, head: &Head, hook: &StoredHook) -> Result<Settlement, Fault> {
        let (started, started_us) = (Instant::now(), self.0.clock.now_us());
        let exchange = self.exchange(head, hook).await?;
        self.0.in_flight.set_silent(hook.id, exchange.is_silent);

        let now_us = self.0.clock.now_us();
        let response = exchange.result.as_ref().ok();
        let facts = Facts {
            status: response.map(|response| response.status.as_u16()),
            retry_after: response
                .and_then(|response| response.headers.get("retry-after")?.to_str().ok())
                .and_then(|value| retry_after(value, now_us)),
            failures: head.failures,
            is_alone: claim.queue.delivery_id != 0,
            now_us,
        };
        let state = HookState {
            is_paused: hook.paused_reason.is_some(),
            failing_since_us: hook.failing_since_us,
            updated_us: hook.updated_us,
            is_test: claim.queue.is_test(),
        };
        let outcome = self.0.settings.hook_retry_seconds.outcome(&facts, rand::random_range(-1.0..=1.0));
        let label = if facts.is_success() { "success" } else { "failure" };
        metrics::counter!("ferrite_hook_attempts_total", "outcome" => label).increment(1);
        metrics::histogram!("ferrite_hook_attempt_duration_seconds").record(started.elapsed());
        tracing::debug!(hook.id = hook.id.0, attempt = head.attempts + 1, ?facts.status, ?outcome, "sent a delivery");
        let body = exchange.body.as_deref();
        let kept = |body: &[u8]| body[..body.len().min(MAX_KEPT_BODY_BYTES)].to_vec();
        let attempt = Attempt {
            number: head.attempts + 1,
            started_us,
            duration_ms: i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX),
            shown_url: hook.shown_url.clone(),
            request_headers: exchange.headers,
            request_body: body.map(kept),
            is_request_cut: body.is_some_and(|body| body.len() > MAX_KEPT_BODY_BYTES),
            response_status: response.map(|response| i64::from(response.status.as_u16())),
            response_headers: response.map(|response| logged_response_headers(&response.headers, &exchange.secrets)),
            response_body: response.map(|response| kept(&exchange.secrets.hide(&response.body))),
            is_response_cut: response.is_some_and(Response::is_body_cut),
            error: exchange.result.as_ref().err().cloned(),
        };
        Ok(Settlement { outcome, effect: effect(&facts, &state), attempt, lease_until_us: None, now_us })
    }

    async fn exchange(&self, head: &Head, hook: &StoredHook) -> Result<Exchange, Fault> {
        let Some(mut stored) = deliveries::payload(&self.0.db, head.event_id).await? else {
            return Ok(Exchange::unsent("the event was deleted"));
        };
        let mut _large = None;
        if stored.is_large() {
            let permit = timeout(LARGE_SEND_TIMEOUT, self.0.large_sends.acquire()).await;
            _large = Some(permit.map_err(|_| Fault::Busy)?.map_err(|_| Fault::Busy)?);
            stored.payload = deliveries::large_payload(&self.0.db, head.event_id).await?;
        }
        let StoredPayload { event, payload, trace_parent, .. } = stored;
        let Some(payload) = payload else { return Ok(Exchange::unsent("the event has no payload")) };
        let sealer = self.0.hooks.sealer();
        let now_us = self.0.clock.now_us();
        let (Ok(url), Ok(secret), Ok(previous), Ok(authorization)) =
            (hook.url(sealer), hook.secret(sealer), hook.previous_secret(sealer, now_us), hook.authorization(sealer))
        else {
            return Ok(Exchange::unsent("cannot unseal the URL or secrets of the webhook"));
        };
        let url = match OutboundUrl::parse(url.expose(), self.0.client.policy()) {
            Ok(url) => url,
            Err(refusal) => return Ok(Exchange::unsent(&refusal.to_string())),
        };
        let secrets: Vec<_> = secret.into_iter().chain(previous).collect();
        let envelope = Envelope {
            event: &event,
            event_type: event_type_of(&event, &payload),
            uuid: &head.uuid,
            attempt: head.attempts + 1,
            now_secs: self.0.clock.now_secs(),
            content_type: hook.content_type,
            secrets: &secrets,
            authorization: authorization.as_ref(),
        };
        let text = match delivery_text(hook.kind.format(), &hook.options, &event, &payload) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, event.id = head.event_id, "cannot render the payload of a delivery");
                return Ok(Exchange::unsent("cannot render the payload"));
            }
        };
        drop(payload);
        let Ok(message) = envelope.message(text) else {
            return Ok(Exchange::unsent("cannot build the request headers"));
        };
        let secrets = SentSecrets::of(&url, authorization.as_ref());
        Ok(self.send(&url, message, secrets, trace_parent.as_deref().unwrap_or_default()).await)
    }

    /// Sends a request. Continues the trace of the request that caused the event, if it was
    /// sampled.
    async fn send(
        &self,
        url: &OutboundUrl,
        mut message: Message,
        secrets: SentSecrets,
        trace_parent: &str,
    ) -> Exchange {
        let span = telemetry::continued_span("webhook delivery", "client", trace_parent);
        let trace_parent = span.in_scope(telemetry::trace_parent);
        if !trace_parent.is_empty() && message.headers.set("traceparent", &trace_parent).is_err() {
            tracing::debug!("sending a delivery without its trace context");
        }
        let logged_headers = logged_request_headers(&message.headers);
        let Message { headers, body } = message;
        let request = Request { url, method: Method::POST, headers, body: body.clone(), limits: Limits::default() };
        let result = self.0.client.send(request).instrument(span).await;
        let is_silent = match &result {
            Ok(response) => response.body_end == BodyEnd::TimedOut,
            Err(error) => matches!(error, SendError::TimedOut | SendError::ConnectTimedOut),
        };
        let result = result.map_err(|error| error.to_string());
        Exchange { headers: logged_headers, body: Some(body), result, is_silent, secrets }
    }
}
