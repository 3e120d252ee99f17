//! Makes a pack: one git process that writes straight into the file.

use std::{fs, sync::Arc};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::OwnedSemaphorePermit,
};

use super::{
    Fetch,
    cache::{Failure, Maker},
    request::Request,
};
use crate::{app::App, command::GitChild, error::GitError};

/// What whoever cannot have a turn is told.
pub(super) const BUSY: &str = "too many packs are being made; try again in a moment";
/// How git says that there is no room on the disk.
const FULL: &[&str] = &["Out of diskspace", "No space left on device", "Disk quota exceeded"];
/// The phase that `upload-pack` shows to no client.
const UNTOLD: &[u8] = b"Writing objects";

/// What git is given, which takes room in memory.
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    pub(super) _room: OwnedSemaphorePermit,
}

/// Sees to it that the pack is made.
pub(super) fn start(app: &App, fetch: &Fetch, request: &Request, input: Input, maker: Maker) {
    let (own, fetch, request) = (app.clone(), fetch.clone(), request.clone());
    app.life.spawn("pack", async move {
        let end = make(&own, &fetch, &request, input, &maker).await;
        if let Err(failure) = &end {
            tracing::debug!(repo.id = %fetch.repository, ?failure, "a pack was not made");
        }
        maker.finish(end);
    });
}

async fn make(app: &App, fetch: &Fetch, request: &Request, input: Input, maker: &Maker) -> Result<u64, Failure> {
    let turn = tokio::select! {
        turn = app.gates.pack.enter(fetch.repository, &fetch.client) => turn,
        () = maker.abandoned() => return Err(Failure::Again(BUSY.to_owned())),
    };
    let turn = turn.map_err(|_| Failure::Again(BUSY.to_owned()))?;
    if request.is_unlimited() && request.input.is_clone {
        let id = fetch.repository;
        let size = app.pool.run_blocking(move |store| store.size(id)).await;
        if size.is_ok_and(|size| maker.is_large(size)) {
            maker.is_too_large();
            return Err(Failure::Run);
        }
    }
    let (file, child) = begin(app, fetch, request, maker).map_err(|error| {
        tracing::warn!(repo.id = %fetch.repository, %error, "a pack cannot be kept");
        Failure::Run
    })?;
    maker.begin();
    let end = write(child, input, maker, &file).await;
    drop(turn);
    end
}

fn begin(app: &App, fetch: &Fetch, request: &Request, maker: &Maker) -> Result<(Arc<fs::File>, GitChild), GitError> {
    let open = || {
        let file = fs::File::options().write(true).create_new(true).open(maker.path())?;
        Ok((Arc::new(file.try_clone()?), file))
    };
    let (file, out) = open().map_err(GitError::io("making a file for a pack"))?;
    let child = app.git.pack_objects(&app.store.path(fetch.repository), &request.args(), out)?;
    Ok((file, child))
}

async fn write(mut child: GitChild, input: Input, maker: &Maker, file: &fs::File) -> Result<u64, Failure> {
    let outcome = tokio::select! {
        outcome = work(&mut child, input, maker) => outcome,
        failure = maker.watch(file) => Err(failure),
    };
    match outcome {
        Ok(()) => maker.measure(file),
        Err(failure) => {
            child.end().await;
            Err(failure)
        }
    }
}

async fn work(child: &mut GitChild, input: Input, maker: &Maker) -> Result<(), Failure> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A process that failed early closes its input; its status says why.
            drop(stdin.write_all(&input.bytes).await);
        }
        drop(input);
    };
    let listen = async {
        let (Some(mut stderr), mut words) = (stderr, Words::default()) else { return };
        let mut piece = vec![0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut piece).await {
            words.hear(&piece[..count], |line| maker.say(line));
        }
        maker.say(&words.line);
    };
    tokio::join!(feed, listen);
    let status = child.wait().await.map_err(|error| Failure::Broken(error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    if FULL.iter().any(|words| maker.has_said(words.as_bytes())) {
        maker.disk_is_full();
        return Err(Failure::Broken("there is no room on the disk; try again in a moment".to_owned()));
    }
    Err(Failure::Broken("the pack could not be made".to_owned()))
}

/// Takes what git says apart into lines, which may overwrite each other.
#[derive(Default)]
struct Words {
    line: Vec<u8>,
}

impl Words {
    fn hear(&mut self, text: &[u8], say: impl Fn(&[u8])) {
        for part in text.split_inclusive(|byte| b"\r\n".contains(byte)) {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\r") || part.ends_with(b"\n") || self.line.len() > 4096 {
                let line = std::mem::take(&mut self.line);
                if !line.starts_with(UNTOLD) {
                    say(&line);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn clients_hear_what_upload_pack_would_tell_them() {
        let heard = RefCell::new(Vec::new());
        let mut words = Words::default();
        for text in
            ["Counting: 1%\rCou", "nting: 2%\rCounting: done.\nWriting obj", "ects: 5%\rWriting objects: 6%\r", "To"]
        {
            words.hear(text.as_bytes(), |line| heard.borrow_mut().extend_from_slice(line));
        }
        assert_eq!(heard.into_inner(), b"Counting: 1%\rCounting: 2%\rCounting: done.\n");
        assert_eq!(words.line, b"To");
    }
}
