use ferrite_proto::error::FieldViolation;

use crate::error::RepoError;

/// Collects violations of several fields, so that one response reports all of them.
#[derive(Debug, Default)]
pub(crate) struct Violations(Vec<FieldViolation>);

impl Violations {
    /// Returns the value, or records the violation and returns `None`.
    pub(crate) fn take<T>(&mut self, parsed: Result<T, FieldViolation>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(violation) => {
                self.0.push(violation);
                None
            }
        }
    }

    /// Like [`Violations::take`], for an optional field.
    pub(crate) fn take_optional<T>(
        &mut self,
        text: Option<&str>,
        field: &str,
        parse: impl FnOnce(&str, &str) -> Result<T, FieldViolation>,
    ) -> Option<Option<T>> {
        self.take(text.map(|text| parse(text, field)).transpose())
    }

    pub(crate) fn into_error(self) -> RepoError {
        RepoError::Invalid(self.0)
    }
}
