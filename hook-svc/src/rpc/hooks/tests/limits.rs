use super::*;

#[tokio::test]
async fn one_user_makes_so_many_hooks_within_an_hour() {
    on_each_url(|url| async move {
        let service = Service::start_with(&url, &["--creations-per-hour=2"]).await;
        for number in 0..3 {
            // A repeated request counts once, an invalid one never counts.
            service.create(&admin().with_key("k"), request("gogs", &CONFIG)).await.unwrap();
            service.create(&admin(), request("unknown", &CONFIG)).await.unwrap_err();
            let made = service.create(&admin(), request("gogs", &CONFIG)).await;
            assert_eq!(made.is_ok(), number == 0, "{number}: {made:?}");
        }
        let refused = service.create(&admin(), request("gogs", &CONFIG)).await.unwrap_err();
        assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "HOURLY_LIMIT_REACHED"));
        assert_eq!(refused.message(), "limit reached: 2 webhooks per hour");
        let other = TestCaller::user(8, Permission::Admin);
        service.create(&other, request("gogs", &CONFIG)).await.unwrap();
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_repeated_request_gets_a_large_webhook_anew_and_writes_count() {
    on_each_url(|url| async move {
        let service = Service::start_with(&url, &["--creations-per-hour=0", "--writes-per-hour=2"]).await;
        let wide = "😀".repeat(255);
        let icon = format!("https://example.com/{}", "x".repeat(2_000));
        let options = [
            ("url", "https://example.com/x"),
            ("content_type", "json"),
            ("channel", wide.as_str()),
            ("username", wide.as_str()),
            ("icon_url", icon.as_str()),
        ];
        let caller = admin().with_key("k");
        let made = service.create(&caller, request("slack", &options)).await.unwrap();
        assert_eq!(service.create(&caller, request("slack", &options)).await.unwrap(), made);
        let edit = async || {
            let change = caller.request(UPDATE_HOOK, change(&made, &[("color", "#00ff00")]));
            service.hooks().update_hook(change).await.unwrap().into_inner().hook.unwrap()
        };
        let changed = edit().await;
        assert_eq!(edit().await, changed);
        let (longest,): (i64,) =
            service.db().one("SELECT CAST(MAX(OCTET_LENGTH(answer)) AS BIGINT) FROM idempotency", &[]).await.unwrap();
        assert!(longest <= 4_096, "{longest}");

        let refused = service.create(&admin(), request("native", &CONFIG)).await.unwrap_err();
        assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "WRITE_LIMIT_REACHED"));
        assert_eq!(service.list(&admin(), page(repository_owner(REPOSITORY), 1, 10)).await.unwrap().hooks.len(), 1);
        // For an organization, only repo-svc identifies the caller.
        let owner = organization_owner(ORGANIZATION);
        for done in [true, true, false] {
            let new = CreateHookRequest { owner: owner.clone(), ..request("native", &CONFIG) };
            let outcome = service.hooks().create_hook(with_token(OWNER_TOKEN, new)).await;
            assert_eq!(outcome.is_ok(), done, "{outcome:?}");
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_account_that_has_written_as_much_as_it_may_deletes_its_hooks() {
    on_each_url(|url| async move {
        let service = Service::start_with(&url, &["--creations-per-hour=0", "--writes-per-hour=1"]).await;
        let (admin, owner) = (TestCaller::user(7, Permission::Admin), repository_owner(REPOSITORY));
        let config = [("url", "http://a/"), ("content_type", "json")];
        let config = config.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let new = CreateHookRequest { owner: owner.clone(), r#type: "native".to_owned(), config, ..Default::default() };
        let hook = service.create(&admin, new.clone()).await.unwrap();
        assert_eq!(reason(&service.create(&admin, new).await.unwrap_err()), "WRITE_LIMIT_REACHED");
        let delete = async || {
            let request = DeleteHookRequest { owner: owner.clone(), hook_id: hook.id };
            service.hooks().delete_hook(admin.request(DELETE_HOOK, request)).await
        };
        delete().await.unwrap();
        assert_eq!(reason(&delete().await.unwrap_err()), "HOOK_NOT_FOUND");
        service.stop().await;
    })
    .await;
}
