//! The socket that hooks call, and git's side of the `proc-receive` protocol, version 1. Not here: which refs may change.

use std::{fs, io, path::Path, time::Duration};

use git2::Oid;
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _, BufReader},
    net::UnixStream,
};
use uuid::Uuid;

use super::{
    receive::{Command, receive},
    sessions::HookSocket,
};
use crate::{app::App, error::GitError, pktline::Packet};

/// How long a hook may take to say what it wants; git says it at once.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look whether the process is to stop and no push is left.
const STOP_CHECK: Duration = Duration::from_millis(100);
/// Ref commands of one push.
const MAX_COMMANDS: usize = 100_000;

/// Puts the hook program where git looks for it, and returns the folder. Every other hook stays absent.
pub(crate) fn install_hook(store: &Path, program: &Path) -> Result<std::path::PathBuf, GitError> {
    let folder = store.join("hooks");
    let beside = store.join("incoming").join(format!("hook-{}", Uuid::new_v4()));
    let installed = fs::create_dir_all(&folder)
        .and_then(|()| std::os::unix::fs::symlink(program, &beside))
        .and_then(|()| fs::rename(&beside, folder.join("proc-receive")));
    installed.map_err(GitError::io("installing the hook"))?;
    Ok(folder)
}

/// Serves hooks until the process stops and the last push has ended.
pub(crate) async fn serve_hooks(app: App, socket: HookSocket) {
    // Pushes in flight still need it when the process is told to stop.
    while !(app.life.is_stopping() && app.sessions.is_empty()) {
        let accepted = tokio::select! {
            accepted = socket.listener.accept() => accepted,
            () = tokio::time::sleep(STOP_CHECK) => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                let own = app.clone();
                app.life.spawn("hook", async move {
                    if let Err(error) = talk(&own, stream).await {
                        tracing::debug!(%error, "a hook left early");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a hook");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn talk(app: &App, stream: UnixStream) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let asked = tokio::time::timeout(PATIENCE, greet(app, &mut reader, &mut writer));
    let Some((push, is_atomic)) = asked.await.map_err(|_| io::ErrorKind::TimedOut)?? else { return Ok(()) };
    let asked = tokio::time::timeout(PATIENCE, commands(&mut reader));
    let commands = asked.await.map_err(|_| io::ErrorKind::TimedOut)??;
    let answers = receive(app, push, commands, is_atomic).await;
    let mut bytes = Vec::new();
    for (name, answer) in answers {
        let line = match answer {
            Ok(()) => [b"ok ", name.as_slice()].concat(),
            Err(reason) => [b"ng ", name.as_slice(), b" ", reason.as_bytes()].concat(),
        };
        Packet::Data(line).encode(&mut bytes)?;
    }
    Packet::Flush.encode(&mut bytes)?;
    writer.write_all(&bytes).await?;
    writer.shutdown().await
}

/// The session and the versions; `None` for a caller that knows no push.
async fn greet<R: AsyncRead + Unpin>(
    app: &App,
    reader: &mut R,
    writer: &mut tokio::net::unix::OwnedWriteHalf,
) -> io::Result<Option<(super::Push, bool)>> {
    let session = Packet::read(reader).await?;
    let push = session.as_ref().and_then(Packet::line).and_then(|id| app.sessions.find(id));
    let Some(push) = push else { return Ok(None) };
    let mut is_atomic = false;
    while let Some(Packet::Data(line)) = Packet::read(reader).await? {
        let mut parts = line.split(|byte| *byte == 0);
        if parts.next().is_none_or(|version| version.trim_ascii() != b"version=1") {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a version other than 1"));
        }
        let mut features = parts.flat_map(|features| features.split(u8::is_ascii_whitespace));
        is_atomic |= features.any(|feature| feature == b"atomic");
    }
    let mut bytes = Vec::new();
    Packet::text("version=1\n").encode(&mut bytes)?;
    Packet::Flush.encode(&mut bytes)?;
    writer.write_all(&bytes).await?;
    Ok(Some((push, is_atomic)))
}

async fn commands<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Vec<Command>> {
    let mut commands = Vec::new();
    loop {
        let Some(packet) = Packet::read(reader).await? else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        let Some(line) = packet.line() else { return Ok(commands) };
        let command = parse(line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a ref command"))?;
        if commands.len() == MAX_COMMANDS {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too many ref commands"));
        }
        commands.push(command);
    }
}

/// `<old id> <new id> <ref>`.
fn parse(line: &[u8]) -> Option<Command> {
    let (old, rest) = line.split_at_checked(40)?;
    let (new, name) = rest.strip_prefix(b" ")?.split_at_checked(40)?;
    Some(Command { name: name.strip_prefix(b" ")?.to_vec(), old: id(old)?, new: id(new)? })
}

/// An id; the inner `None` for zeros.
fn id(digits: &[u8]) -> Option<Option<Oid>> {
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let id = Oid::from_str(std::str::from_utf8(digits).ok()?).ok()?;
    Some((!id.is_zero()).then_some(id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_two_ids_and_a_name() {
        let (zero, one) = ("0".repeat(40), "1".repeat(40));
        let command = parse(format!("{zero} {one} refs/heads/a b").as_bytes()).unwrap();
        assert_eq!(
            (command.old, command.new.unwrap().to_string(), command.name.as_slice()),
            (None, one.clone(), &b"refs/heads/a b"[..])
        );
        for wrong in [
            String::new(),
            zero.clone(),
            format!("{zero} {one}"),
            format!("{zero} {one}refs/x"),
            format!("{} {one} x", "g".repeat(40)),
        ] {
            assert!(parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_a_command_or_none(line in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some(command) = parse(&line) {
                prop_assert_eq!(&line[82..], &command.name[..]);
            }
        }
    }

    #[test]
    fn the_hook_is_replaced_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("incoming")).unwrap();
        for program in ["/bin/true", "/bin/false"] {
            let hooks = install_hook(folder.path(), Path::new(program)).unwrap();
            assert_eq!(fs::read_link(hooks.join("proc-receive")).unwrap(), Path::new(program));
        }
    }
}
