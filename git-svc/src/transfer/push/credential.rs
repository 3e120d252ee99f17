//! Credential helper for git's fetches from remotes (`gitcredentials`). Only answers for servers
//! whose login it has.

use std::io;
use std::time::Duration;

use ferrite_core::Secret;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

const MAX_REQUEST_BYTES: u64 = 64 << 10;
/// Time limit of a request, which git sends at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(crate) struct RemoteLogin {
    pub(crate) protocol: &'static str,
    /// Host as in the URL, with its port if the URL has one.
    pub(crate) host: String,
    pub(crate) username: String,
    pub(crate) password: Secret,
}

/// The logins that one fetch may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemoteLogins(Vec<RemoteLogin>);

impl RemoteLogins {
    /// Drops logins that contain line breaks or NULs.
    pub(crate) fn new(logins: Vec<RemoteLogin>) -> Self {
        let is_line = |text: &str| !text.contains(['\n', '\r', '\0']);
        let is_valid = |login: &RemoteLogin| is_line(&login.username) && is_line(login.password.expose());
        Self(logins.into_iter().filter(is_valid).collect())
    }

    /// Returns the answer to a request of git; `None` for a server without a login.
    fn answer(&self, request: &str) -> Option<String> {
        let value = |key: &str| request.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let (protocol, host, username) = (value("protocol")?, value("host")?, value("username"));
        let login = self.0.iter().find(|login| {
            login.protocol == protocol && login.host == host && username.is_none_or(|name| name == login.username)
        })?;
        Some(format!("username={}\npassword={}\n", login.username, login.password.expose()))
    }
}

/// Answers one request, which ends with the stream.
pub(super) async fn serve<R, W>(logins: &RemoteLogins, reader: R, mut writer: W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut request = String::new();
    let mut reader = reader.take(MAX_REQUEST_BYTES);
    timeout(REQUEST_TIMEOUT, reader.read_to_string(&mut request)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    if let Some(answer) = logins.answer(&request) {
        writer.write_all(answer.as_bytes()).await?;
    }
    writer.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(host: &str, password: &str) -> RemoteLogin {
        let (host, password) = (host.to_owned(), Secret::new(password));
        RemoteLogin { protocol: "https", host, username: "ada".to_owned(), password }
    }

    #[tokio::test]
    async fn a_login_is_given_for_its_server_only() {
        let logins = RemoteLogins::new(vec![login("one.example:8443", "hunter2"), login("two.example", "a\nb")]);
        for (request, expected) in [
            ("protocol=https\nhost=one.example:8443\n", "username=ada\npassword=hunter2\n"),
            (
                "capability[]=authtype\nprotocol=https\nhost=one.example:8443\nusername=ada\n\n",
                "username=ada\npassword=hunter2\n",
            ),
            ("protocol=https\nhost=one.example:8443\nusername=bob\n", ""),
            ("protocol=http\nhost=one.example:8443\n", ""),
            ("protocol=https\nhost=one.example\n", ""),
            ("protocol=https\nhost=other.example:8443\n", ""),
            ("protocol=https\nhost=two.example\n", ""),
            ("host=one.example:8443\n", ""),
            ("", ""),
        ] {
            let mut answer = Vec::new();
            serve(&logins, request.as_bytes(), &mut answer).await.unwrap();
            assert_eq!(String::from_utf8(answer).unwrap(), expected, "{request:?}");
        }
        assert!(!format!("{logins:?}").contains("hunter2"));
    }
}
