use ferrite_proto::error::FieldViolation;

use crate::error::RepoError;

/// Collects the violations of several fields, so that one response reports all of them.
#[derive(Debug, Default)]
pub(crate) struct Violations(Vec<FieldViolation>);

impl Violations {
    /// Returns the value, or adds the violation and returns `None`.
    pub(crate) fn take<T>(&mut self, parsed: Result<T, FieldViolation>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(violation) => {
                self.0.push(violation);
                None
            }
        }
    }

    /// Returns the error with all violations.
    pub(crate) fn into_error(self) -> RepoError {
        RepoError::Invalid(self.0)
    }
}
