//! Reads: a file, the log, branches.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferrite_benches::installation::{bytes_of, json_of};
use ferrite_benches::{Failure, git};
use ferrite_proto::grant::{Grant, Signer};
use ferrite_proto::{Permission, metadata, operation};
use reqwest::Method;

use super::calls::calls;
use super::{MANY_REFS, inside};
use crate::report::{Row, Sample, Series, mean_cpu, median, wall};
use crate::servers::{LARGE, Servers, Side};

/// A file by its path: through the gateway, and directly from git-svc.
pub(super) async fn blob(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let name = format!("{}:{}", servers.large.branch, servers.large.file);
    let path = servers.ferrite.repo(LARGE, &format!("/raw/{}/{}", servers.large.branch, servers.large.file));
    let repository = servers.daemon.path(LARGE);
    let (ours, git) = calls(servers, async |side| match side {
        Side::Ours => bytes_of(servers.ferrite.api(Method::GET, &path), 200).await.map(drop),
        Side::Git => git::run(&repository, &["cat-file", "blob", &name]).await.map(drop),
    })
    .await?;
    let (inside, direct) = (inside::blob(servers).await?, direct(servers).await?);
    Ok(vec![
        Row::ratio("blob by path, hot, in git-svc: wall", &wall(&inside), &wall(&git), 0.02),
        Row::compared("blob by path, hot, from git-svc's socket: wall", &wall(&direct), &wall(&git)),
        Row::ratio("blob by path, hot, over REST: wall", &wall(&ours), &wall(&git), 0.5),
        Row::compared("blob by path, hot, over REST: CPU", &mean_cpu(&ours), &mean_cpu(&git)),
    ])
}

/// Requests the file from git-svc's socket, with a grant like the gateway's.
async fn direct(servers: &Servers) -> Result<Series, Failure> {
    let data = servers.ferrite.data();
    let repository = servers.ferrite.id(LARGE).await?;
    let signer = Signer::from_pem(&std::fs::read(data.join("keys/grant.pem"))?)?;
    let grant = Grant {
        repository,
        operation: operation::RAW.to_owned(),
        permission: Permission::Read,
        issues_enabled: true,
        pulls_enabled: true,
        store: "default".into(),
        epoch: 1,
        ..Grant::default()
    };
    let path = format!("{}/{}", servers.large.branch, servers.large.file).replace('/', "%2F");
    let mut series = Series::default();
    for _ in 0..servers.scale.rounds {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let grant = signer.sign(grant.clone(), now, Duration::from_secs(60));
        let request = format!(
            "GET /git/{repository}/raw?path={path} HTTP/1.1\r\nhost: git\r\n{}: {grant}\r\n\r\n",
            metadata::GRANT
        );
        let mut stream = UnixStream::connect(data.join("run/git.sock"))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut times = Vec::new();
        for number in 0..servers.scale.calls * 6 {
            let begin = Instant::now();
            ask(&mut stream, request.as_bytes())?;
            if number >= servers.scale.calls {
                times.push(begin.elapsed());
            }
        }
        let wall = Duration::from_secs_f64(median(times.into_iter()) / 1e3);
        series.push(Sample { wall, cpu: Duration::ZERO });
    }
    Ok(series)
}

/// Sends a request on an open connection and reads the whole response.
fn ask(stream: &mut UnixStream, request: &[u8]) -> Result<(), Failure> {
    stream.write_all(request)?;
    let (mut answer, mut piece) = (Vec::new(), [0; 16 << 10]);
    let mut wanted = None;
    while wanted.is_none_or(|wanted| answer.len() < wanted) {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err("git-svc closes the connection".into());
        }
        answer.extend(&piece[..count]);
        if wanted.is_none()
            && let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
            if !head.starts_with("http/1.1 200") {
                return Err(format!("git-svc answers: {head}").into());
            }
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).ok_or("no length")?;
            wanted = Some(end + 4 + length.trim().parse::<usize>()?);
        }
    }
    Ok(())
}

/// The first fifty commits, or all if fewer.
pub(super) async fn log(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let path = servers.ferrite.repo(LARGE, "/commits?limit=50&stat=false&files=false");
    let repository = servers.daemon.path(LARGE);
    let wanted = git::text(&repository, &["rev-list", "--count", "-n", "50", "HEAD"]).await?.parse()?;
    let (ours, git) = calls(servers, async |side| match side {
        Side::Ours => count(&json_of(servers.ferrite.api(Method::GET, &path), 200).await?, wanted),
        Side::Git => git::run(&repository, &["log", "-50"]).await.map(drop),
    })
    .await?;
    Ok(vec![
        Row::ratio("50 commits of the log, over REST: wall", &wall(&ours), &wall(&git), 0.5),
        Row::compared("50 commits of the log, over REST: CPU", &mean_cpu(&ours), &mean_cpu(&git)),
    ])
}

/// The first hundred of many branches.
pub(super) async fn branches(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let path = servers.ferrite.repo(MANY_REFS, "/branches?limit=100");
    let repository = servers.daemon.path(MANY_REFS);
    let (ours, git) = calls(servers, async |side| match side {
        Side::Ours => count(&json_of(servers.ferrite.api(Method::GET, &path), 200).await?, 100),
        Side::Git => git::run(&repository, &["for-each-ref", "--count=100", "refs/heads"]).await.map(drop),
    })
    .await?;
    let case = format!("100 of {} branches, over REST", servers.scale.refs);
    Ok(vec![
        Row::ratio(&format!("{case}: wall"), &wall(&ours), &wall(&git), 0.2),
        Row::compared(&format!("{case}: CPU"), &mean_cpu(&ours), &mean_cpu(&git)),
    ])
}

fn count(list: &serde_json::Value, wanted: usize) -> Result<(), Failure> {
    let count = list.as_array().map_or(0, Vec::len);
    if count == wanted { Ok(()) } else { Err(format!("{count} instead of {wanted} in the list").into()) }
}
