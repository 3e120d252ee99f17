use std::future::Future;
use std::time::Duration;

/// Waits until `check` returns true.
///
/// # Panics
/// With `fact`, after 20 seconds.
pub async fn eventually<F, T>(fact: &str, mut check: F)
where
    F: FnMut() -> T,
    T: Future<Output = bool>,
{
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !check().await {
        assert!(tokio::time::Instant::now() < deadline, "never: {fact}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
