//! Clones over HTTP without a git process between the pack and the client: requests of version 2 of the protocol for everything, from
//! somebody who has nothing. Everything else is left to git.

use std::{fs::File, io, io::IoSliceMut, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use git2::Oid;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::time::Instant;

use super::{
    gates::Turn,
    pace::Pace,
    stream::{PIECE, Sender, channel},
    transfer::Input,
    version_2::{self, Command},
};
use crate::{
    app::App,
    error::GitError,
    limits::LimitArgs,
    packs::{self, CloneRequest, Fetch, Pack},
    pktline::MAX_PACKET,
};

/// How long to wait for a pack to grow.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a client that waits is told that it is not forgotten, as git does it (`uploadpack.keepAlive`).
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// A packet's length and its band come before its bytes.
const HEAD: usize = 5;
/// Packets of one piece.
const PACKETS: usize = PIECE / MAX_PACKET;
/// Bands: the pack, what the client is to show, and why it failed.
const PACK: u8 = 1;
const SHOW: u8 = 2;
const FAILED: u8 = 3;

impl Command for CloneRequest {
    const NAME: &'static [u8] = b"command=fetch";
    /// Some twenty thousand wants.
    const LONGEST: usize = 1 << 20;

    fn argument(&mut self, line: &[u8]) -> bool {
        // A request without it is a question first.
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
    let digits = line.strip_prefix(b"want ").filter(|digits| digits.len() == 40)?;
    Oid::from_str(std::str::from_utf8(digits).ok()?).ok()
}

/// The pack that is asked for, if it is for a plain clone; `None` for every other request, which is still in `input` as it came.
///
/// Errors: `Overloaded`.
pub(super) async fn find(app: &App, fetch: &Fetch, input: &mut Input) -> Result<Option<Pack>, GitError> {
    match version_2::read::<CloneRequest>(input).await? {
        Some(asked) if asked.is_done => packs::find(app, fetch, &asked).await,
        _ => Ok(None),
    }
}

/// The answer: the pack as the client takes it.
pub(super) fn send(app: &App, pack: Pack, turn: Turn) -> Body {
    let (sender, pieces) = channel();
    let limits = app.limits.clone();
    app.life.spawn("clone", async move {
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(limits.transfer, serve(&limits, pack, &sender)) => outcome,
            () = sender.closed() => return,
        };
        match outcome {
            Ok(Ok(())) => sender.end(),
            Ok(Err(error)) => tracing::debug!(%error, "a clone failed"),
            Err(_) => tracing::debug!("a clone took too long"),
        }
        drop(turn);
    });
    Body::from_stream(pieces.into_stream())
}

/// The way of packets to the client.
struct Line<'a> {
    sender: &'a Sender,
    pace: Pace,
    /// When it last heard something.
    heard: Instant,
}

impl Line<'_> {
    async fn send(&mut self, bytes: impl Into<Bytes>) -> Result<(), GitError> {
        let bytes = bytes.into();
        let count = bytes.len();
        self.pace.wait(self.sender.send(Ok(bytes))).await?.map_err(|_| GitError::ClientGone)?;
        self.pace.moved(count);
        self.heard = Instant::now();
        Ok(())
    }

    async fn say(&mut self, band: u8, text: &[u8]) -> Result<(), GitError> {
        for text in text.chunks(MAX_PACKET - HEAD) {
            let mut packet = vec![0; HEAD + text.len()];
            packet[HEAD..].copy_from_slice(text);
            set_head(&mut packet, band);
            self.send(packet).await?;
        }
        Ok(())
    }
}

/// Sends the pack to its end, or why there is none.
async fn serve(limits: &LimitArgs, mut pack: Pack, sender: &Sender) -> Result<(), GitError> {
    let mut line = Line { sender, pace: Pace::new(limits.idle, limits.slowest), heard: Instant::now() };
    line.send(&b"000dpackfile\n"[..]).await?;
    match copy(&mut pack, &mut line).await? {
        Ok(()) => line.send(&b"0000"[..]).await,
        Err(reason) => line.say(FAILED, format!("{reason}\n").as_bytes()).await,
    }
}

/// The inner result is the pack's.
async fn copy(pack: &mut Pack, line: &mut Line<'_>) -> Result<Result<(), String>, GitError> {
    let mut at = 0;
    loop {
        let (piece, count) = read(pack.file(), at).await.map_err(GitError::io("reading a pack"))?;
        if count > 0 {
            line.send(piece).await?;
        }
        at += count as u64;
        match pack.size() {
            Some(size) if size == at => return Ok(Ok(())),
            Some(_) if count == 0 => return Ok(Err("the pack is not whole; try again".to_owned())),
            Some(_) => continue,
            None => {}
        }
        // A few large pieces cost less than many small ones.
        let is_full = count == PACKETS * (MAX_PACKET - HEAD);
        let (text, outcome) = pack.hear(if is_full { Duration::ZERO } else { PAUSE }).await;
        line.say(SHOW, &text).await?;
        if outcome.is_err() {
            return Ok(outcome);
        }
        if line.heard.elapsed() >= KEEP_ALIVE {
            line.send(&b"0005\x01"[..]).await?;
        }
    }
}

