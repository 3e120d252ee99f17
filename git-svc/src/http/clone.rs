//! Clones over HTTP without a git process between pack and client: `fetch` requests of protocol
//! version 2 that want all objects, from clients that have none. git answers all other requests.

use std::{fs::File, io, io::IoSliceMut, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use git_store::{
    git::pktline::MAX_PACKET,
    repo::objects::full_id,
    types::{error::GitError, limits::TransferLimits},
};
use git2::Oid;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::time::Instant;

use super::protocol_v2::{self, V2Command};
use crate::{
    admission::{
        limiter::{Limiter, Permit},
        throughput::MinThroughput,
    },
    state::AppState,
    transfer::{
        body_channel::{BodySender, CHUNK_BYTES, channel},
        fetch::{CloneRequest, Pack},
        request_body::RequestBody,
    },
};

/// How often to look for more data in a growing pack.
const GROWTH_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time without a packet. Then a keepalive is sent, as by git (`uploadpack.keepAlive`).
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Limit on a request read without a permit, as for `ls-refs`: about 1,300 wants.
pub(super) const MAX_SHORT_REQUEST_BYTES: usize = 64 << 10;
/// Limit on a request read under a permit of the fetch limiter: about 20,000 wants.
pub(super) const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Bytes before the data of a packet: its length and its band.
const HEADER_BYTES: usize = 5;
const MAX_DATA_BYTES: usize = MAX_PACKET - HEADER_BYTES;
/// Packets per chunk. A few large chunks cost less than many small ones.
const PACKETS_PER_CHUNK: usize = CHUNK_BYTES / MAX_PACKET;
/// Above this many clones a chunk is a single packet, because each clone has up to three chunks in
/// memory.
const MAX_CLONES_WITH_LARGE_CHUNKS: usize = 64;
const MAX_WAITING_CHUNKS: usize = 1;
const BAND_PACK: u8 = 1;
/// Progress text shown by the client.
const BAND_PROGRESS: u8 = 2;
/// The error that ends the response.
const BAND_ERROR: u8 = 3;

impl V2Command for CloneRequest {
    const NAME: &'static [u8] = b"command=fetch";

    fn argument(&mut self, line: &[u8]) -> bool {
        // `done` must be the last argument.
        if self.is_done {
            return false;
        }
        match line {
            b"thin-pack" => self.thin_pack = true,
            b"ofs-delta" => self.ofs_delta = true,
            b"include-tag" => self.include_tag = true,
            b"no-progress" => self.no_progress = true,
            b"done" => self.is_done = true,
            _ => match want(line) {
                Some(id) => self.wants.push(id),
                None => return false,
            },
        }
        true
    }
}

fn want(line: &[u8]) -> Option<Oid> {
    full_id(line.strip_prefix(b"want ")?)
}

/// Reads the request of a plain clone of up to `max_bytes`; `None` for any other request, which
/// stays in `input`.
pub(super) async fn read_request(input: &mut RequestBody, max_bytes: usize) -> Result<Option<CloneRequest>, GitError> {
    let request = protocol_v2::read::<CloneRequest>(input, max_bytes).await?;
    Ok(request.filter(|request| request.is_done))
}

/// Returns the response body: the pack in side-band packets.
pub(super) fn send(state: &AppState, pack: Pack, permit: Permit) -> Body {
    let (sender, receiver) = channel(MAX_WAITING_CHUNKS);
    let (limits, limiter) = (state.transfers.limits, Arc::clone(&state.limiters.clone));
    state.life.spawn_for_request("clone", async move {
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(limits.total, serve(&limits, &limiter, pack, &sender)) => outcome,
            () = sender.closed() => return,
        };
        match outcome {
            Ok(Ok(())) => sender.end(),
            Ok(Err(error)) => tracing::debug!(%error, "a clone failed"),
            Err(_) => tracing::debug!("a clone took too long"),
        }
        drop(permit);
    });
    Body::from_stream(receiver.into_stream())
}

struct PacketWriter<'a> {
    sender: &'a BodySender,
    throughput: MinThroughput,
    last_sent: Instant,
}

impl PacketWriter<'_> {
    /// Waits until the client has room for more.
    async fn ready(&mut self) -> Result<(), GitError> {
        self.throughput.wait(self.sender.ready()).await?.map_err(|_| GitError::ClientGone)
    }

    async fn send(&mut self, bytes: impl Into<Bytes>) -> Result<(), GitError> {
        let bytes = bytes.into();
        let count = bytes.len();
        self.throughput.wait(self.sender.send(Ok(bytes))).await?.map_err(|_| GitError::ClientGone)?;
        self.throughput.add_bytes(count);
        self.last_sent = Instant::now();
        Ok(())
    }

    async fn send_band(&mut self, band: u8, text: &[u8]) -> Result<(), GitError> {
        for text in text.chunks(MAX_DATA_BYTES) {
            let mut packet = vec![0; HEADER_BYTES + text.len()];
            packet[HEADER_BYTES..].copy_from_slice(text);
            set_header(&mut packet, band);
            self.send(packet).await?;
        }
        Ok(())
    }
}

