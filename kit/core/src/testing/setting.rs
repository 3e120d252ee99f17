//! Settings of a test run.

/// The setting of the test run called `name`.
#[expect(clippy::disallowed_methods, reason = "settings of tests are no settings of a service")]
#[must_use]
pub fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