/// Packets of what the file has at `at`, and how many of its bytes they carry.
async fn read(file: &Arc<File>, at: u64) -> io::Result<(Bytes, usize)> {
    let mut piece = vec![0; PACKETS * MAX_PACKET];
    let count = match fill(file, &mut piece, at, ReadWriteFlags::NOWAIT) {
        Ok(count) => count,
        // The disk has to be waited for, or cannot say so.
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            let file = Arc::clone(file);
            let wait = move || fill(&file, &mut piece, at, ReadWriteFlags::empty()).map(|count| (piece, count));
            #[expect(clippy::disallowed_methods, reason = "one for each clone at most, and the gate bounds those")]
            let filled = tokio::task::spawn_blocking(wait).await?;
            let count;
            (piece, count) = filled?;
            count
        }
        Err(error) => return Err(error.into()),
    };
    let mut left = count;
    let mut used = 0;
    while left > 0 {
        let taken = left.min(MAX_PACKET - HEAD);
        set_head(&mut piece[used..used + HEAD + taken], PACK);
        (left, used) = (left - taken, used + HEAD + taken);
    }
    piece.truncate(used);
    Ok((piece.into(), count))
}

/// Reads into the places behind the heads.
fn fill(file: &File, piece: &mut [u8], at: u64, flags: ReadWriteFlags) -> rustix::io::Result<usize> {
    let mut places: Vec<_> = piece.chunks_mut(MAX_PACKET).map(|packet| IoSliceMut::new(&mut packet[HEAD..])).collect();
    preadv2(file, &mut places, at, flags)
}

/// Says how long a packet is, and for which band.
fn set_head(packet: &mut [u8], band: u8) {
    let length = format!("{:04x}", packet.len());
    packet[..4].copy_from_slice(length.as_bytes());
    packet[4] = band;
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{
        super::version_2::{Parser, Step},
        *,
    };
    use crate::pktline::Packet;

    fn asked(arguments: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in [&["command=fetch", "agent=x", "object-format=sha1", ""], arguments].concat() {
            let packet = if line.is_empty() { Packet::Delimiter } else { Packet::text(line) };
            packet.encode(&mut bytes).unwrap();
        }
        [bytes.as_slice(), b"0000"].concat()
    }

    #[test]
    fn only_plain_clones_are_understood() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let (first, second) = (format!("want {one}"), format!("want {two}"));
        let mut parser = Parser::<CloneRequest>::default();
        let words = ["thin-pack", "no-progress", "include-tag", "ofs-delta", &second, &first, &second, "done"];
        assert_eq!(parser.read(&asked(&words)), Step::Done);
        let ids = [&two, &one, &two].map(|id| Oid::from_str(id).unwrap());
        let all = CloneRequest {
            thin_pack: true,
            ofs_delta: true,
            include_tag: true,
            no_progress: true,
            ..parser.command.clone()
        };
        assert_eq!((&parser.command, parser.command.wants.as_slice(), all.is_done), (&all, &ids[..], true));
        let mut parser = Parser::<CloneRequest>::default();
        assert_eq!((parser.read(&asked(&[&first])), parser.command.is_done), (Step::Done, false));
        let have = format!("have {one}");
        for other in [
            have.as_str(),
            "deepen 1",
            "filter blob:none",
            "shallow 1",
            "sideband-all",
            "want-ref refs/heads/main",
            "wait-for-done",
            "packfile-uris https",
            "want",
            "want 12",
            &format!("{first} x"),
            &format!("{first}1"),
            &format!("want {}", "x".repeat(40)),
            "done\0",
            "",
        ] {
            assert_eq!(
                Parser::<CloneRequest>::default().read(&asked(&[&first, other, "done"])),
                Step::Other,
                "{other}"
            );
        }
        assert_eq!(Parser::<CloneRequest>::default().read(&asked(&["done", &first])), Step::Other);
    }

    #[tokio::test]
    async fn a_file_is_read_in_packets() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<_> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
        file.write_all(&content).unwrap();
        let file = Arc::new(file);
        let (mut at, mut copied, mut lengths) = (0, Vec::new(), Vec::new());
        loop {
            let (piece, count) = read(&file, at).await.unwrap();
            if count == 0 {
                assert!(piece.is_empty());
                break;
            }
            let (mut rest, mut carried) = (&piece[..], 0);
            while let Some((Packet::Data(data), used)) = Packet::decode(rest).unwrap() {
                assert_eq!(data[0], PACK);
                copied.extend_from_slice(&data[1..]);
                lengths.push(used);
                (rest, carried) = (&rest[used..], carried + data.len() - 1);
            }
            assert_eq!((carried, rest.len()), (count, 0));
            at += count as u64;
        }
        assert!(copied == content);
        assert_eq!(lengths[..4], [MAX_PACKET; 4]);
        assert_eq!(lengths[4..], [300_000 - 4 * (MAX_PACKET - HEAD) + HEAD]);
    }
}
