//! Limits what one user writes per hour: issues, comments, and the bytes of their texts.

use ferrite_proto::grant::Grant;
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::rate_limit::{HourlyLimit, RateExceeded};

use crate::error::IssueError;

/// Counted per write in addition to its text, for the rows of its changes and events.
const WRITE_BYTES: u64 = 512;

#[derive(Clone, Debug)]
pub(crate) struct WriteLimits {
    pub(crate) issues: HourlyLimit,
    pub(crate) comments: HourlyLimit,
    pub(crate) text_bytes: HourlyLimit,
}

impl WriteLimits {
    /// Counts an issue with a text of `bytes`.
    pub(crate) async fn count_issue(&self, grant: &Grant, bytes: usize) -> Result<(), IssueError> {
        count([(&self.issues, 1), (&self.text_bytes, write_bytes(bytes))], grant).await
    }

    /// Counts a comment with a text of `bytes`.
    pub(crate) async fn count_comment(&self, grant: &Grant, bytes: usize) -> Result<(), IssueError> {
        count([(&self.comments, 1), (&self.text_bytes, write_bytes(bytes))], grant).await
    }

    /// Counts another write with a text of `bytes`.
    pub(crate) async fn count_text(&self, grant: &Grant, bytes: usize) -> Result<(), IssueError> {
        count([(&self.text_bytes, write_bytes(bytes))], grant).await
    }
}

fn write_bytes(text: usize) -> u64 {
    text as u64 + WRITE_BYTES
}

async fn count<const N: usize>(amounts: [(&HourlyLimit, u64); N], grant: &Grant) -> Result<(), IssueError> {
    let user = grant.user_id().ok_or(AuthError::CredentialsRequired)?;
    let counted = HourlyLimit::count_all(amounts, user.0, grant.limits.rate_percent).await;
    counted.map_err(|RateExceeded { name, limit, retry_after }| {
        let what = if name == "text_bytes" { "bytes of text" } else { name };
        IssueError::HourlyLimit { what, limit, retry_after }
    })
}

#[cfg(test)]
mod tests {
    use ferrite_proto::Permission;
    use ferrite_proto::issue::CreateIssueRequest;
    use tonic::Code;

    use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

    fn issue(body: usize) -> CreateIssueRequest {
        CreateIssueRequest {
            repository_id: REPOSITORY,
            title: "Title".to_owned(),
            body: "x".repeat(body),
            ..CreateIssueRequest::default()
        }
    }

    #[tokio::test]
    async fn issues_and_their_texts_are_limited_per_user_and_hour() {
        on_each_url(|url| async move {
            let service = Service::start_with(&url, &["--issues-per-hour=3", "--text-bytes-per-hour=4000"]).await;
            let [ada, bob] = [7, 8].map(|id| TestCaller::user(id, Permission::Read));
            // A repeated request counts once, an invalid one never counts.
            for _ in 0..5 {
                service.create(&ada.with_key("k"), issue(10)).await.unwrap();
                service.create(&ada, CreateIssueRequest { title: String::new(), ..issue(10) }).await.unwrap_err();
            }
            for _ in 0..2 {
                service.create(&ada, issue(10)).await.unwrap();
            }
            let refused = service.create(&ada, issue(10)).await.unwrap_err();
            assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "HOURLY_LIMIT_REACHED"));
            assert_eq!(refused.message(), "limit reached: 3 issues per hour");

            service.create(&bob, issue(900)).await.unwrap();
            let refused = service.create(&bob, issue(3_000)).await.unwrap_err();
            assert_eq!(refused.message(), "limit reached: 4000 bytes of text per hour");
            service.create(&bob, issue(900)).await.expect("refused requests do not count");
            service.stop().await;
        })
        .await;
    }
}
