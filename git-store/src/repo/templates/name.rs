//! Names of templates: how they are compared, and how an unknown one is refused.

use crate::types::error::GitError;

/// Returns the error for an unknown template. The name comes from the client, so it is shortened and stripped of control
/// characters.
pub(super) fn unknown(field: &str, name: &str) -> GitError {
    let shown: String = name.chars().filter(|letter| !letter.is_control()).take(64).collect();
    GitError::invalid(field, "unknown", format!("there is no template `{shown}`"))
}

/// Returns the form in which names are compared: letters and digits in lower case, and the signs that distinguish names
/// such as `C` and `C++`.
pub(super) fn key(name: &str) -> String {
    let kept = name.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '+' | '#' | '.'));
    kept.flat_map(char::to_lowercase).collect()
}
