//! Request body: limited in size, inflated if it is gzip, and read at a minimum rate.

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use git_store::types::{error::GitError, limits::TransferLimits};

use super::{fetch::PrefixFilter, inflate::Inflate, push::PushInspector};
use crate::admission::throughput::MinThroughput;

pub(crate) struct RequestBody {
    body: BodyDataStream,
    has_ended: bool,
    /// Inflated bytes read by [`Self::peek`]. The process gets them first.
    pub(super) buffered: Vec<u8>,
    /// Rest of the last chunk, not inflated yet.
    rest: Bytes,
    pub(super) inflate: Option<Inflate>,
    /// Inspects the bytes before the process gets them; `None` for fetches.
    pub(super) inspector: Option<PushInspector>,
    /// Limits the ref prefixes that git gets; `None` for pushes.
    pub(super) prefixes: Option<PrefixFilter>,
    /// Bytes that the body may still have, before inflating.
    left: u64,
    limit: u64,
    throughput: MinThroughput,
}

impl RequestBody {
    pub(crate) fn empty(limits: &TransferLimits) -> Self {
        Self::plain(limits, Body::empty(), 0)
    }

    /// A body of up to `limit` bytes, passed on unchanged.
    pub(crate) fn plain(limits: &TransferLimits, body: Body, limit: u64) -> Self {
        let (throughput, body) = (MinThroughput::new(limits.pause, limits.min_rate), body.into_data_stream());
        let (buffered, rest) = (Vec::new(), Bytes::new());
        Self {
            body,
            has_ended: false,
            buffered,
            rest,
            inflate: None,
            inspector: None,
            prefixes: None,
            left: limit,
            limit,
            throughput,
        }
    }

    /// A gzip body of up to `limit` bytes, both compressed and inflated.
    pub(crate) fn gzip(limits: &TransferLimits, body: Body, limit: u64) -> Self {
        Self { inflate: Some(Inflate::new(limit)), ..Self::plain(limits, body, limit) }
    }

    pub(crate) fn inspected(self, inspector: PushInspector) -> Self {
        Self { inspector: Some(inspector), ..self }
    }

    /// Removes the ref prefixes of a fetch if there are too many for git to compare.
    pub(crate) fn with_few_prefixes(self) -> Self {
        Self { prefixes: Some(PrefixFilter::default()), ..self }
    }

    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffered
    }

    /// Returns the bytes received so far, before inflating.
    pub(super) fn received(&self) -> u64 {
        self.limit - self.left
    }

    /// Reads until `buffered` grows. The process still gets these bytes. Returns false at the end
    /// of the body.
    pub(crate) async fn peek(&mut self) -> Result<bool, GitError> {
        let before = self.buffered.len();
        while self.buffered.len() == before {
            if self.rest.is_empty() {
                let Some(bytes) = self.next().await? else {
                    if let Some(mut inflate) = self.inflate.take() {
                        self.buffered.extend(inflate.finish()?);
                    }
                    break;
                };
                self.rest = bytes;
            }
            match &mut self.inflate {
                None => self.buffered.extend(std::mem::take(&mut self.rest)),
                Some(inflate) => self.buffered.extend(inflate.step(&mut self.rest)?),
            }
        }
        Ok(self.buffered.len() > before)
    }

    /// Reads and drops the rest of the body, up to its end or the first error.
    pub(crate) async fn discard(&mut self) {
        while self.body.next().await.is_some_and(|bytes| bytes.is_ok()) {}
    }

    /// Returns the next bytes of the body before inflating; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, GitError> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        if self.has_ended {
            return Ok(None);
        }
        let next = self.throughput.wait(self.body.next()).await?;
        let Some(bytes) = next else {
            self.has_ended = true;
            return Ok(None);
        };
        let bytes = bytes.map_err(|_| GitError::ClientGone)?;
        self.throughput.add_bytes(bytes.len());
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or(GitError::TooLarge { what: "the request", limit: self.limit })?;
        Ok(Some(bytes))
    }
}
