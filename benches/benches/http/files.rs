//! A repository with many files, and a branch that changes a few of them and has commit statuses.

use std::path::Path;

use ferrite_benches::Failure;
use ferrite_benches::git;
use ferrite_benches::history::{Import, MAIN};
use ferrite_benches::installation::Installation;
use serde_json::json;

pub(crate) const REPOSITORY: &str = "files";
/// The branch with the changes, one commit ahead of [`MAIN`].
pub(crate) const BRANCH: &str = "change";
/// Files that the branch changes.
const CHANGED: usize = 10;
const FILES_OF_FOLDER: usize = 100;
const LINES: usize = 40;
/// Statuses of the branch's commit.
const STATUSES: usize = 5;

/// Creates the repository with `count` files and pushes both branches.
pub(crate) async fn push(installation: &Installation, folder: &Path, count: usize) -> Result<(), Failure> {
    installation.create("/user/repos", &json!({"name": REPOSITORY})).await?;
    let history = folder.join("files.git");
    let mut import = Import::begin(&history)?;
    import.commit(MAIN, 1, &[])?;
    for number in 0..count {
        import.file(&path(number), text(number, "as it was").as_bytes())?;
    }
    import.commit(BRANCH, 2, &[":1".to_owned()])?;
    // Spread over all folders.
    for number in (0..count).step_by((count / CHANGED).max(1)).take(CHANGED) {
        import.file(&path(number), text(number, "changed").as_bytes())?;
    }
    import.end()?;
    git::run(&history, &["push", "--quiet", &installation.remote(REPOSITORY), MAIN, BRANCH]).await?;
    let head = git::text(&history, &["rev-parse", BRANCH]).await?;
    let statuses = format!("/repos/{}/{REPOSITORY}/statuses/{head}", ferrite_benches::installation::USER);
    for number in 0..STATUSES {
        let status = json!({"state": "success", "context": format!("ci/{number}"), "description": "All passed"});
        installation.create(&statuses, &status).await?;
    }
    Ok(())
}

fn path(number: usize) -> String {
    format!("folder-{}/file-{number}.txt", number / FILES_OF_FOLDER)
}

/// Content of a file. Only the line in the middle has `what`.
fn text(number: usize, what: &str) -> String {
    let line = |line: usize| match line {
        _ if line == LINES / 2 => format!("Line {line} of file {number}, {what}\n"),
        _ => format!("Line {line} of file {number}\n"),
    };
    (0..LINES).map(line).collect()
}
