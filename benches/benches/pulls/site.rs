//! Repositories with branches that change a file each, for pull requests without conflicts.

use std::path::Path;

use ferrite_benches::history::{Import, MAIN};
use ferrite_benches::installation::{Installation, USER};
use ferrite_benches::{Failure, git};
use serde_json::json;

const FILES_OF_FOLDER: usize = 100;
const LINES: usize = 10;
/// Branches of one push.
const PUSHED_AT_ONCE: usize = 200;

/// A branch to be merged into [`MAIN`].
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    repository: String,
    pub(crate) branch: String,
}

impl Pull {
    /// Those of a repository.
    pub(crate) fn of(repository: &str, count: usize) -> Vec<Self> {
        (0..count).map(|number| Self { repository: repository.to_owned(), branch: branch(number) }).collect()
    }

    /// Path of the list.
    pub(crate) fn path(&self) -> String {
        repository_path(&self.repository, "/pulls")
    }
}

/// Path of a repository below `/api/v1`, followed by `rest`.
pub(crate) fn repository_path(repository: &str, rest: &str) -> String {
    format!("/repos/{USER}/{repository}{rest}")
}

fn branch(number: usize) -> String {
    format!("change-{number}")
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

/// Creates a repository with `files` files and pushes [`MAIN`] and its branches. Each branch
/// changes another file.
pub(crate) async fn push(
    installation: &Installation,
    folder: &Path,
    name: &str,
    files: usize,
    branches: usize,
) -> Result<(), Failure> {
    if branches > files {
        return Err(format!("{branches} pull requests conflict in {files} files: each changes another file").into());
    }
    installation.create("/user/repos", &json!({ "name": name })).await?;
    let history = folder.join(format!("{name}.git"));
    let mut import = Import::begin(&history)?;
    import.commit(MAIN, 1, &[])?;
    for number in 0..files {
        import.file(&path(number), text(number, "as it was").as_bytes())?;
    }
    let step = files / branches.max(1);
    for number in 0..branches {
        import.commit(&branch(number), number as u64 + 2, &[":1".to_owned()])?;
        import.file(&path(number * step), text(number * step, "changed").as_bytes())?;
    }
    import.end()?;
    let (remote, names) = (installation.remote(name), (0..branches).map(branch).collect::<Vec<_>>());
    git::run(&history, &["push", "--quiet", &remote, MAIN]).await?;
    for names in names.chunks(PUSHED_AT_ONCE) {
        let refspecs = names.iter().map(String::as_str);
        git::run(&history, &["push", "--quiet", &remote].into_iter().chain(refspecs).collect::<Vec<_>>()).await?;
    }
    Ok(())
}
