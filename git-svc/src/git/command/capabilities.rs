//! What git says it can do: the same for every repository of this service, for as long as git and its settings are the same.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use ferrite_proto::git_transport::GitProtocol;

use super::{Exchange, Git, ReceivePack};
use crate::{git::pktline::Packet, types::error::GitError};

/// How long git may take to say so.
const DEADLINE: Duration = Duration::from_secs(10);

impl Git {
    /// The answer to `info/refs` in version 2 of the protocol, in git's own words. Whoever asks first makes git say them, of `repository`.
    pub(crate) async fn capabilities(&self, repository: &Path) -> Result<Bytes, GitError> {
        let said = self.capabilities.get_or_try_init(|| async {
            let child = self.upload_pack(repository, Exchange::Advertise, Some(&GitProtocol::version_2()))?;
            let said = child.finish(&[], DEADLINE).await?;
            if said.starts_with(b"000eversion 2\n") && said.ends_with(b"0000") {
                return Ok(Bytes::from(said));
            }
            Err(GitError::Internal("git does not speak version 2 of its protocol".to_owned()))
        });
        said.await.cloned()
    }

    /// What stands behind the first ref that a push is shown, in git's own words. Whoever asks first makes git say them, of
    /// `repository`.
    pub(crate) async fn push_capabilities(&self, repository: &Path) -> Result<Bytes, GitError> {
        let said = self.push_capabilities.get_or_try_init(|| async {
            let exchange = Exchange::Advertise;
            let receive = ReceivePack { exchange, protocol: None, hooks: None, hook_env: Vec::new() };
            let said = self.receive_pack(repository, &receive)?.finish(&[], DEADLINE).await?;
            let first = Packet::decode(&said).ok().flatten();
            let line = first.as_ref().and_then(|(packet, _)| packet.line()).unwrap_or_default();
            let said = line.splitn(2, |byte| *byte == 0).nth(1);
            let said = said.filter(|said| said.windows(13).any(|word| word == b"report-status"));
            said.map(Bytes::copy_from_slice).ok_or_else(|| GitError::Internal("git does not report pushes".to_owned()))
        });
        said.await.cloned()
    }
}
