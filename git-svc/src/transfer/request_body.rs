//! Body of a request on its way to a process: bounded, inflated if need be, and read no slower than allowed.

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::StreamExt as _;

use super::{
    inflate::{Inflate, InflateError},
    push::PushInspector,
};
use crate::{
    admission::throughput::MinThroughput,
    types::{error::GitError, limits::TransferLimits},
};

/// What a process is given.
pub(crate) struct RequestBody {
    body: BodyDataStream,
    /// Whether the body has ended.
    has_ended: bool,
    /// What was peeked at: the process gets it first.
    pub(super) buffered: Vec<u8>,
    /// What came after that and was not looked at.
    rest: Bytes,
    pub(super) inflate: Option<Inflate>,
    /// Looks at what the process is given.
    pub(super) inspector: Option<PushInspector>,
    /// Bytes of the body as it comes.
    left: u64,
    pub(super) limit: u64,
    throughput: MinThroughput,
}

impl RequestBody {
    /// Nothing.
    pub(crate) fn empty(limits: &TransferLimits) -> Self {
        Self::plain(limits, Body::empty(), 0)
    }

    /// A body as it is, of at most `limit` bytes.
    pub(crate) fn plain(limits: &TransferLimits, body: Body, limit: u64) -> Self {
        let (throughput, body) = (MinThroughput::new(limits.pause, limits.min_rate), body.into_data_stream());
        let (buffered, rest) = (Vec::new(), Bytes::new());
        Self { body, has_ended: false, buffered, rest, inflate: None, inspector: None, left: limit, limit, throughput }
    }

    /// A gzip body that holds at most `limit` bytes.
    pub(crate) fn gzip(limits: &TransferLimits, body: Body, limit: u64) -> Self {
        Self { inflate: Some(Inflate::new(limit)), ..Self::plain(limits, body, limit) }
    }

    /// The same with somebody who looks at it.
    pub(crate) fn inspected(self, inspector: PushInspector) -> Self {
        Self { inspector: Some(inspector), ..self }
    }

    /// The beginning of the input, as far as it was peeked at.
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffered
    }

    /// Reads on to look at some more of the front, which stays there for the process; false at the end.
    pub(crate) async fn peek(&mut self) -> Result<bool, GitError> {
        let before = self.buffered.len();
        while self.buffered.len() == before {
            if self.rest.is_empty() {
                let Some(bytes) = self.next().await? else {
                    if let Some(mut inflate) = self.inflate.take() {
                        self.buffered.extend(inflate.finish().map_err(|error| inflate_error(error, self.limit))?);
                    }
                    break;
                };
                self.rest = bytes;
            }
            match &mut self.inflate {
                None => self.buffered.extend(std::mem::take(&mut self.rest)),
                Some(inflate) => {
                    let out = inflate.step(&mut self.rest).map_err(|error| inflate_error(error, self.limit))?;
                    self.buffered.extend(out);
                }
            }
        }
        Ok(self.buffered.len() > before)
    }

    /// Reads the rest, and forgets it.
    pub(super) async fn discard(&mut self) {
        while self.body.next().await.is_some_and(|bytes| bytes.is_ok()) {}
    }

    /// The next bytes of the body, not inflated yet; `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, GitError> {
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

pub(super) fn inflate_error(error: InflateError, limit: u64) -> GitError {
    match error {
        InflateError::Broken => GitError::invalid("body", "invalid", "is not in gzip form"),
        InflateError::TooLarge => GitError::TooLarge { what: "the request", limit },
    }
}
