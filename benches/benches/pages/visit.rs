//! The measured pages, and what a browser loads for one with an empty cache.

use std::collections::BTreeSet;

use clap::ValueEnum;
use ferrite_benches::Failure;
use ferrite_benches::installation::{bytes_of, client};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Page {
    /// The page of a repository with a README.
    Home,
    /// A folder of 100 files.
    Tree,
    /// A file of 500 lines.
    File,
    /// A commit that changes five files.
    Commit,
    /// An issue with 20 comments.
    Issue,
    /// The blame of the file of 500 lines, from 50 commits.
    Blame,
}

impl Page {
    pub(crate) const ALL: [Self; 6] = [Self::Home, Self::Tree, Self::File, Self::Commit, Self::Issue, Self::Blame];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Tree => "tree",
            Self::File => "file",
            Self::Commit => "commit",
            Self::Issue => "issue",
            Self::Blame => "blame",
        }
    }
}

/// The requests and bytes of a first visit.
pub(crate) struct Cold {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

/// Opens a page with its style sheets and pictures, as a browser does that has none of them.
pub(crate) async fn cold(url: &str, path: &str) -> Result<Cold, Failure> {
    let client = client()?;
    let load =
        async |path: &str| bytes_of(client.get(format!("{url}{path}")).header("accept-encoding", "gzip"), 200).await;
    let page = bytes_of(client.get(format!("{url}{path}")), 200).await?;
    let html = String::from_utf8_lossy(&page);
    let mut cold = Cold { requests: 1, bytes: load(path).await?.len() };
    for part in parts(&html) {
        cold.bytes += load(&part).await?.len();
        cold.requests += 1;
    }
    Ok(cold)
}

/// Paths of the style sheets and pictures of a page.
fn parts(html: &str) -> BTreeSet<String> {
    let values = |start: &'static str| {
        html.split(start).skip(1).filter_map(|rest| rest.split('"').next()).filter(|value| value.starts_with('/'))
    };
    let parts = values("rel=\"stylesheet\" href=\"").chain(values(" src=\""));
    parts.map(|part| part.replace("&#38;", "&").replace("&amp;", "&")).collect()
}
