//! The service's side of the talk with a `pack-objects` hook.

use std::{io, time::Duration};

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite};

use super::{
    Fetch,
    cache::{Failure, Follower, Plan},
    produce::{self, BUSY, Input},
    request::Request,
    words::{Answer, MAX_ARG, MAX_ARGS, MAX_INPUT, Summary},
};
use crate::{app::App, pktline::Packet};

/// How long a hook may take to say what it wants; it says it at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// A hook that makes or copies one pack. Its going away is the end of it.
struct Hook<R, W> {
    reader: R,
    writer: W,
}

/// What became of following a file.
enum Followed {
    /// The hook knows all.
    Told,
    /// The hook is to make the pack.
    Run,
    /// Nothing was begun, for this reason.
    Again(String),
}

/// Answers one hook, until it has its pack or is gone.
pub(crate) async fn serve<R, W>(app: &App, fetch: Fetch, reader: R, writer: W) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut hook = Hook { reader, writer };
    let request = tokio::time::timeout(PATIENCE, hook.request()).await.map_err(|_| io::ErrorKind::TimedOut)??;
    let Some(request) = request else { return hook.run(app, &fetch).await };
    let key = request.key(&fetch);
    let mut may_ask_again = true;
    loop {
        let follower = match app.packs.plan(key, fetch.repository, request.input.is_clone) {
            Plan::Run => return hook.run(app, &fetch).await,
            Plan::Follow(follower) => follower,
            Plan::Make(follower, maker) => {
                // What becomes of an own attempt is the answer.
                may_ask_again = false;
                match app.packs.room_for_input(request.input.length) {
                    Some(room) => {
                        let bytes = tokio::time::timeout(PATIENCE, hook.input(&request.input)).await;
                        let bytes = bytes.map_err(|_| io::ErrorKind::TimedOut)??;
                        produce::start(app, &fetch, &request, Input { bytes, _room: room }, maker);
                    }
                    None => maker.finish(Err(Failure::Run)),
                }
                follower
            }
        };
        match hook.follow(follower, request.wants_progress).await? {
            Followed::Told => return Ok(()),
            Followed::Run => return hook.run(app, &fetch).await,
            Followed::Again(_) if may_ask_again => may_ask_again = false,
            Followed::Again(reason) => return hook.say(&Answer::Failed(reason)).await,
        }
    }
}

impl<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin> Hook<R, W> {
    /// What it asks for; `None` if it is to make the pack whatever that is.
    async fn request(&mut self) -> io::Result<Option<Request>> {
        let mut args = Vec::new();
        loop {
            match self.packet().await? {
                Packet::Data(arg) if args.len() < MAX_ARGS && arg.len() <= MAX_ARG => args.push(arg),
                Packet::Flush => break,
                _ => return Err(invalid("not an argument")),
            }
        }
        let summary = Summary::parse(&self.packet().await?);
        Ok(summary.and_then(|summary| Request::parse(&args, summary)))
    }

    /// Asks for the input, which must be what was announced.
    async fn input(&mut self, announced: &Summary) -> io::Result<Vec<u8>> {
        self.say(&Answer::Send).await?;
        let mut input = Vec::with_capacity(announced.length.min(MAX_INPUT));
        while let Packet::Data(piece) = self.packet().await? {
            if input.len() + piece.len() > announced.length {
                break;
            }
            input.extend(piece);
        }
        if Summary::of(&input) == *announced { Ok(input) } else { Err(invalid("not the input that was announced")) }
    }

    /// Lets the hook make the pack; its connection is its turn.
    async fn run(mut self, app: &App, fetch: &Fetch) -> io::Result<()> {
        let entered = tokio::select! {
            entered = app.gates.pack.enter(fetch.repository, &fetch.client) => entered,
            _ = self.reader.fill_buf() => return Ok(()),
        };
        let Ok(turn) = entered else { return self.say(&Answer::Failed(BUSY.to_owned())).await };
        self.say(&Answer::Run).await?;
        while self.hears().await? {
            // It waits for its client now, and others need not wait for that. Not too many, though: each has its memory.
            if let Ok(_place) = app.packs.lingering().try_acquire_owned() {
                drop(turn);
                while self.hears().await? {}
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for a word of the hook, whatever it is; false when it is gone.
    async fn hears(&mut self) -> io::Result<bool> {
        let count = self.reader.fill_buf().await?.len();
        self.reader.consume(count);
        Ok(count > 0)
    }

    /// Shows the hook a file, and tells it what there is to tell. The file stays until the hook is gone.
    async fn follow(&mut self, mut follower: Follower, wants_progress: bool) -> io::Result<Followed> {
        let begun = tokio::select! {
            begun = follower.begun() => begun,
            _ = self.reader.fill_buf() => return Ok(Followed::Told),
        };
        let path = match begun {
            Ok(path) => path.to_owned(),
            Err(Failure::Again(reason)) => return Ok(Followed::Again(reason)),
            Err(Failure::Run) => return Ok(Followed::Run),
            Err(Failure::Broken(reason)) => {
                self.say(&Answer::Failed(reason)).await?;
                return Ok(Followed::Told);
            }
        };
        self.say(&Answer::Follow(path)).await?;
        let mut told = 0;
        loop {
            let news = tokio::select! {
                news = follower.news(&mut told) => news,
                _ = self.reader.fill_buf() => return Ok(Followed::Told),
            };
            if wants_progress {
                for piece in news.text.chunks(4096) {
                    self.say(&Answer::Text(piece.to_vec())).await?;
                }
            }
            let end = match news.end {
                None => continue,
                Some(Ok(size)) => Answer::Done(size),
                Some(Err(Failure::Broken(reason) | Failure::Again(reason))) => Answer::Failed(reason),
                Some(Err(Failure::Run)) => Answer::Failed("the pack could not be made".to_owned()),
            };
            self.say(&end).await?;
            // It has something to copy still.
            self.reader.fill_buf().await?;
            return Ok(Followed::Told);
        }
    }

    async fn packet(&mut self) -> io::Result<Packet> {
        Packet::read(&mut self.reader).await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    async fn say(&mut self, answer: &Answer) -> io::Result<()> {
        answer.packet().write(&mut self.writer).await
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
