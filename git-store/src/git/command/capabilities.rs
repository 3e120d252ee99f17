//! Cached capability advertisements. They depend only on git and its settings.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use ferrite_proto::git_transport::GitProtocol;

use super::{Exchange, Git};
use crate::{git::pktline::Packet, types::error::GitError};

const DEADLINE: Duration = Duration::from_secs(10);

impl Git {
    /// Returns git's `info/refs` reply in protocol version 2. The first call runs git in
    /// `repository`.
    pub async fn capabilities(&self, repository: &Path) -> Result<Bytes, GitError> {
        let cached = self.capabilities.get_or_try_init(|| async {
            let child = self.upload_pack(repository, Exchange::Advertise, Some(&GitProtocol::version_2()), None)?;
            let reply = child.finish(&[], DEADLINE).await?;
            if reply.starts_with(b"000eversion 2\n") && reply.ends_with(b"0000") {
                return Ok(Bytes::from(reply));
            }
            Err(GitError::Internal("git does not support protocol version 2".to_owned()))
        });
        cached.await.cloned()
    }

    /// Returns the capabilities that follow the first ref in the advertisement of `receive-pack`.
    /// The first call runs git in `repository`.
    pub async fn push_capabilities(&self, repository: &Path) -> Result<Bytes, GitError> {
        let cached = self.push_capabilities.get_or_try_init(|| async {
            let child = self.receive_pack(repository, Exchange::Advertise, None, None)?;
            let reply = child.finish(&[], DEADLINE).await?;
            let first = Packet::decode(&reply).ok().flatten();
            let line = first.as_ref().and_then(|(packet, _)| packet.line()).unwrap_or_default();
            let list = line.splitn(2, |byte| *byte == 0).nth(1);
            let list = list.filter(|list| list.windows(13).any(|word| word == b"report-status"));
            list.map(Bytes::copy_from_slice).ok_or_else(|| GitError::Internal("git lacks `report-status`".to_owned()))
        });
        cached.await.cloned()
    }
}
