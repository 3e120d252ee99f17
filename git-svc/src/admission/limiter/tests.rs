use ferrite_proto::grant::Reauthorization;

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
    // The account also has a share of one, so ask as another account.
    let refused = limiter.acquire(RepositoryId(1), &ClientKey::User(3)).await.unwrap_err();
    assert!(matches!(refused, GitError::ShareFull { limit: 1, holder: "repository" }), "{refused}");
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
    let users: Vec<_> = (2..).take(limiter.waiting.per_repository).map(ClientKey::User).collect();
    let waiting: Vec<_> = users.iter().map(|user| Box::pin(limiter.acquire(RepositoryId(1), user))).collect();
    let mut all = futures_util::future::join_all(waiting);
    assert!(futures_util::poll!(&mut all).is_pending());
    let start = tokio::time::Instant::now();
    let refused = limiter.acquire(RepositoryId(1), &ClientKey::User(1)).await.unwrap_err();
    assert!(matches!(refused, GitError::ShareFull { holder: "repository", .. }), "{refused}");
    assert!(start.elapsed() < Duration::from_secs(5));
    drop(busy);
}

#[tokio::test]
async fn a_client_has_half_of_the_permits_and_an_account_may_have_fewer() {
    let limiter = Limiter { per_user: 2, ..limiter_with_short_timeout(8, 8) };
    let (ada, anna) = (ClientKey::User(1), ClientKey::Address("192.0.2.1".to_owned()));
    for (client, share) in [(&ada, 2), (&anna, 4), (&ClientKey::Unknown, 4)] {
        let held = futures_util::future::join_all((1..=share).map(|id| limiter.acquire(RepositoryId(id), client)));
        let held: Vec<_> = held.await.into_iter().map(Result::unwrap).collect();
        let refused = limiter.acquire(RepositoryId(9), client).await.unwrap_err();
        let expected = if matches!(client, ClientKey::User(_)) { "account" } else { "address" };
        assert!(
            matches!(refused, GitError::ShareFull { limit, holder } if (limit as i64, holder) == (share, expected)),
            "{refused}"
        );
        let other = limiter.acquire(RepositoryId(9), &ClientKey::User(2)).await.unwrap();
        drop((held, other));
        limiter.acquire(RepositoryId(9), client).await.unwrap();
    }
}

#[tokio::test]
async fn a_store_without_permits_is_the_fault_of_no_client() {
    let limiter = limiter_with_short_timeout(2, 2);
    let ids = [1, 2];
    let held = futures_util::future::join_all(ids.map(|id| {
        let limiter = &limiter;
        async move { limiter.acquire(RepositoryId(id), &ClientKey::User(id)).await.unwrap() }
    }));
    let held = held.await;
    let refused = limiter.acquire(RepositoryId(3), &ClientKey::User(3)).await.unwrap_err();
    assert!(matches!(refused, GitError::Overloaded), "{refused}");
    drop(held);
}

#[tokio::test]
async fn clients_without_an_account_leave_half_of_what_pages_need() {
    let options = LimiterOptions {
        queue_per_repository: 32,
        queue_timeout: Duration::from_millis(50),
        clones: 4,
        light: 16,
        heavy: 4,
        pushes: 4,
    };
    let limiters = Limiters::new(&options);
    for (limiter, half) in [(&limiters.diff, 2), (&limiters.log, 2), (&limiters.archive, 1)] {
        let mut held = Vec::new();
        for address in 0..half {
            let client = ClientKey::Address(format!("192.0.2.{address}"));
            held.push(limiter.acquire(RepositoryId(address), &client).await.unwrap());
        }
        let crawler = ClientKey::Address("192.0.2.99".to_owned());
        let refused = limiter.acquire(RepositoryId(98), &crawler).await.unwrap_err();
        assert!(matches!(refused, GitError::Overloaded), "{}: {refused}", limiter.name);
        held.push(limiter.acquire(RepositoryId(99), &ClientKey::User(1)).await.unwrap());
    }
    let clients = [1, 2, 3].map(|id| (RepositoryId(id), ClientKey::Address(format!("192.0.2.{id}"))));
    let fetches = clients.iter().map(|(id, client)| limiters.pack.acquire(*id, client));
    let held = futures_util::future::join_all(fetches).await;
    assert!(held.iter().all(Result::is_ok), "clones of public repositories need no account");
}

#[tokio::test]
async fn three_accounts_leave_permits_for_a_fourth() {
    for store in [4, 5, 8, 64] {
        let limiter = Limiter { per_user: (store / 4).max(1), ..limiter_with_short_timeout(store, store) };
        let mut held = Vec::new();
        for user in 1..=3 {
            // Each tries to take all permits, one per repository.
            let all = (0..store).map(|id| (RepositoryId(id as i64), ClientKey::User(user))).collect::<Vec<_>>();
            let all = futures_util::future::join_all(all.iter().map(|(id, user)| limiter.acquire(*id, user))).await;
            held.extend(all.into_iter().flatten());
        }
        assert!(limiter.acquire(RepositoryId(1), &ClientKey::User(4)).await.is_ok(), "of {store}");
        drop(held);
    }
}

