//! Smaller repositories, each for one or two rows.

use std::io::Write;
use std::path::{Path, PathBuf};

use ferrite_benches::Failure;
use ferrite_benches::history::{MAIN, Random, cached};

/// Branches in one folder of [`many_refs`].
const BRANCHES_PER_FOLDER: u32 = 5_000;

/// One commit with this many small files, 40 per folder.
pub(crate) fn tree(cache: &Path, files: u32) -> Result<PathBuf, Failure> {
    cached(cache, &format!("tree-{files}"), |import| {
        import.commit(MAIN, 1, &[])?;
        for number in 0..files {
            import.file(&path(number), format!("file {number}\n").repeat(12).as_bytes())?;
        }
        Ok(())
    })
}

/// Path of a file in [`tree`].
pub(crate) fn path(number: u32) -> String {
    format!("area-{}/part-{}/file-{number}.txt", number / 2_000, number / 40 % 50)
}

/// A short history with this many branches.
pub(crate) fn many_refs(cache: &Path, refs: u32) -> Result<PathBuf, Failure> {
    const COMMITS: u32 = 500;
    cached(cache, &format!("refs-{refs}"), |import| {
        for mark in 1..=COMMITS {
            let parents = if mark == 1 { Vec::new() } else { vec![format!(":{}", mark - 1)] };
            import.commit(MAIN, mark.into(), &parents)?;
            import.file(&format!("file-{}.txt", mark % 50), format!("line {mark}\n").repeat(20).as_bytes())?;
        }
        for number in 0..refs.saturating_sub(1) {
            let (team, mark) = (number / BRANCHES_PER_FOLDER, 1 + number % COMMITS);
            writeln!(import.stream()?, "reset refs/heads/team-{team}/branch-{number}\nfrom :{mark}\n")?;
        }
        Ok(())
    })
}

/// One commit with this many MiB of incompressible data.
pub(crate) fn heavy(cache: &Path, mib: u32) -> Result<PathBuf, Failure> {
    const FILE_MIB: u32 = 2;
    cached(cache, &format!("heavy-{mib}"), |import| {
        let mut random = Random::new(7);
        import.commit(MAIN, 1, &[])?;
        for number in 0..mib.div_ceil(FILE_MIB) {
            import.file(&format!("data-{number}.bin"), &random.bytes((FILE_MIB as usize) << 20))?;
        }
        Ok(())
    })
}
