//! Memory of hook-svc.

use crate::Failure;
use crate::support::server::Installation;
use crate::support::usage;

/// Written to `clear_refs`, it sets the peak to the present value (proc(5)).
const RESET_PEAK: &str = "5";

/// The process of a role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// Finds the process of a role.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn of_role(installation: &Installation, role: &str) -> Result<Self, Failure> {
        let found = usage::with_children(&installation.process_ids()).into_iter().find(|(_, name)| name == role);
        Ok(Self(found.ok_or_else(|| format!("{role} does not run"))?.0))
    }

    /// Makes [`Process::peak_mib`] forget what was before, where the system permits that; elsewhere it is the peak since the start.
    pub(crate) fn reset_peak(self) {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.0), RESET_PEAK);
    }

    /// Returns the present resident memory.
    ///
    /// # Errors
    /// If the process has ended.
    pub(crate) fn resident_mib(self) -> Result<f64, Failure> {
        self.field("VmRSS:")
    }

    /// Returns the peak of the resident memory.
    ///
    /// # Errors
    /// If the process has ended.
    pub(crate) fn peak_mib(self) -> Result<f64, Failure> {
        self.field("VmHWM:")
    }

    fn field(self, name: &str) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
        Ok(value.ok_or_else(|| format!("no {name} of process {}", self.0))?.trim().parse::<f64>()? / 1024.0)
    }
}
