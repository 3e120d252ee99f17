//! Diffs: comparisons, commits with what they changed, and their text.

use ferrite_benches::installation::{bytes_of, json_of};
use ferrite_benches::{Failure, git};
use reqwest::Method;
use serde_json::Value;

use super::calls::calls;
use crate::report::{Row, mean_cpu, wall};
use crate::servers::{LARGE, Servers, Side};

/// Files of the comparison, at least.
const FILES: usize = 10;

/// Returns the nearest ancestor of the newest commit from which it differs by [`FILES`] files, or
/// the farthest one known.
async fn base(servers: &Servers) -> Result<(String, usize), Failure> {
    let (repository, commits) = (servers.daemon.path(LARGE), &servers.large.commits);
    let head = commits.first().ok_or("the repository has no commits")?;
    let mut found = None;
    for commit in commits.iter().skip(1) {
        let files = git::text(&repository, &["diff", "--name-only", commit, head]).await?.lines().count();
        found = Some((commit.clone(), files));
        if files >= FILES {
            break;
        }
    }
    found.ok_or_else(|| "the repository has one commit only".into())
}

pub(super) async fn diffs(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let (base, files) = base(servers).await?;
    let head = &servers.large.commits[0];
    let (path, repository) = (|rest: String| servers.ferrite.repo(LARGE, &rest), servers.daemon.path(LARGE));
    let compare = path(format!("/compare/{base}...{head}?stat=false&files=false"));
    let range = format!("{base}...{head}");
    let (ours, git) = calls(servers, async |side| match side {
        Side::Ours => {
            let shown = json_of(servers.ferrite.api(Method::GET, &compare), 200).await?;
            length(&shown["files"], files)
        }
        Side::Git => git::run(&repository, &["diff", "--numstat", &range]).await.map(drop),
    })
    .await?;
    let mut rows = vec![
        Row::ratio(&format!("comparison of {files} files, over REST: wall"), &wall(&ours), &wall(&git), 2.0),
        Row::compared(&format!("comparison of {files} files, over REST: CPU"), &mean_cpu(&ours), &mean_cpu(&git)),
    ];
    let commit = path(format!("/git/commits/{head}"));
    let (ours, git) = calls(servers, async |side| match side {
        Side::Ours => {
            let shown = json_of(servers.ferrite.api(Method::GET, &commit), 200).await?;
            if shown["stats"].is_object() { Ok(()) } else { Err("the commit has no stats".into()) }
        }
        Side::Git => git::run(&repository, &["show", "--numstat", "--first-parent", "-m", head]).await.map(drop),
    })
    .await?;
    rows.push(Row::ratio("commit with its files, over REST: wall", &wall(&ours), &wall(&git), 2.0));
    let list = path("/commits?limit=50".to_owned());
    let (ours, git) = calls(servers, async |side| match side {
        Side::Ours => {
            let shown = json_of(servers.ferrite.api(Method::GET, &list), 200).await?;
            let has_stats = shown.as_array().is_some_and(|all| all.iter().all(|one| one["stats"].is_object()));
            if has_stats { Ok(()) } else { Err("a commit has no stats".into()) }
        }
        Side::Git => git::run(&repository, &["log", "-50", "--numstat", "--first-parent", "-m"]).await.map(drop),
    })
    .await?;
    rows.push(Row::ratio("50 commits with their files, over REST: wall", &wall(&ours), &wall(&git), 1.5));
    let text = path(format!("/git/commits/{head}.diff"));
    let parent = format!("{head}^1");
    let (ours, git) = calls(servers, async |side| match side {
        Side::Ours => bytes_of(servers.ferrite.api(Method::GET, &text), 200).await.map(drop),
        Side::Git => git::run(&repository, &["diff", &parent, head]).await.map(drop),
    })
    .await?;
    rows.push(Row::compared("diff of a commit as text, hot, over REST: wall", &wall(&ours), &wall(&git)));
    Ok(rows)
}

fn length(list: &Value, wanted: usize) -> Result<(), Failure> {
    let count = list.as_array().map_or(0, Vec::len);
    if count == wanted { Ok(()) } else { Err(format!("{count} instead of {wanted} files").into()) }
}