#[tokio::test]
async fn a_deploy_key_has_a_share_of_its_own_and_an_account_half_with_all_its_keys() {
    let limiter = Limiter { per_user: 1, ..limiter_with_short_timeout(4, 4) };
    let key = |number: i64| ClientKey::DeployKey(1, number.to_string());
    let refused = async |client: &ClientKey| match limiter.acquire(RepositoryId(9), client).await.unwrap_err() {
        GitError::ShareFull { limit, holder } => (limit, holder),
        other => panic!("{other}"),
    };
    let user = limiter.acquire(RepositoryId(1), &ClientKey::User(1)).await.unwrap();
    // This does not use the permit of the user.
    let first = limiter.acquire(RepositoryId(2), &key(1)).await.unwrap();
    assert_eq!(refused(&key(1)).await, (1, "deploy key"));
    assert_eq!(refused(&ClientKey::User(1)).await, (1, "account"));
    for number in 2..5 {
        assert_eq!(refused(&key(number)).await, (2, "account"), "{number}");
    }
    drop(user);
    let second = limiter.acquire(RepositoryId(1), &key(2)).await.unwrap();
    assert_eq!(refused(&ClientKey::User(1)).await, (2, "account"));
    // The same key, added to another repository by another user.
    let other = limiter.acquire(RepositoryId(3), &ClientKey::DeployKey(2, "1".to_owned())).await.unwrap();
    drop((first, second, other));
}

#[tokio::test]
async fn deploy_keys_do_not_multiply_the_line_of_their_account() {
    let limiter = Limiter { per_user: 1, ..Limiter::new("test", 4, 4) };
    // Two run, which is all the account may have.
    let line = 2 + limiter.waiting.per_repository / 2;
    let keys: Vec<_> = (0..=line).map(|number| ClientKey::DeployKey(1, number.to_string())).collect();
    let mut held = Vec::new();
    for key in &keys[..2] {
        held.push(limiter.acquire(RepositoryId(1), key).await.unwrap());
    }
    let waiting: Vec<_> = keys[2..line].iter().map(|key| Box::pin(limiter.acquire(RepositoryId(1), key))).collect();
    let mut waiting = futures_util::future::join_all(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let refused = futures_util::poll!(Box::pin(limiter.acquire(RepositoryId(1), &keys[line])));
    assert!(matches!(refused, std::task::Poll::Ready(Err(GitError::ShareFull { limit: 2, holder: "account" }))));
    drop((waiting, held));
}

#[tokio::test]
async fn a_deploy_key_leaves_half_of_the_line_to_its_account() {
    let limiter = Limiter { per_user: 1, ..Limiter::new("test", 4, 4) };
    let (key, user) = (ClientKey::DeployKey(1, "a".into()), ClientKey::User(1));
    let held = limiter.acquire(RepositoryId(1), &key).await.unwrap();
    let line = limiter.waiting.per_repository / 4;
    let waiting: Vec<_> = (0..line).map(|_| Box::pin(limiter.acquire(RepositoryId(1), &key))).collect();
    let mut waiting = futures_util::future::join_all(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let refused = futures_util::poll!(Box::pin(limiter.acquire(RepositoryId(1), &key)));
    assert!(matches!(refused, std::task::Poll::Ready(Err(GitError::ShareFull { limit: 1, holder: "deploy key" }))));
    limiter.acquire(RepositoryId(1), &user).await.unwrap();
    drop((waiting, held));
}

#[tokio::test]
async fn an_account_has_half_of_the_line_for_a_repository() {
    let limiter = Limiter::new("test", 4, 4);
    let busy = futures_util::future::join_all((1..=3).map(|user| {
        let client = ClientKey::User(user);
        let limiter = &limiter;
        async move { limiter.acquire(RepositoryId(1), &client).await.unwrap() }
    }));
    let busy = busy.await;
    let (ada, bob) = (ClientKey::User(11), ClientKey::User(12));
    // Three run, which is all one repository may have.
    let line = limiter.waiting.per_repository / 2 + 2;
    let waiting: Vec<_> = (0..line).map(|_| Box::pin(limiter.acquire(RepositoryId(1), &ada))).collect();
    let mut waiting = futures_util::future::join_all(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let start = tokio::time::Instant::now();
    limiter.acquire(RepositoryId(1), &ada).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5), "at once");
    let mut other = Box::pin(limiter.acquire(RepositoryId(1), &bob));
    assert!(futures_util::poll!(&mut other).is_pending(), "the line has room for others");
    drop(waiting);
    drop(busy);
    other.await.unwrap();
}

#[test]
fn every_kind_of_work_has_places_for_more_than_one_account() {
    let options = LimiterOptions {
        queue_per_repository: 32,
        queue_timeout: Duration::from_secs(1),
        clones: 1024,
        light: 0,
        heavy: 0,
        pushes: 0,
    };
    let all = Limiters::new(&options);
    for limiter in [&all.advertise, &all.clone, &all.fetch, &all.raw, &all.upload, &all.session] {
        assert!(limiter.permits >= 4 && limiter.per_user <= limiter.permits / 2, "{}", limiter.name);
    }
    for limiter in [&all.pack, &all.archive, &all.log, &all.copy] {
        assert!(limiter.permits >= 2 && limiter.per_user < limiter.permits, "{}", limiter.name);
    }
    assert!(all.push.permits >= 4 && all.push.per_user <= all.push.permits / 4);
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
    grant.limits.account = Some(8);
    assert_eq!(ClientKey::of(&gateway, &grant, &headers), ClientKey::User(8), "a deploy key counts for an account");
    let credential = Credential::Key("SHA256:bot".to_owned());
    let access = Reauthorization { repository: 1, is_wiki: false, is_git: true, credential };
    grant.reauthorization = Some(access);
    let deploy_key = ClientKey::DeployKey(8, "SHA256:bot".to_owned());
    assert_eq!(ClientKey::of(&gateway, &grant, &headers), deploy_key, "a grant for a push names the key");
    grant.user = Some(ferrite_proto::grant::GrantUser { id: 7, ..Default::default() });
    assert_eq!(ClientKey::of(&gateway, &grant, &headers), ClientKey::User(7));
}
