//! Describes branch updates for events: the commits added, with messages, authors and changed
//! paths.
//!
//! Limits apply to the commits read for all updates together, the tree entries compared, and the
//! size of the result. Each commit may use an even share of what is left.

use git2::{ObjectType, Oid, Repository};

use super::{
    changes::{ChangedPaths, TreeComparison},
    commit::{CommitBounds, Signature, bounded_commit, time_and_parents, unreadable_commit},
    deadline::Deadline,
    pushed::{MAX_READ_COMMITS, NewCommits, beginning, new_commits},
};
use crate::{
    repo::{
        refs::{self, RefTable},
        revision::peel,
    },
    types::{error::GitError, name::BranchName},
};

/// Maximum number of updates per request.
pub const MAX_DESCRIBED_UPDATES: usize = 64;
/// Maximum number of commits per update.
pub const MAX_DESCRIBED_COMMITS: usize = 20;
/// Maximum number of paths per list of a commit.
pub const MAX_CHANGED_PATHS: usize = 1000;
/// Longest message, in bytes.
pub const MAX_DESCRIBED_MESSAGE_BYTES: usize = 64 << 10;
const MAX_DESCRIPTION_BYTES: usize = 2 << 20;
/// Response bytes per commit besides its texts, and per update and for the head.
const OVERHEAD_BYTES: usize = 128;
/// Longest name or address, in bytes.
const MAX_IDENTITY_BYTES: usize = 256;
/// Slightly more than the longest texts, to detect longer ones.
const READ_BOUNDS: CommitBounds =
    CommitBounds { message_bytes: MAX_DESCRIBED_MESSAGE_BYTES + 8, parents: 2, identity_bytes: MAX_IDENTITY_BYTES + 8 };
/// Commits that every walk may read, even if earlier ones used up [`MAX_READ_COMMITS`].
const MIN_READ_COMMITS: usize = 1000;
/// Branches, first by name, whose commits a new branch does not count as added.
const MAX_OTHER_BRANCHES: usize = 10_000;
const MAX_COMPARED_ENTRIES: usize = 1_000_000;

/// A changed ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedRef {
    /// The full name.
    pub name: Vec<u8>,
    /// The old object; zero if the ref was created.
    pub old: Oid,
    /// The new object; zero if the ref was deleted.
    pub new: Oid,
}

/// Limits of descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptionLimits {
    /// Maximum number of commits per update.
    pub commits: usize,
    /// Maximum number of paths per list of a commit.
    pub paths: usize,
    /// Longest message, in bytes.
    pub message_bytes: usize,
}

/// An author or committer, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
    /// Seconds since 1970.
    pub seconds: i64,
}

/// A commit with its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedCommit {
    /// The commit's id.
    pub id: Oid,
    /// Start of the message.
    pub message: String,
    /// Whether the message was cut.
    pub is_message_cut: bool,
    /// The author.
    pub author: Person,
    /// The committer.
    pub committer: Person,
    /// The paths that differ from the parent; none for a merge.
    pub paths: ChangedPaths,
}

/// The commits added by an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateDescription {
    /// The newest commits, each before its parents.
    pub commits: Vec<DescribedCommit>,
    /// Number of commits added.
    pub total: usize,
    /// Whether objects of the update are gone.
    pub is_missing: bool,
    /// The commit at the new end, if `commits` is empty.
    pub head: Option<DescribedCommit>,
}

/// The tip of the default branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadDescription {
    /// The branch.
    pub branch: BranchName,
    /// Its tip.
    pub commit: DescribedCommit,
    /// The first parent of the tip.
    pub parent: Option<Oid>,
}

/// Descriptions of updates of one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptions {
    /// One per update, in the order of the request.
    pub updates: Vec<UpdateDescription>,
    /// The head, if requested and present.
    pub head: Option<HeadDescription>,
}

/// A request to describe updates.
#[derive(Clone, Debug)]
pub struct DescriptionRequest {
    /// The changed refs.
    pub refs: Vec<DescribedRef>,
    /// Whether to describe the tip of the default branch too.
    pub with_head: bool,
    /// Limits of the response.
    pub limits: DescriptionLimits,
    /// Whether an update with missing objects gets an empty description instead of an error.
    pub allows_missing: bool,
}

/// Describes updates. `table` has the current refs.
pub fn describe(
    repo: &Repository,
    table: &RefTable,
    request: &DescriptionRequest,
    deadline: &Deadline,
) -> Result<Descriptions, GitError> {
    let mut reads_left = MAX_READ_COMMITS;
    let mut found = Vec::with_capacity(request.refs.len());
    for index in 0..request.refs.len() {
        let max_read = reads_left.max(MIN_READ_COMMITS);
        let brought = request.unless_missing(brought(repo, table, request, index, max_read, deadline))?;
        reads_left = reads_left.saturating_sub(brought.as_ref().map_or(0, |brought| brought.commits.read));
        found.push(brought);
    }
    let head = if request.with_head { Some(refs::head(repo)?) } else { None };
    let tip = head.and_then(|head| Some((head.branch, head.tip?)));
    let commits = found.iter().flatten().map(Brought::len).sum::<usize>();
    let mut writer = Writer {
        repo,
        limits: request.limits,
        bytes_left: MAX_DESCRIPTION_BYTES - OVERHEAD_BYTES * (found.len().min(MAX_DESCRIBED_UPDATES) + 1),
        commits_left: commits + usize::from(tip.is_some()),
        entries_left: MAX_COMPARED_ENTRIES,
        deadline,
    };
    let mut updates = Vec::with_capacity(found.len());
    for brought in found {
        let update = brought.map(|brought| request.unless_missing(writer.update(&brought))).transpose()?.flatten();
        updates.push(update.unwrap_or(UpdateDescription { is_missing: true, ..UpdateDescription::default() }));
    }
    let head = tip.map(|(branch, tip)| request.unless_missing(writer.head(branch, tip))).transpose()?.flatten();
    Ok(Descriptions { updates, head })
}

