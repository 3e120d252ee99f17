//! Makes archives: with libgit2 and the writers of this module, or with `git archive` if attributes
//! or large files require it.

use std::{
    fs,
    io::{self, BufWriter, Write},
    sync::Arc,
};

use flate2::GzBuilder;
use git_store::{
    git::command::{GitChild, MAX_STDERR_BYTES, read_limited},
    repo::{
        objects::find_tree,
        read::{
            Deadline, EntryKind,
            deadline::READ_TIMEOUT,
            tree::{Step, walk},
        },
    },
    types::{archive::Format, error::GitError},
};
use git2::Repository;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    ArchiveService, ArchiveSpec, COMPRESSION_LEVEL,
    cache::{Producer, Reader},
    plan::{ArchivePlan, plan},
    tar::Tar,
    zip::Zip,
};
use crate::admission::limiter::ClientKey;

const CHUNK_BYTES: usize = 64 << 10;

impl ArchiveService {
    /// Returns a reader of the archive. Starts making it unless it is cached or being made. The
    /// permit counts against the limits of `client`.
    pub(crate) fn open(&self, spec: ArchiveSpec, client: ClientKey) -> Reader {
        let (reader, producer) = self.cache.reader(spec.repository, &spec.key());
        if let Some(producer) = producer {
            let own = self.clone();
            self.life.spawn_for_request("archive", async move {
                let producer = Arc::new(producer);
                let end = tokio::select! {
                    end = own.make(&spec, &client, &producer) => end,
                    stopped = producer.stopped() => Err(stopped),
                };
                if let Err(error) = &end {
                    tracing::debug!(repo.id = %spec.repository, %error, "cannot create an archive");
                }
                producer.finish(end);
            });
        }
        reader
    }

    /// Checks that the archive can be made, as far as that is known in advance. Returns its size if
    /// it is cached.
    pub(crate) async fn check(&self, spec: &ArchiveSpec, client: &ClientKey) -> Result<Option<u64>, GitError> {
        let size = self.cache.size(&spec.key());
        if size.is_some() {
            return Ok(size);
        }
        let _permit = self.limiter.acquire(spec.repository, client).await?;
        let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
        let (commit, limits) = (spec.commit, self.cache.limits);
        self.pool.run(spec.repository, move |repo| plan(repo, commit, &limits, || deadline.check())).await?;
        Ok(None)
    }

    async fn make(&self, spec: &ArchiveSpec, client: &ClientKey, producer: &Arc<Producer>) -> Result<(), GitError> {
        let _permit = self.limiter.acquire(spec.repository, client).await?;
        let own = Arc::clone(producer);
        let (commit, limits) = (spec.commit, self.cache.limits);
        let job = move |repo: &Repository| {
            let plan = plan(repo, commit, &limits, || own.check())?;
            fs::File::create(own.path()).map_err(GitError::io("creating an archive"))?;
            Ok(plan)
        };
        let plan = self.pool.run(spec.repository, job).await?;
        metrics::counter!("ferrite_git_archives_total", "by" => if plan.by_git { "git" } else { "us" }).increment(1);
        if plan.by_git {
            let _memory = match plan.delta_bytes {
                0 => None,
                bytes => Some(self.delta_memory.acquire(bytes, client).await?),
            };
            let (id, path) = (spec.repository, self.store.path(spec.repository));
            self.pool.run_blocking(move |store| store.write_attributes(id)).await?;
            let child = self.git.archive(&path, spec.format, &spec.prefix, spec.commit, plan.seconds)?;
            return write_with_git(child, producer, self.cache.limits.output()).await;
        }
        let (own, spec, id) = (Arc::clone(producer), spec.clone(), spec.repository);
        self.pool.run(id, move |repo| write_native(repo, &spec, plan, &own)).await
    }
}

/// Writes the file from its beginning, and publishes its length to readers.
struct Output<'a> {
    file: fs::File,
    producer: &'a Producer,
    written: u64,
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.producer.check().map_err(io::Error::other)?;
        let count = self.file.write(bytes)?;
        self.written += count as u64;
        self.producer.set_written(self.written);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_native(repo: &Repository, spec: &ArchiveSpec, plan: ArchivePlan, producer: &Producer) -> Result<(), GitError> {
    // Not truncated: the pool may run this a second time, and readers may already be reading the
    // bytes of the first run.
    let file = fs::File::options().write(true).open(producer.path()).map_err(GitError::io("opening an archive"))?;
    let out = BufWriter::with_capacity(CHUNK_BYTES, Output { file, producer, written: 0 });
    write(repo, spec, plan, out)
}

