//! Tests of the limiter: fairness between clients and repositories, queues, and the keys of clients.

use super::*;

fn limiter_with_short_timeout(store: usize, per_repository: usize) -> Limiter {
    let mut limiter = Limiter::new("test", store, per_repository);
    limiter.waiting.timeout = Duration::from_millis(50);
    limiter
}

#[tokio::test]
async fn one_repository_cannot_take_all_permits() {
    let limiter = limiter_with_short_timeout(3, 1);
    let busy = limiter.acquire(RepositoryId(1), &ClientKey::User(1)).await.unwrap();
    assert!(matches!(limiter.acquire(RepositoryId(1), &ClientKey::User(1)).await, Err(GitError::Overloaded)));
    let other = limiter.acquire(RepositoryId(2), &ClientKey::User(2)).await.unwrap();
    drop(busy);
    let again = limiter.acquire(RepositoryId(1), &ClientKey::User(1)).await.unwrap();
    drop((other, again));
}

#[test]
fn no_limiter_gives_one_repository_all_permits() {
    for store in 2..20 {
        assert!(Limiter::new("test", store, 8).per_repository < store);
    }
    assert_eq!(Limiter::new("test", 1, 8).per_repository, 1);
}

#[tokio::test]
async fn requests_beyond_the_queue_limit_are_refused_at_once() {
    let limiter = Limiter::new("test", 1, 1);
    let busy = limiter.acquire(RepositoryId(1), &ClientKey::User(1)).await.unwrap();
    let waiting: Vec<_> = (0..limiter.waiting.per_repository)
        .map(|_| Box::pin(limiter.acquire(RepositoryId(1), &ClientKey::User(1))))
        .collect();
    let mut all = futures_util::future::join_all(waiting);
    assert!(futures_util::poll!(&mut all).is_pending());
    let start = tokio::time::Instant::now();
    limiter.acquire(RepositoryId(1), &ClientKey::User(1)).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5));
    drop(busy);
}

#[tokio::test]
async fn one_client_cannot_take_all_permits() {
    let limiter = limiter_with_short_timeout(4, 8);
    let (ada, anna) = (ClientKey::User(1), ClientKey::Address("192.0.2.1".to_owned()));
    for client in [&ada, &anna, &ClientKey::Unknown] {
        let one = limiter.acquire(RepositoryId(1), client).await.unwrap();
        let two = limiter.acquire(RepositoryId(2), client).await.unwrap();
        assert!(matches!(limiter.acquire(RepositoryId(3), client).await, Err(GitError::Overloaded)));
        let other = limiter.acquire(RepositoryId(3), &ClientKey::User(2)).await.unwrap();
        drop((one, two, other));
        limiter.acquire(RepositoryId(3), client).await.unwrap();
    }
}

#[test]
fn addresses_are_trusted_from_the_gateway_only() {
    let mut grant = Grant { repository: 1, permission: ferrite_proto::Permission::Read, ..Grant::default() };
    let mut headers = HeaderMap::new();
    headers.insert(metadata::CLIENT, "192.0.2.1".parse().unwrap());
    let (unknown, gateway) =
        (Caller::default(), Caller { service: Some(ferrite_proto::ServiceRole::Gateway), ..Caller::default() });
    assert_eq!(ClientKey::of(&unknown, &grant, &headers), ClientKey::Unknown);
    let other = Caller { service: Some(ferrite_proto::ServiceRole::HookSvc), ..Caller::default() };
    assert_eq!(ClientKey::of(&other, &grant, &headers), ClientKey::Unknown);
    assert_eq!(ClientKey::of(&gateway, &grant, &headers), ClientKey::Address("192.0.2.1".to_owned()));
    assert_eq!(ClientKey::of(&gateway, &grant, &HeaderMap::new()), ClientKey::Unknown);
    grant.user = Some(ferrite_proto::grant::GrantUser { id: 7, ..Default::default() });
    assert_eq!(ClientKey::of(&gateway, &grant, &headers), ClientKey::User(7));
}