/// Sends the whole pack, or the reason why it failed.
async fn serve(
    limits: &TransferLimits,
    limiter: &Limiter,
    mut pack: Pack,
    sender: &BodySender,
) -> Result<(), GitError> {
    let mut writer = PacketWriter {
        sender,
        throughput: MinThroughput::new(limits.idle, limits.min_rate),
        last_sent: Instant::now(),
    };
    writer.send(&b"000dpackfile\n"[..]).await?;
    match copy(&mut pack, limiter, &mut writer).await? {
        Ok(()) => writer.send(&b"0000"[..]).await,
        Err(reason) => writer.send_band(BAND_ERROR, format!("{reason}\n").as_bytes()).await,
    }
}

/// Sends the pack while it grows. The outer error comes from the transfer, the inner one from
/// making the pack.
async fn copy(
    pack: &mut Pack,
    limiter: &Limiter,
    writer: &mut PacketWriter<'_>,
) -> Result<Result<(), String>, GitError> {
    let mut at = 0;
    loop {
        // Before the read, so that a chunk takes memory only once there is room for it.
        writer.ready().await?;
        let packets = if limiter.running() > MAX_CLONES_WITH_LARGE_CHUNKS { 1 } else { PACKETS_PER_CHUNK };
        let (chunk, count) = read(pack.file(), at, packets).await.map_err(GitError::io("reading a pack"))?;
        if count > 0 {
            writer.send(chunk).await?;
        }
        at += count as u64;
        match pack.size() {
            Some(size) if size == at => return Ok(Ok(())),
            Some(_) if count == 0 => return Ok(Err("the pack is incomplete; try again".to_owned())),
            Some(_) => continue,
            None => {}
        }
        // On a short read, wait for the pack to grow: a few large chunks cost less than many small
        // ones.
        let is_full = count == packets * MAX_DATA_BYTES;
        let (text, outcome) = pack.read_progress(if is_full { Duration::ZERO } else { GROWTH_POLL_INTERVAL }).await;
        writer.send_band(BAND_PROGRESS, &text).await?;
        if outcome.is_err() {
            return Ok(outcome);
        }
        if writer.last_sent.elapsed() >= KEEP_ALIVE {
            writer.send(&b"0005\x01"[..]).await?;
        }
    }
}

/// Reads the file at `at`. Returns at most `packets` packets, and the number of file bytes in them.
async fn read(file: &Arc<File>, at: u64, packets: usize) -> io::Result<(Bytes, usize)> {
    let available = usize::try_from(file.metadata()?.len().saturating_sub(at)).unwrap_or(usize::MAX);
    let bytes = available.min(packets * MAX_DATA_BYTES);
    if bytes == 0 {
        return Ok((Bytes::new(), 0));
    }
    let mut chunk = vec![0; bytes + HEADER_BYTES * bytes.div_ceil(MAX_DATA_BYTES)];
    let count = match fill(file, &mut chunk, at, ReadWriteFlags::NOWAIT) {
        Ok(count) => count,
        // The read would wait for the disk, or the file system does not support `NOWAIT`.
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            let file = Arc::clone(file);
            let wait = move || fill(&file, &mut chunk, at, ReadWriteFlags::empty()).map(|count| (chunk, count));
            #[expect(clippy::disallowed_methods, reason = "at most one per clone, and the limiter bounds clones")]
            let filled = tokio::task::spawn_blocking(wait).await?;
            let count;
            (chunk, count) = filled?;
            count
        }
        Err(error) => return Err(error.into()),
    };
    let mut left = count;
    let mut used = 0;
    while left > 0 {
        let taken = left.min(MAX_DATA_BYTES);
        set_header(&mut chunk[used..used + HEADER_BYTES + taken], BAND_PACK);
        (left, used) = (left - taken, used + HEADER_BYTES + taken);
    }
    chunk.truncate(used);
    Ok((chunk.into(), count))
}

/// Reads into the packets, after their headers.
fn fill(file: &File, chunk: &mut [u8], at: u64, flags: ReadWriteFlags) -> rustix::io::Result<usize> {
    let mut places: Vec<_> =
        chunk.chunks_mut(MAX_PACKET).map(|packet| IoSliceMut::new(&mut packet[HEADER_BYTES..])).collect();
    preadv2(file, &mut places, at, flags)
}

fn set_header(packet: &mut [u8], band: u8) {
    let length = format!("{:04x}", packet.len());
    packet[..4].copy_from_slice(length.as_bytes());
    packet[4] = band;
}

#[cfg(test)]
mod tests;
