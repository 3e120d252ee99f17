//! Pull requests.

mod changes;
mod conflicts;
mod heads;
mod merges;
mod pulls;
mod requirements;
mod reverts;
mod shown;
mod updates;

use std::time::Duration;

use super::call::groups;

/// Deadline of a merge: git-svc needs up to 30 s for one attempt, and begins again if the base moves.
const MERGE_TIMEOUT: Duration = Duration::from_secs(70);

groups! { changes conflicts merges pulls requirements reverts updates }