impl DescriptionRequest {
    /// Turns the error of a missing object into `None` if the request allows it.
    fn unless_missing<T>(&self, result: Result<T, GitError>) -> Result<Option<T>, GitError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if self.allows_missing && error.is_missing_object() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What an update brought to its ref.
#[derive(Default)]
struct Brought {
    commits: NewCommits,
    /// The new end, unless it is among the commits.
    head: Option<Oid>,
}

impl Brought {
    fn new(commits: NewCommits, new: Oid) -> Self {
        let head = commits.newest.is_empty().then_some(new);
        Self { commits, head }
    }

    /// The number of commits to describe.
    fn len(&self) -> usize {
        self.commits.newest.len() + usize::from(self.head.is_some())
    }
}

/// Returns the commits added by the update at `index`; none for deleted refs and non-commits.
fn brought(
    repo: &Repository,
    table: &RefTable,
    request: &DescriptionRequest,
    index: usize,
    max_read: usize,
    deadline: &Deadline,
) -> Result<Brought, GitError> {
    let update = &request.refs[index];
    let limits = (request.limits.commits, max_read);
    let Some(new) = commit_of(repo, update.new)? else { return Ok(Brought::default()) };
    if !update.old.is_zero() {
        let old = commit_of(repo, update.old)?;
        return Ok(Brought::new(new_commits(repo, old, new, limits, deadline)?, new));
    }
    // Of two branches created together, the first gets the commits of both.
    let is_later = |name: &[u8]| request.refs[index..].iter().any(|other| other.old.is_zero() && other.name == name);
    let branches = table.rows(table.span(b"refs/heads/")).filter(|branch| branch.kind == ObjectType::Commit);
    let others = branches.filter(|branch| !is_later(branch.name.as_bytes())).map(|branch| branch.target);
    let mut commits = new_commits(repo, others.take(MAX_OTHER_BRANCHES), new, limits, deadline)?;
    if commits.newest.is_empty() {
        (commits.newest, commits.total) = (vec![new], 1);
    }
    Ok(Brought::new(commits, new))
}

/// Peels an object to a commit; `None` for the zero id and for other objects.
fn commit_of(repo: &Repository, id: Oid) -> Result<Option<Oid>, GitError> {
    if id.is_zero() {
        return Ok(None);
    }
    // A missing object is an error here; behind a tag it is not.
    repo.odb()?.read_header(id)?;
    peel(repo, id)
}

struct Writer<'a> {
    repo: &'a Repository,
    limits: DescriptionLimits,
    bytes_left: usize,
    commits_left: usize,
    entries_left: usize,
    deadline: &'a Deadline,
}

impl Writer<'_> {
    fn update(&mut self, brought: &Brought) -> Result<UpdateDescription, GitError> {
        let commits = brought.commits.newest.iter().map(|id| self.commit(*id)).collect::<Result<_, _>>()?;
        let head = brought.head.map(|id| self.commit(id)).transpose()?;
        Ok(UpdateDescription { commits, total: brought.commits.total, is_missing: false, head })
    }

    fn head(&mut self, branch: BranchName, tip: Oid) -> Result<HeadDescription, GitError> {
        let (_, parents) = time_and_parents(self.repo, tip)?;
        let parent = parents.first().copied();
        Ok(HeadDescription { branch, commit: self.commit(tip)?, parent })
    }

    fn commit(&mut self, id: Oid) -> Result<DescribedCommit, GitError> {
        let share = self.bytes_left / self.commits_left.max(1);
        self.commits_left = self.commits_left.saturating_sub(1);
        let commit = match bounded_commit(self.repo, id, &READ_BOUNDS) {
            Err(error) if error.is_unreadable() => unreadable_commit(id),
            commit => commit?,
        };
        let (author, committer) = (Person::of(&commit.author), Person::of(&commit.committer));
        let left = share.saturating_sub(OVERHEAD_BYTES + author.bytes() + committer.bytes());
        let message = beginning(&commit.message, self.limits.message_bytes.min(left / 2));
        let is_message_cut = commit.message.len() > message.len();
        let mut left = left - message.len();
        let mut comparison = TreeComparison {
            repo: self.repo,
            max_paths: self.limits.paths,
            bytes_left: &mut left,
            entries_left: &mut self.entries_left,
            deadline: self.deadline,
            paths: ChangedPaths::default(),
        };
        // The merged commits already list the changes of a merge.
        if commit.parents.len() < 2 {
            comparison.compare_commits(commit.parents.first().copied(), id)?;
        }
        let paths = comparison.paths;
        self.bytes_left = self.bytes_left.saturating_sub(share - left.min(share));
        Ok(DescribedCommit { id, message, is_message_cut, author, committer, paths })
    }
}

impl Person {
    fn of(signature: &Signature) -> Self {
        let text = |text: &str| beginning(text, MAX_IDENTITY_BYTES);
        Self { name: text(&signature.name), email: text(&signature.email), seconds: signature.seconds }
    }

    fn bytes(&self) -> usize {
        self.name.len() + self.email.len()
    }
}
