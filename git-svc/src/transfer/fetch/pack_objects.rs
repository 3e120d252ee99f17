//! Makes a pack: one `git pack-objects` process that writes straight into the cached file.

use std::{fs, sync::Arc};

use git_store::{
    git::{command, command::GitChild},
    types::error::GitError,
};
use tokio::{io::AsyncReadExt as _, sync::OwnedSemaphorePermit};

use super::{
    cache::{ProduceError, Producer},
    request::{Fetch, Request},
    service::FetchService,
};

/// For a request that gets no permit to make its pack.
pub(super) const BUSY_MESSAGE: &str = "too many packs are being created; try again in a moment";
/// Progress phase that `upload-pack` hides from clients.
const HIDDEN_PHASE: &[u8] = b"Writing objects";

/// Standard input of git, with its reserved memory.
pub(super) struct PackInput {
    pub(super) bytes: Vec<u8>,
    pub(super) _room: OwnedSemaphorePermit,
}

impl FetchService {
    pub(super) fn start(&self, fetch: &Fetch, request: &Request, input: PackInput, producer: Producer) {
        let (own, fetch, request) = (self.clone(), fetch.clone(), request.clone());
        self.life.spawn_for_request("pack", async move {
            let end = own.make(&fetch, &request, input, &producer).await;
            if let Err(failure) = &end {
                tracing::debug!(repo.id = %fetch.repository, ?failure, "cannot create a pack");
            }
            producer.finish(end);
        });
    }

    async fn make(
        &self,
        fetch: &Fetch,
        request: &Request,
        input: PackInput,
        producer: &Producer,
    ) -> Result<u64, ProduceError> {
        let permit = tokio::select! {
            permit = self.admit(fetch) => permit,
            () = producer.abandoned() => return Err(ProduceError::Retryable(BUSY_MESSAGE.to_owned())),
        };
        let permit = permit.map_err(|_| ProduceError::Retryable(BUSY_MESSAGE.to_owned()))?;
        if request.is_unlimited() && request.input.is_clone {
            let id = fetch.repository;
            let size = self.pool.run_blocking(move |store| store.size(id)).await;
            if size.is_ok_and(|size| producer.is_large(size)) {
                producer.is_too_large();
                return Err(ProduceError::NotCacheable);
            }
        }
        let (file, child) = self.begin(fetch, request, producer).map_err(|error| {
            tracing::warn!(repo.id = %fetch.repository, %error, "cannot cache a pack");
            ProduceError::NotCacheable
        })?;
        producer.begin();
        let end = write(child, input, producer, &file).await;
        drop(permit);
        end
    }

    fn begin(
        &self,
        fetch: &Fetch,
        request: &Request,
        producer: &Producer,
    ) -> Result<(Arc<fs::File>, GitChild), GitError> {
        let open = || {
            let file = fs::File::options().write(true).create_new(true).open(producer.path())?;
            Ok((Arc::new(file.try_clone()?), file))
        };
        let (file, out) = open().map_err(GitError::io("creating a file for a pack"))?;
        let child = self.git.pack_objects(&self.store.path(fetch.repository), &request.args(), out)?;
        Ok((file, child))
    }
}

async fn write(
    mut child: GitChild,
    input: PackInput,
    producer: &Producer,
    file: &fs::File,
) -> Result<u64, ProduceError> {
    let outcome = tokio::select! {
        outcome = work(&mut child, input, producer) => outcome,
        failure = producer.watch(file) => Err(failure),
    };
    match outcome {
        Ok(()) => producer.update_size(file),
        Err(failure) => {
            child.end().await;
            Err(failure)
        }
    }
}

async fn work(child: &mut GitChild, input: PackInput, producer: &Producer) -> Result<(), ProduceError> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let feed = async {
        command::feed(stdin, &input.bytes).await;
        drop(input);
    };
    let read_stderr = async {
        let (Some(mut stderr), mut lines) = (stderr, ProgressLines::default()) else { return };
        let mut chunk = vec![0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            lines.feed(&chunk[..count], |line| producer.append_log(line));
        }
        producer.append_log(&lines.line);
    };
    tokio::join!(feed, read_stderr);
    let status = child.wait().await.map_err(|error| ProduceError::Failed(error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    if producer.log_says_full() {
        producer.disk_is_full();
        return Err(ProduceError::Failed("the disk is full; try again later".to_owned()));
    }
    Err(ProduceError::Failed("cannot create the pack".to_owned()))
}

/// Splits git's progress output into lines. A line that ends in a carriage return is overwritten by
/// the next.
#[derive(Default)]
struct ProgressLines {
    line: Vec<u8>,
}

impl ProgressLines {
    fn feed(&mut self, text: &[u8], emit: impl Fn(&[u8])) {
        for part in text.split_inclusive(|byte| b"\r\n".contains(byte)) {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\r") || part.ends_with(b"\n") || self.line.len() > 4096 {
                let line = std::mem::take(&mut self.line);
                if !line.starts_with(HIDDEN_PHASE) {
                    emit(&line);
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
    fn clients_get_the_progress_that_upload_pack_would_show() {
        let lines_out = RefCell::new(Vec::new());
        let mut lines = ProgressLines::default();
        for text in
            ["Counting: 1%\rCou", "nting: 2%\rCounting: done.\nWriting obj", "ects: 5%\rWriting objects: 6%\r", "To"]
        {
            lines.feed(text.as_bytes(), |line| lines_out.borrow_mut().extend_from_slice(line));
        }
        assert_eq!(lines_out.into_inner(), b"Counting: 1%\rCounting: 2%\rCounting: done.\n");
        assert_eq!(lines.line, b"To");
    }
}
