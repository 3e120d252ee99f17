//! Catches panics of requests.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// Returns the message of a caught panic.
#[must_use]
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Runs `work` and returns its response. If it panics, logs and counts that and returns
/// `on_panic()`.
pub async fn contain_panic<T>(work: impl Future<Output = T>, on_panic: impl FnOnce() -> T) -> T {
    // Nothing uses the state of `work` after a panic.
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        tracing::error!(panic = panic_text(&*panic), "a request panicked");
        metrics::counter!("ferrite_panics_total").increment(1);
        on_panic()
    })
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    #[test]
    fn a_panic_has_a_message_of_either_type_or_none() {
        let text = |panic: fn()| panic_text(&*std::panic::catch_unwind(panic).unwrap_err()).to_owned();
        let formatted = || panic!("number {}", std::hint::black_box(7));
        assert_eq!(
            [text(|| panic!("plain")), text(formatted), text(|| panic_any(7))],
            ["plain", "number 7", "no message"]
        );
    }
}
