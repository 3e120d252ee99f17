//! Repositories as seen by a caller.

use ferrite_proto::{Permission, repo};
use serde::Serialize;

use super::convert::{MissingField, Time, require};
use super::user::User;
use crate::links::Links;

/// The caller, as far as responses depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// No credentials: email addresses are blank.
    Anonymous,
    /// With credentials.
    Authenticated,
}

crate::shape! {
    /// A repository as seen by the caller.
    #[derive(Clone, Debug, Serialize)]
    pub struct Repository {
        id: i64,
        owner: User,
        name: String,
        full_name: String,
        description: String,
        /// The most used language on the default branch, by bytes; empty if there is none.
        language: String,
        private: bool,
        /// Whether only members of its organization see it, although it is not private.
        internal: bool,
        fork: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<Box<Repository>>,
        empty: bool,
        mirror: bool,
        /// The size in bytes.
        size: i64,
        url: String,
        html_url: String,
        ssh_url: String,
        clone_url: String,
        languages_url: String,
        /// The address that it was imported from. Only for administrators of the repository.
        #[serde(skip_serializing_if = "Option::is_none")]
        original_url: Option<String>,
        website: String,
        stars_count: i64,
        forks_count: i64,
        watchers_count: i64,
        open_issues_count: i64,
        /// The number of open pull requests.
        open_pr_counter: i64,
        /// The number of published releases.
        release_counter: i64,
        default_branch: String,
        object_format_name: ObjectFormat,
        archived: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        archived_at: Option<Time>,
        has_issues: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        external_tracker: Option<ExternalTracker>,
        has_wiki: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        external_wiki: Option<ExternalWiki>,
        #[serde(flatten)]
        pulls: PullSettings,
        /// Always true.
        has_releases: bool,
        topics: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mirror_info: Option<MirrorInfo>,
        /// The interval between two syncs of a mirror.
        #[serde(skip_serializing_if = "Option::is_none")]
        mirror_interval: Option<String>,
        /// The last successful sync of a mirror. Only for administrators of the repository.
        #[serde(skip_serializing_if = "Option::is_none")]
        mirror_updated: Option<Time>,
        created_at: Time,
        updated_at: Time,
        #[serde(skip_serializing_if = "Option::is_none")]
        permissions: Option<Permissions>,
    }
}

crate::word_shape! {
    /// The hash function of object ids.
    #[derive(Clone, Copy, Debug)]
    enum ObjectFormat {
        Sha1 = "sha1",
    }
}

crate::shape! {
    /// How pull requests are merged. If they are off, nothing is allowed.
    #[derive(Clone, Debug, Serialize)]
    struct PullSettings {
        has_pull_requests: bool,
        /// Whether merge commits are allowed.
        allow_merge_commits: bool,
        /// Whether the commits of the head may be rebased onto the base.
        allow_rebase: bool,
        /// Whether they may be rebased, and then joined by a merge commit.
        allow_rebase_explicit: bool,
        /// Whether the commits of the head may be squashed into one.
        allow_squash_merge: bool,
        /// Whether the base may move to the head without a new commit.
        allow_fast_forward_only_merge: bool,
        /// Whether a head branch may be updated by rebasing it onto the base.
        allow_rebase_update: bool,
        /// Whether a merge deletes the head branch if the request does not say.
        default_delete_branch_after_merge: bool,
        /// The style that clients offer first: `merge`, `rebase`, `rebase-merge`, `squash` or
        /// `fast-forward-only`.
        default_merge_style: String,
        /// Whether a push that brings the head into the base closes the pull request as merged.
        autodetect_manual_merge: bool,
        /// Whether pull requests may be marked as merged by a commit that the base has.
        allow_manual_merge: bool,
    }
}

impl PullSettings {
    fn new(settings: Option<repo::PullSettings>) -> Self {
        let settings = settings.filter(|settings| settings.has_pulls).unwrap_or_default();
        Self {
            has_pull_requests: settings.has_pulls,
            allow_merge_commits: settings.allow_merge,
            allow_rebase: settings.allow_rebase,
            allow_rebase_explicit: settings.allow_rebase_merge,
            allow_squash_merge: settings.allow_squash,
            allow_fast_forward_only_merge: settings.allow_fast_forward_only,
            allow_rebase_update: settings.allow_rebase_update,
            default_delete_branch_after_merge: settings.delete_branch_after_merge,
            default_merge_style: match settings.default_style {
                style if style.is_empty() => "merge".to_owned(),
                style => style,
            },
            autodetect_manual_merge: settings.detects_manual_merges,
            allow_manual_merge: settings.allow_manual_merge,
        }
    }
}

crate::shape! {
    /// An external issue tracker.
    #[derive(Clone, Debug, Serialize)]
    struct ExternalTracker {
        external_tracker_url: String,
        external_tracker_format: String,
        external_tracker_style: TrackerStyle,
    }
}

crate::word_shape! {
    /// How an external tracker names issues.
    #[derive(Clone, Copy, Debug)]
    enum TrackerStyle {
        Numeric = "numeric",
        Alphanumeric = "alphanumeric",
    }
}

