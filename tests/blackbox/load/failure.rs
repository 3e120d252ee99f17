use std::process::Output;
use std::time::Duration;

use reqwest::RequestBuilder;

use crate::harness::Response;

/// Pause before a retry, if the response names none.
const REPEAT_PAUSE: Duration = Duration::from_millis(200);
/// Statuses that ask a client to retry.
const TEMPORARY: [u16; 5] = [409, 429, 502, 503, 504];

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    /// Whether a client can tell that it may retry: from an error that says so, or a broken
    /// connection.
    pub(crate) is_clear: bool,
    pub(crate) pause: Duration,
}

impl Failure {
    /// A failure that no client could understand.
    pub(crate) fn unclear(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_clear: false, pause: REPEAT_PAUSE }
    }

    /// A failure after which a client retries.
    pub(crate) fn temporary(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_clear: true, pause: REPEAT_PAUSE }
    }

    pub(crate) async fn or_response(request: RequestBuilder, statuses: &[u16]) -> Result<Response, Self> {
        let response = match Response::try_of(request).await {
            Ok(response) => response,
            Err(error) => return Err(Self::temporary(format!("broken: {error:?}"))),
        };
        let status = response.status.as_u16();
        if statuses.contains(&status) {
            return Ok(response);
        }
        let text = format!("{status}: {}", response.text().chars().take(200).collect::<String>());
        let has_message = serde_json::from_slice::<serde_json::Value>(&response.body)
            .is_ok_and(|body| body["message"].as_str().is_some_and(|text| !text.is_empty()));
        if !TEMPORARY.contains(&status) || !has_message {
            return Err(Self::unclear(text));
        }
        let seconds = response.header("retry-after").parse().ok();
        Err(Self { pause: seconds.map_or(REPEAT_PAUSE, Duration::from_secs), ..Self::temporary(text) })
    }

    /// Success of git, or its error output.
    pub(crate) fn or_output(output: &Output) -> Result<(), Self> {
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let text: String = text.lines().filter(|line| !line.starts_with("To ")).collect::<Vec<_>>().join(" / ");
        // git's messages for a missing repository, refused credentials and an internal error.
        let is_wrong = [
            "not found",
            "Authentication failed",
            "could not read Username",
            "error: 500",
            "error: 403",
            "non-fast-forward",
        ];
        if is_wrong.iter().any(|part| text.contains(part)) {
            return Err(Self::unclear(text));
        }
        Err(Self { pause: Duration::from_secs(1), ..Self::temporary(text) })
    }
}