pub(super) fn write<W: Write>(
    repo: &Repository,
    spec: &ArchiveSpec,
    plan: ArchivePlan,
    out: W,
) -> Result<(), GitError> {
    let written = match spec.format {
        Format::Zip => {
            let mut zip = Zip::begin(out, plan.seconds);
            each(repo, spec, plan, |path, kind, mode, _, content| zip.add(path, kind, mode, content))?;
            zip.finish(spec.commit).and_then(|mut out| out.flush())
        }
        Format::TarGz => {
            // Leave time and operating system out of the header, because they would be those of the
            // machine.
            let gzip = GzBuilder::new().mtime(0).operating_system(255).write(out, COMPRESSION_LEVEL);
            let mut tar = Tar::begin(gzip, spec.commit, plan.seconds).map_err(from_io)?;
            each(repo, spec, plan, |path, kind, mode, id, content| tar.add(path, kind, mode, id, content))?;
            tar.finish().and_then(flate2::write::GzEncoder::finish).and_then(|mut out| out.flush())
        }
    };
    written.map_err(from_io)
}

/// Calls `add` for the prefix directory and every entry of the tree.
fn each(
    repo: &Repository,
    spec: &ArchiveSpec,
    plan: ArchivePlan,
    mut add: impl FnMut(&[u8], EntryKind, i32, git2::Oid, &[u8]) -> io::Result<()>,
) -> Result<(), GitError> {
    let folder = format!("{}/", spec.prefix).into_bytes();
    add(&folder, EntryKind::Directory, 0, plan.tree, b"").map_err(from_io)?;
    walk(repo, find_tree(repo, plan.tree)?, |entry| {
        let kind = EntryKind::of(entry.mode);
        let path = [&folder, entry.path].concat();
        let added = match kind {
            EntryKind::Directory | EntryKind::Submodule => {
                add(&[path.as_slice(), b"/"].concat(), kind, entry.mode, entry.id, b"")
            }
            EntryKind::File | EntryKind::Symlink => {
                add(&path, kind, entry.mode, entry.id, repo.find_blob(entry.id)?.content())
            }
        };
        added.map_err(from_io)?;
        Ok(Step::Into)
    })
}

/// Returns the `GitError` that a writer passed through as an I/O error, or wraps the I/O error.
fn from_io(error: io::Error) -> GitError {
    error.downcast::<GitError>().unwrap_or_else(GitError::io("writing an archive"))
}

pub(super) async fn write_with_git(mut child: GitChild, producer: &Producer, limit: u64) -> Result<(), GitError> {
    let command = child.name();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stdout = stdout.ok_or_else(|| GitError::Internal("git has no output".to_owned()))?;
    let copied = copy(stdout, producer, limit);
    let (copied, complaints) = tokio::join!(copied, read_limited(stderr, MAX_STDERR_BYTES));
    copied?;
    let status = child.wait().await?;
    if !status.success() {
        let stderr = String::from_utf8_lossy(&complaints).trim_end().to_owned();
        return Err(GitError::Command { command, status: status.to_string(), stderr });
    }
    Ok(())
}

async fn copy(mut from: tokio::process::ChildStdout, producer: &Producer, limit: u64) -> Result<(), GitError> {
    let file = tokio::fs::File::options().write(true).open(producer.path()).await;
    let mut file = file.map_err(GitError::io("opening an archive"))?;
    let (mut chunk, mut written) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let count = from.read(&mut chunk).await.map_err(GitError::io("reading an archive from git"))?;
        if count == 0 {
            return Ok(());
        }
        let wrote = async {
            file.write_all(&chunk[..count]).await?;
            // The file is buffered, so the bytes are in it only after the flush.
            file.flush().await
        };
        wrote.await.map_err(|error| GitError::io("writing an archive")(error).or_full())?;
        written += count as u64;
        if written > limit {
            return Err(GitError::TooLarge { what: "the output of git", limit });
        }
        producer.set_written(written);
    }
}