impl From<repo::ExternalTracker> for ExternalTracker {
    fn from(tracker: repo::ExternalTracker) -> Self {
        Self {
            external_tracker_url: tracker.url,
            external_tracker_format: tracker.url_format,
            external_tracker_style: if tracker.is_alphanumeric {
                TrackerStyle::Alphanumeric
            } else {
                TrackerStyle::Numeric
            },
        }
    }
}

crate::shape! {
    /// An external wiki.
    #[derive(Clone, Debug, Serialize)]
    struct ExternalWiki {
        external_wiki_url: String,
    }
}

crate::shape! {
    /// The state of a mirror.
    #[derive(Clone, Debug, Serialize)]
    struct MirrorInfo {
        interval: String,
        #[serde(flatten)]
        schedule: Option<MirrorSchedule>,
    }
}

crate::shape! {
    /// The state of a mirror that only repository administrators see.
    #[derive(Clone, Debug, Serialize)]
    struct MirrorSchedule {
        last_sync_at: Option<Time>,
        next_sync_at: Option<Time>,
        last_error: String,
    }
}

impl MirrorInfo {
    fn new(mirror: repo::MirrorState, permission: Permission) -> Result<Self, MissingField> {
        let schedule = if permission >= Permission::Admin {
            Some(MirrorSchedule {
                last_sync_at: Time::optional(mirror.last_sync_time, "last_sync_time")?,
                next_sync_at: Time::optional(mirror.next_sync_time, "next_sync_time")?,
                last_error: mirror.last_error,
            })
        } else {
            None
        };
        Ok(Self { interval: go_duration(mirror.interval_seconds), schedule })
    }

    fn last_sync(&self) -> Option<Time> {
        self.schedule.as_ref()?.last_sync_at.clone()
    }
}

/// Formats seconds like Go's durations: `8h0m0s`, `10m0s`, `45s`.
fn go_duration(seconds: i64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

crate::shape! {
    /// The caller's permissions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub struct Permissions {
        admin: bool,
        push: bool,
        pull: bool,
    }
}

impl From<Permission> for Permissions {
    fn from(permission: Permission) -> Self {
        Self {
            admin: permission >= Permission::Admin,
            push: permission >= Permission::Write,
            pull: permission >= Permission::Read,
        }
    }
}

impl Repository {
    /// Converts a repository.
    ///
    /// # Errors
    /// If the owner or a time is missing.
    pub fn new(repository: repo::Repository, viewer: Viewer, links: &Links) -> Result<Self, MissingField> {
        let permission = Permission::from(repository.permission());
        let internal = !repository.is_private && repository.owner_visibility() == repo::Visibility::Private;
        let mut owner = require(repository.owner, "owner")?;
        if viewer == Viewer::Anonymous {
            owner.email.clear();
        }
        let urls = links.repository(&owner.username, &repository.name);
        let parent = match repository.parent {
            // Omit the parent's parent.
            Some(parent) if repository.is_fork => {
                let alone = repo::Repository { parent: None, ..*parent };
                Some(Box::new(Self::new(alone, viewer, links)?))
            }
            _ => None,
        };
        let mirror_info = repository.mirror.map(|mirror| MirrorInfo::new(mirror, permission)).transpose()?;
        let is_administrator = permission >= Permission::Admin;
        Ok(Self {
            id: repository.id,
            full_name: urls.full_name().to_owned(),
            owner: User::new(owner, links),
            name: repository.name,
            description: repository.description,
            language: repository.language,
            private: repository.is_private,
            internal,
            fork: repository.is_fork,
            parent,
            empty: repository.is_empty,
            mirror: repository.is_mirror,
            size: repository.size_bytes,
            url: urls.api(),
            html_url: urls.html(),
            ssh_url: urls.clone_ssh(),
            clone_url: urls.clone_http(),
            languages_url: urls.languages(),
            original_url: Some(repository.original_url).filter(|url| is_administrator && !url.is_empty()),
            website: repository.website,
            stars_count: repository.star_count,
            forks_count: repository.fork_count,
            watchers_count: repository.watcher_count,
            open_issues_count: repository.open_issue_count,
            open_pr_counter: repository.open_pull_count,
            release_counter: repository.release_count,
            default_branch: repository.default_branch,
            object_format_name: ObjectFormat::Sha1,
            archived: repository.is_archived,
            archived_at: Time::optional(repository.archive_time, "archive_time")?,
            has_issues: repository.has_issues,
            external_tracker: repository.external_tracker.map(ExternalTracker::from),
            has_wiki: repository.has_wiki,
            external_wiki: Some(repository.external_wiki_url)
                .filter(|url| !url.is_empty())
                .map(|external_wiki_url| ExternalWiki { external_wiki_url }),
            pulls: PullSettings::new(repository.pulls),
            has_releases: true,
            topics: repository.topics,
            mirror_interval: mirror_info.as_ref().map(|info| info.interval.clone()),
            mirror_updated: mirror_info.as_ref().and_then(MirrorInfo::last_sync),
            mirror_info,
            created_at: Time::new(repository.create_time, "create_time")?,
            updated_at: Time::new(repository.update_time, "update_time")?,
            permissions: Some(permission.into()),
        })
    }

    /// Removes `permissions`, which webhooks omit.
    pub fn hide_permissions(&mut self) {
        self.permissions = None;
    }
}

#[cfg(test)]
mod tests;
