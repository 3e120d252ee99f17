//! Archives, pushes and fetches that are small for the client and large for the server.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ferrite_benches::{Failure, git};
use reqwest::Method;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

use super::{Attacker, Outcome};
use crate::material::{ATTACKER, feed};

/// Response bytes after which an attacker stops reading.
const ENOUGH_BYTES: u64 = 512 << 20;
const MESSAGE_BYTES: usize = 60 << 20;
/// Size of a file of zeros, which deflate compresses to a thousandth.
const ZERO_BYTES: usize = 128 << 20;
/// Concurrent pushes of it.
const ZERO_PUSHES: usize = 4;
const PARENTS: usize = 200_000;
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(30);
const WHO: &str = "Mallory <mallory@example.com> 1700000000 +0000";

/// Requests the archive of one of the commits, so that few are cached.
pub(super) async fn subst_archive(attacker: &Attacker, number: usize) -> Result<Vec<Outcome>, Failure> {
    let folder = attacker.folder.join("subst");
    let commit = git::text(&folder, &["rev-parse", &format!("main~{}", number % 10)]).await?;
    let path = format!("/repos/{ATTACKER}/subst/archive/{commit}.tar.gz");
    let mut answer = attacker.request(Method::GET, &path).send().await?;
    let (status, mut bytes) = (answer.status().as_u16().to_string(), 0);
    while let Some(chunk) = answer.chunk().await? {
        bytes += chunk.len() as u64;
    }
    Ok(vec![Outcome::new(status, bytes)])
}

/// Requests an archive with `git archive --remote`.
pub(super) async fn archive_over_ssh(attacker: &Attacker, name: &str) -> Result<Vec<Outcome>, Failure> {
    let remote = attacker.ssh.replacen("/subst.git", &format!("/{name}.git"), 1);
    let mut command = git::git(&attacker.folder, &["archive", &format!("--remote={remote}"), "main"]);
    let options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o IdentitiesOnly=yes";
    command.env("GIT_SSH_COMMAND", format!("ssh -F none {options} -i {}", attacker.key.display()));
    let mut child = command.stderr(Stdio::null()).spawn()?;
    let mut output = child.stdout.take().ok_or("no standard output")?;
    let (mut bytes, mut buffer) = (0, vec![0; 64 << 10]);
    let reading = async {
        while bytes < ENOUGH_BYTES {
            match output.read(&mut buffer).await? {
                0 => return Ok::<_, std::io::Error>(true),
                length => bytes += length as u64,
            }
        }
        Ok(false)
    };
    let answer = match tokio::time::timeout(ARCHIVE_TIMEOUT, reading).await {
        Err(_) => "no end".to_owned(),
        Ok(Ok(true)) => child.wait().await?.code().map_or("killed".to_owned(), |code| format!("exit {code}")),
        Ok(_) => "more than enough".to_owned(),
    };
    let _ = child.kill().await;
    Ok(vec![Outcome::new(answer, bytes)])
}

/// Pushes a commit with a message of 60 MiB.
pub(super) async fn push_long_message(attacker: &Attacker, number: usize) -> Result<Vec<Outcome>, Failure> {
    let tree = tree(attacker).await?;
    let mut commit = format!("tree {tree}\nauthor {WHO}\ncommitter {WHO}\n\nnumber {number}\n").into_bytes();
    commit.resize(commit.len() + MESSAGE_BYTES, b'm');
    push_object(attacker, &commit, "long-message").await
}

/// Pushes a commit with very many identical parents.
pub(super) async fn push_many_parents(attacker: &Attacker, number: usize) -> Result<Vec<Outcome>, Failure> {
    let tree = tree(attacker).await?;
    let parent = git::text(&attacker.folder.join("sparse"), &["rev-parse", "main"]).await?;
    let parents = format!("parent {parent}\n").repeat(PARENTS);
    let commit = format!("tree {tree}\n{parents}author {WHO}\ncommitter {WHO}\n\nnumber {number}\n");
    push_object(attacker, commit.as_bytes(), "many-parents").await
}

async fn tree(attacker: &Attacker) -> Result<String, Failure> {
    git::text(&attacker.folder.join("sparse"), &["rev-parse", "main^{tree}"]).await
}

async fn push_object(attacker: &Attacker, commit: &[u8], branch: &str) -> Result<Vec<Outcome>, Failure> {
    let folder = attacker.folder.join("sparse");
    let arguments = ["hash-object", "-t", "commit", "-w", "--literally", "--stdin"];
    let id = feed(git::git(&folder, &arguments), commit).await?;
    let answer = push(&attacker.remote("sparse"), &folder, &id, &format!("refs/heads/{branch}")).await;
    Ok(vec![Outcome::new(answer, commit.len() as u64)])
}

/// Pushes a file of zeros, several times concurrently.
pub(super) async fn push_zeros(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    let folder = attacker.folder.join("zeros");
    if !folder.exists() {
        std::fs::create_dir_all(&folder)?;
        git::run(&folder, &["init", "--quiet", "--bare", "--initial-branch=main"]).await?;
        let id = feed(git::git(&folder, &["hash-object", "-w", "--stdin"]), &vec![0; ZERO_BYTES]).await?;
        git::run(&folder, &["update-ref", "refs/tags/zeros", &id]).await?;
        // Packed, so that a push costs the attacker nothing.
        git::run(&folder, &["repack", "-adq"]).await?;
    }
    let id = git::text(&folder, &["rev-parse", "refs/tags/zeros"]).await?;
    let mut pushes = JoinSet::new();
    for number in 0..ZERO_PUSHES {
        let (remote, folder, id) = (attacker.remote("sparse"), folder.clone(), id.clone());
        pushes.spawn(async move { push(&remote, &folder, &id, &format!("refs/tags/zeros-{number}")).await });
    }
    let answers = pushes.join_all().await;
    Ok(answers.into_iter().map(|answer| Outcome::new(answer, ZERO_BYTES as u64)).collect())
}

/// Pushes an object to a ref, and returns a short form of the response.
async fn push(remote: &str, folder: &Path, id: &str, name: &str) -> String {
    let target = format!("+{id}:{name}");
    let pushed = git::run(folder, &["push", "--quiet", remote, &target]).await;
    let Err(failure) = pushed else { return "pushed".to_owned() };
    let text = failure.to_string();
    text.lines()
        .find(|line| line.contains("remote: ") || line.contains("rejected"))
        .map_or_else(|| "refused".to_owned(), |line| line.replace(id, "ID").chars().take(80).collect::<String>())
}

/// Fetches with a filter whose patterns are compared with every path.
pub(super) async fn sparse_filter(attacker: &Attacker, number: usize) -> Result<Vec<Outcome>, Failure> {
    let patterns = git::text(&attacker.folder.join("sparse"), &["rev-parse", "main:patterns"]).await?;
    let target = attacker.folder.join(format!("filtered-{number}"));
    let filter = format!("--filter=sparse:oid={patterns}");
    let url = attacker.remote("sparse");
    let path = target.display().to_string();
    let cloned = git::run(&attacker.folder, &["clone", "--quiet", "--bare", &filter, &url, &path]).await;
    let _ = std::fs::remove_dir_all(&target);
    Ok(vec![Outcome::new(if cloned.is_ok() { "served" } else { "refused" }, 0)])
}
