//! Combines packs and loose objects of a repository into one pack, so that pack sizes grow
//! geometrically. The new pack is on disk before anything is removed, so a crash loses nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use ferrite_proto::id::RepositoryId;
use git_store::{
    disk::{
        ignore_missing,
        packs::{Pack, PackRole, install_packs, remove_loose},
    },
    git::command::GitChild,
    types::error::GitError,
};

use super::{MaintenanceService, job::JobError, running::JobHandle};

/// A pack is kept as it is if it has at least this many times the objects of all smaller packs
/// together.
const GEOMETRIC_FACTOR: u64 = 2;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CombinePlan {
    pub(super) inputs: Vec<String>,
    /// Names of packs whose objects are left out.
    pub(super) excluded: Vec<String>,
    /// Whether there are loose objects. All of them are combined.
    has_loose: bool,
}

impl CombinePlan {
    /// Plans to combine `loose` objects with as many of the packs allowed by `may_combine` as
    /// geometric growth requires. `packs` lists all packs, smallest first.
    pub(super) fn of(packs: &[Pack], loose: u64, may_combine: impl Fn(&Pack) -> bool) -> Self {
        let (candidates, others): (Vec<_>, Vec<_>) = packs.iter().partition(|pack| may_combine(pack));
        let sizes: Vec<_> = candidates.iter().map(|pack| pack.objects).collect();
        let (inputs, left) = candidates.split_at(count_to_combine(&sizes, loose));
        // Cruft packs may expire, and the push of a pack may still fail, so their objects do not
        // count.
        let is_lasting = |pack: &&Pack| matches!(pack.role, PackRole::Base | PackRole::Recent);
        let excluded = left.iter().copied().chain(others.into_iter().filter(is_lasting));
        let names = |packs: &mut dyn Iterator<Item = &Pack>| packs.map(|pack| pack.name.clone()).collect();
        Self {
            inputs: names(&mut inputs.iter().copied()),
            excluded: names(&mut excluded.into_iter()),
            has_loose: loose > 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_loose && self.inputs.len() < 2
    }

    /// Input for `pack-objects --stdin-packs`.
    fn stdin(&self) -> String {
        let included = self.inputs.iter().map(|name| format!("{name}.pack\n"));
        included.chain(self.excluded.iter().map(|name| format!("^{name}.pack\n"))).collect()
    }
}

/// Returns how many of the packs to combine with each other and with `loose` objects. `sizes` are
/// their object counts, ascending.
fn count_to_combine(sizes: &[u64], loose: u64) -> usize {
    let (mut count, mut smaller) = (0, loose);
    for (index, size) in sizes.iter().enumerate() {
        if *size < smaller.saturating_mul(GEOMETRIC_FACTOR) {
            count = index + 1;
        }
        smaller = smaller.saturating_add(*size);
    }
    count
}

/// Directory for new packs of a job, which git ignores. Removed when dropped.
pub(super) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Creates the directory for one kind of job, after removing what a killed job left there. Only
    /// one job of a kind may run on a repository. Blocking.
    pub(super) fn new(repository: &Path, job: &str) -> Result<Self, GitError> {
        let path = repository.join("objects").join(format!("tmp_upkeep_{job}"));
        remove_if_present(&path)?;
        fs::create_dir(&path).map_err(GitError::io("creating a directory for packs"))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // If a process still writes to it, the next job removes it.
        drop(remove_if_present(&self.0));
    }
}

fn remove_if_present(path: &Path) -> Result<(), GitError> {
    ignore_missing(fs::remove_dir_all(path)).map_err(GitError::io("removing unfinished packs"))
}

impl MaintenanceService {
    /// Writes the planned pack to the scratch directory, without changing the repository.
    pub(super) async fn write_combined(
        &self,
        job: &JobHandle,
        plan: &CombinePlan,
        folder: &ScratchFolder,
        niceness: i32,
    ) -> Result<(), JobError> {
        let child = self.git.combine_packs(&self.store.path(job.id), folder.path(), niceness)?;
        self.output_of(job, child, plan.stdin().as_bytes(), self.options.deadline).await.map(drop)
    }

    /// Moves the new packs into the repository durably, and removes the loose objects they contain.
    /// Returns the names of the new packs. The caller must hold the lock on the packs.
    pub(super) async fn install_combined(
        &self,
        job: &JobHandle,
        plan: &CombinePlan,
        folder: ScratchFolder,
    ) -> Result<Vec<String>, JobError> {
        let id = job.id;
        let install = move |path: &Path| install_packs(folder.path(), path);
        let names = self.on_disk(id, install).await?;
        if plan.has_loose {
            let child = self.git.list_packed_loose(&self.store.path(id))?;
            let listed = self.output_of(job, child, &[], self.options.deadline).await?;
            self.on_disk(id, move |path| {
                remove_loose(path, &listed);
                Ok(())
            })
            .await?;
        }
        Ok(names)
    }

    /// Runs a blocking operation on the directory of a repository.
    pub(super) async fn on_disk<T, F>(&self, id: RepositoryId, job: F) -> Result<T, GitError>
    where
        T: Send + 'static,
        F: FnOnce(&Path) -> Result<T, GitError> + Send + 'static,
    {
        self.pool.run_blocking(move |store| job(&store.path(id))).await
    }

    /// Runs a git process to its end and returns its output. Kills it when the job is stopped or
    /// `deadline` passes.
    pub(super) async fn output_of(
        &self,
        job: &JobHandle,
        child: GitChild,
        input: &[u8],
        deadline: Duration,
    ) -> Result<Vec<u8>, JobError> {
        child.output_unless(input, job.stopped(), deadline).await?.ok_or(JobError::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_are_combined_until_sizes_grow_geometrically() {
        for (sizes, loose, count) in [
            (&[][..], 0, 0),
            (&[5], 0, 0),
            (&[5], 2, 0),
            (&[5], 3, 1),
            (&[1, 1], 0, 2),
            (&[1, 2, 6, 18], 0, 0),
            (&[1, 2, 5, 18], 0, 3),
            (&[1, 1, 1, 1, 100], 0, 4),
            (&[1, 1, 1, 1, 100], 50, 5),
            (&[10, 40, 110], 4, 0),
        ] {
            assert_eq!(count_to_combine(sizes, loose), count, "{sizes:?}, {loose}");
        }
    }

    #[test]
    fn lasting_packs_are_left_out_and_others_ignored() {
        let pack = |name: &str, objects, role| Pack { name: name.to_owned(), objects, role };
        let packs = [
            pack("a", 1, PackRole::Recent),
            pack("b", 1, PackRole::Recent),
            pack("kept", 1, PackRole::Kept),
            pack("cruft", 1, PackRole::Cruft),
            pack("c", 50, PackRole::Recent),
            pack("base", 100, PackRole::Base),
        ];
        let plan = CombinePlan::of(&packs, 0, |pack| pack.role == PackRole::Recent);
        assert_eq!(plan.stdin(), "a.pack\nb.pack\n^c.pack\n^base.pack\n");
        assert!(!plan.is_empty());
        let plan = CombinePlan::of(&packs, 0, |pack| pack.name == "c");
        assert!(plan.is_empty());
        let plan = CombinePlan::of(&packs, 1, |pack| pack.name == "c");
        assert!(!plan.is_empty() && plan.inputs.is_empty());
    }
}
