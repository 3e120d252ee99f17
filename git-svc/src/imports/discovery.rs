//! Finds out what a remote is and which refs it has. Takes two small requests and no process, so
//! syncing an unchanged mirror is cheap, and addresses without a repository are recognized.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use ferrite_outbound::{BodyEnd, Client, Headers, Limits, OutboundUrl, Request, Response};
use git_store::git::pktline::Packet;
use http::{Method, StatusCode, header};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};

use super::{
    advertisement::{Advertisement, MAX_REMOTE_REFS, RemoteRefs, parse_advertisement, parse_refs},
    error::FetchError,
    meter::{Budget, Metered},
    options::Protocols,
    remote::{Remote, Transport},
};

const MAX_ANSWER_BYTES: usize = 32 << 20;
const MAX_REDIRECTS: usize = 5;
/// Path and query of the first request.
const INFO_REFS: &str = "/info/refs?service=git-upload-pack";
const ADVERTISEMENT_TYPE: &str = "application/x-git-upload-pack-advertisement";
const REQUEST_TYPE: &str = "application/x-git-upload-pack-request";
const RESULT_TYPE: &str = "application/x-git-upload-pack-result";
const USER_AGENT: &str = concat!("git/ferrite-", env!("CARGO_PKG_VERSION"));

#[derive(Clone)]
pub(super) struct Discovery {
    pub(super) client: Client,
    pub(super) protocols: Protocols,
    pub(super) timeout: Duration,
}

impl Discovery {
    /// Returns the refs of a remote, and the remote they came from, which differs after a redirect.
    pub(super) async fn discover(&self, remote: &Remote) -> Result<(Remote, RemoteRefs), FetchError> {
        match remote.transport {
            Transport::Git => Ok((remote.clone(), self.over_git(remote).await?)),
            Transport::Http | Transport::Https => self.over_http(remote.clone()).await,
        }
    }

    async fn over_http(&self, mut remote: Remote) -> Result<(Remote, RemoteRefs), FetchError> {
        let policy = self.client.policy();
        for _ in 0..=MAX_REDIRECTS {
            let url = remote.endpoint(INFO_REFS, policy)?;
            let response = self.send(&remote, &url, Method::GET, Bytes::new()).await?;
            if let Some(base) = redirect(&url, &response)? {
                remote = remote.redirected(&base, policy, self.protocols)?;
                continue;
            }
            let body = checked_body(&response, ADVERTISEMENT_TYPE)?;
            let refs = match parse_advertisement(body)? {
                Advertisement::Refs(refs) => refs,
                Advertisement::Version2 { request } => {
                    let url = remote.endpoint("/git-upload-pack", policy)?;
                    let response = self.send(&remote, &url, Method::POST, request.into()).await?;
                    parse_refs(checked_body(&response, RESULT_TYPE)?)?
                }
            };
            return Ok((remote, refs));
        }
        Err(FetchError::NotSmart)
    }

    async fn send(
        &self,
        remote: &Remote,
        url: &OutboundUrl,
        method: Method,
        body: Bytes,
    ) -> Result<Response, FetchError> {
        let mut headers = Headers::new();
        let mut set = |name: &str, value: &str| headers.set(name, value).map_err(|_| FetchError::Credentials);
        set("User-Agent", USER_AGENT)?;
        set("Git-Protocol", "version=2")?;
        if method == Method::POST {
            set("Content-Type", REQUEST_TYPE)?;
            set("Accept", RESULT_TYPE)?;
        }
        if let Some(login) = &remote.login {
            let pair = BASE64_STANDARD.encode(format!("{}:{}", login.username, login.password.expose()));
            set("Authorization", &format!("Basic {pair}"))?;
        }
        let limits = Limits {
            total: self.timeout,
            max_body_read_bytes: MAX_ANSWER_BYTES,
            max_body_kept_bytes: MAX_ANSWER_BYTES,
        };
        Ok(self.client.send(Request { url, method, headers, body, limits }).await?)
    }

    /// Asks a git server. It speaks version 2 of the protocol, or sends all refs at once.
    async fn over_git(&self, remote: &Remote) -> Result<RemoteRefs, FetchError> {
        let stream = self.client.connect(remote.server(), self.timeout).await?;
        let budget = Arc::new(Budget::new(MAX_ANSWER_BYTES as u64));
        let talk = async {
            let mut stream = Metered::new(stream, Arc::clone(&budget));
            Packet::Data(greeting(remote)).write(&mut stream).await.map_err(|_| FetchError::Broken)?;
            match parse_advertisement(&read_to_flush(&mut stream, &budget).await?)? {
                Advertisement::Refs(refs) => Ok(refs),
                Advertisement::Version2 { request } => {
                    stream.write_all(&request).await.map_err(|_| FetchError::Broken)?;
                    parse_refs(&read_to_flush(&mut stream, &budget).await?)
                }
            }
        };
        timeout(self.timeout, talk).await.map_err(|_| FetchError::Idle)?
    }
}

/// Returns the first packet sent to a git server.
pub(super) fn greeting(remote: &Remote) -> Vec<u8> {
    format!("git-upload-pack {}\0host={}\0\0version=2\0", remote.path(), remote.authority()).into_bytes()
}

/// Reads packets up to the first flush. Returns them encoded.
async fn read_to_flush(stream: &mut Metered<TcpStream>, budget: &Budget) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    loop {
        let packet = Packet::read(stream).await.map_err(|_| match budget.is_spent() {
            true => FetchError::TooManyRefs { limit: MAX_REMOTE_REFS },
            false => FetchError::Broken,
        })?;
        let packet = packet.ok_or(FetchError::NotFound)?;
        packet.encode(&mut bytes).map_err(|_| FetchError::NotSmart)?;
        if packet == Packet::Flush {
            return Ok(bytes);
        }
    }
}

/// Returns the repository address that a redirect points to; `None` if the response is no redirect.
fn redirect(url: &OutboundUrl, response: &Response) -> Result<Option<String>, FetchError> {
    let is_redirect = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !is_redirect.contains(&response.status) {
        return Ok(None);
    }
    let location = response.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    let base = url::Url::parse(url.expose()).map_err(|_| FetchError::NotSmart)?;
    let target = location.and_then(|location| base.join(location).ok()).ok_or(FetchError::NotSmart)?;
    // A redirect to a sign-in page does not end like this.
    let target = target.as_str().strip_suffix(INFO_REFS).ok_or(FetchError::NotSmart)?;
    Ok(Some(target.to_owned()))
}

/// Returns the body of a complete response with this content type.
fn checked_body<'a>(response: &'a Response, content_type: &str) -> Result<&'a [u8], FetchError> {
    match response.status {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(FetchError::Credentials),
        StatusCode::NOT_FOUND | StatusCode::GONE => return Err(FetchError::NotFound),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            return Err(FetchError::Unreachable);
        }
        _ => return Err(FetchError::NotSmart),
    }
    let found = response.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let found = found.split(';').next().unwrap_or_default().trim();
    if !found.eq_ignore_ascii_case(content_type) {
        return Err(FetchError::NotSmart);
    }
    match response.body_end {
        BodyEnd::Complete => Ok(&response.body),
        BodyEnd::Limit => Err(FetchError::TooManyRefs { limit: MAX_REMOTE_REFS }),
        BodyEnd::TimedOut => Err(FetchError::Idle),
        BodyEnd::Broken => Err(FetchError::Broken),
    }
}
