//! Concurrent futures of one test.

use std::cell::RefCell;
use std::future::Future;
use std::task::Poll;

pub(crate) async fn for_each<T>(at_once: usize, items: impl IntoIterator<Item = T>, work: impl AsyncFn(T)) {
    let items = RefCell::new(items.into_iter());
    let worker = async || {
        loop {
            let item = items.borrow_mut().next();
            let Some(item) = item else { break };
            work(item).await;
        }
    };
    join_all((0..at_once).map(|_| worker())).await;
}

pub(crate) async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, outcome) in waiting.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(cx) {
                *outcome = Some(ready);
            }
        }
        if waiting.iter().all(|(_, outcome)| outcome.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, outcome)| outcome).collect()
}
