//! A repository with a history, pushed to an installation, and an issue with comments.

use std::path::{Path, PathBuf};

use ferrite_benches::Failure;
use ferrite_benches::databases::Databases;
use ferrite_benches::git;
use ferrite_benches::history::{Import, MAIN};
use ferrite_benches::installation::{Installation, Settings, USER};
use serde_json::json;

use crate::visit::Page;

const REPOSITORY: &str = "demo";
const FILES: usize = 100;
const LINES: usize = 500;
/// Commits that change the file of 500 lines, ten lines each.
const COMMITS: usize = 50;
const COMMENTS: usize = 20;
/// Files of the last commit.
const CHANGED: usize = 5;
/// Without these settings, the bench would reach the limits of one user.
const SETTINGS: Settings = &[("FERRITE_ISSUE_COMMENTS_PER_HOUR", "0"), ("FERRITE_ISSUE_TEXT_BYTES_PER_HOUR", "0")];

pub(crate) struct Site {
    pub(crate) installation: Installation,
    /// The pushed repository.
    pub(crate) history: PathBuf,
    /// Id of the last commit.
    commit: String,
}

impl Site {
    pub(crate) async fn new(folder: &Path, is_full: bool) -> Result<Self, Failure> {
        let data = folder.join("data");
        let installation = Installation::new(Databases::in_folder(&data), &data, 0, SETTINGS).await?;
        let history = folder.join("demo.git");
        import(&history)?;
        installation.create("/user/repos", &json!({"name": REPOSITORY, "description": "A repository"})).await?;
        git::run(&history, &["push", "--quiet", &installation.remote(REPOSITORY), MAIN]).await?;
        let commit = git::text(&history, &["rev-parse", MAIN]).await?;
        let issues = format!("/repos/{USER}/{REPOSITORY}/issues");
        let text = "Some **text** with `code`, a [link](https://example.com) and\n\n- a list\n- of things\n".repeat(3);
        installation.create(&issues, &json!({"title": "An issue", "body": text})).await?;
        for _ in 0..if is_full { COMMENTS } else { 1 } {
            installation.create(&format!("{issues}/1/comments"), &json!({"body": text})).await?;
        }
        Ok(Self { installation, history, commit })
    }

    /// The path of a page.
    pub(crate) fn path(&self, page: Page) -> String {
        let rest = match page {
            Page::Home => String::new(),
            Page::Tree => format!("/src/branch/{MAIN}/src"),
            Page::File => format!("/src/branch/{MAIN}/{}", file(0)),
            Page::Commit => format!("/commit/{}", self.commit),
            Page::Issue => "/issues/1".to_owned(),
            Page::Blame => format!("/blame/branch/{MAIN}/{}", file(0)),
        };
        format!("/{USER}/{REPOSITORY}{rest}")
    }

    /// The path of the same page in cgit, which has no issues.
    pub(crate) fn cgit_path(&self, page: Page) -> Option<String> {
        let rest = match page {
            Page::Home => "about/".to_owned(),
            Page::Tree => format!("tree/src?h={MAIN}"),
            Page::File => format!("tree/{}?h={MAIN}", file(0)),
            Page::Commit => format!("commit/?id={}", self.commit),
            Page::Issue => return None,
            Page::Blame => format!("blame/{}?h={MAIN}", file(0)),
        };
        Some(format!("/cgit.cgi/{REPOSITORY}.git/{rest}"))
    }
}

fn file(number: usize) -> String {
    format!("src/file_{number}.rs")
}

/// A line of a file after this many changes of it.
fn line(file: usize, line: usize, changes: usize) -> String {
    format!("    let value_{line} = compute(\"{file}\", {changes}, {line}); // Line {line}\n")
}

fn import(repository: &Path) -> Result<(), Failure> {
    let mut import = Import::begin(repository)?;
    import.commit(MAIN, 1, &[])?;
    import.file("README.md", "# Demo\n\nText with `code` and a [link](src).\n\n".repeat(5).as_bytes())?;
    for number in 0..FILES {
        import.file(&file(number), content(number, 0).as_bytes())?;
    }
    for commit in 1..=COMMITS {
        import.commit(MAIN, commit as u64 + 1, &[])?;
        import.file(&file(0), content(0, commit).as_bytes())?;
        let others = if commit == COMMITS { CHANGED } else { 2 };
        for number in 1..others {
            let changes = if number == 1 { commit } else { 1 };
            import.file(&file(number), content(number, changes).as_bytes())?;
        }
    }
    import.end()
}

/// The file after `commit` commits, each of which changed the next ten lines.
fn content(number: usize, commit: usize) -> String {
    let changed = |place: usize| if place / 10 < commit { place / 10 + 1 } else { 0 };
    (0..LINES).map(|place| line(number, place, changed(place))).collect()
}
