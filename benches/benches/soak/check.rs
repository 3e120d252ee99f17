//! Checks after the load: every acknowledged commit is in its branch, and git finds no damage in
//! the repositories.

use std::collections::HashSet;

use ferrite_benches::git;

use crate::record::Record;
use crate::site::Site;

/// Printed losses.
const MAX_PRINTED_LOSSES: usize = 10;

/// Looks for each acknowledged commit in its branch and runs `git fsck --strict`. Prints and counts
/// losses and damage. The installation has stopped.
pub(crate) async fn losses(site: &Site, record: &Record) -> usize {
    let (mut losses, mut checked) = (Vec::new(), 0);
    for ((number, branch), commits) in record.acknowledged() {
        let repository = &site.repositories[number];
        let there = git::text(&repository.path, &["rev-list", &format!("refs/heads/{branch}")]).await;
        let there = there.unwrap_or_else(|failure| {
            losses.push(format!("{} {branch}: {failure}", repository.name));
            String::new()
        });
        let there: HashSet<_> = there.lines().collect();
        checked += commits.len();
        let lost = commits.iter().filter(|commit| !there.contains(commit.as_str()));
        losses.extend(lost.map(|commit| format!("{} {branch}: commit {commit} is lost", repository.name)));
    }
    for repository in &site.repositories {
        let found = git::run(&repository.path, &["fsck", "--strict", "--no-dangling", "--no-progress"]).await;
        losses.extend(found.err().map(|failure| format!("{}: {failure}", repository.name)));
    }
    println!("acknowledged commits: {checked}; lost or damaged: {}", losses.len());
    for loss in losses.iter().take(MAX_PRINTED_LOSSES) {
        println!("  {loss}");
    }
    losses.len()
}
