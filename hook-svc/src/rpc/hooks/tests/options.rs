//! Tests of branch filters and of the header `Authorization`, which is as secret as a secret.

use super::*;

fn with_header(value: &str) -> CreateHookRequest {
    CreateHookRequest {
        branch_filter: "release/*".to_owned(),
        authorization_header: value.to_owned(),
        ..request("forgejo", &CONFIG)
    }
}

async fn value_of(service: &Service, hook: &Hook) -> Option<String> {
    let value = stored(service, hook).await.authorization(&sealer()).unwrap();
    value.map(|value| value.expose().to_owned())
}

#[tokio::test]
async fn the_header_is_shown_without_its_credentials_and_changed_by_what_names_it() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let hook = service.create(&admin(), with_header("Bearer hunter3")).await.unwrap();
        let shown = (hook.r#type.as_str(), hook.branch_filter.as_str(), hook.authorization_header.as_str());
        assert_eq!(shown, ("forgejo", "release/*", "Bearer ***"));
        assert_eq!(value_of(&service, &hook).await.as_deref(), Some("Bearer hunter3"));
        let changed = async |value: Option<&str>, filter: Option<&str>| {
            let authorization_header = value.map(str::to_owned);
            let branch_filter = filter.map(str::to_owned);
            let change = UpdateHookRequest { authorization_header, branch_filter, ..change(&hook, &[]) };
            let changed = update(&service, change).await?;
            let value = value_of(&service, &changed).await.unwrap_or_default();
            Ok::<_, Status>((changed.authorization_header, changed.branch_filter, value))
        };
        let expected = |shown: &str, filter: &str, value: &str| (shown.to_owned(), filter.to_owned(), value.to_owned());
        // Sending back what is shown changes nothing.
        for value in [None, Some("Bearer ***")] {
            assert_eq!(changed(value, None).await.unwrap(), expected("Bearer ***", "release/*", "Bearer hunter3"));
        }
        assert_eq!(changed(Some("hunter4"), None).await.unwrap(), expected("***", "release/*", "hunter4"));
        assert_eq!(changed(None, Some("")).await.unwrap(), expected("***", "", "hunter4"));
        assert_eq!(changed(Some(""), Some("main")).await.unwrap(), expected("", "main", ""));
        for (value, filter, field) in [(Some("a\nb"), None, "authorization_header"), (None, Some("{"), "branch_filter")]
        {
            assert_eq!(violations(&changed(value, filter).await.unwrap_err())[0].0, field);
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_header_goes_to_no_other_host() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let hook = service.create(&admin(), with_header("Bearer hunter3")).await.unwrap();
        let moved = async |url: &str, value: Option<&str>| {
            let authorization_header = value.map(str::to_owned);
            let change = UpdateHookRequest { authorization_header, ..change(&hook, &[("url", url)]) };
            let changed = update(&service, change).await.unwrap();
            (changed.authorization_header.clone(), value_of(&service, &changed).await.unwrap_or_default())
        };
        let expected = |shown: &str, value: &str| (shown.to_owned(), value.to_owned());
        let (first, other) = ("https://one.example.com/a", "https://two.example.com/a");
        moved(first, Some("Bearer hunter4")).await;
        assert_eq!(moved("https://one.example.com/b", None).await, expected("Bearer ***", "Bearer hunter4"));
        // The shown value is not the header.
        assert_eq!(moved(other, Some("Bearer ***")).await, expected("", ""));
        assert_eq!(moved(first, Some("Bearer hunter5")).await, expected("Bearer ***", "Bearer hunter5"));
        assert_eq!(moved("http://one.example.com/a", None).await, expected("", ""));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_key_tells_headers_apart_and_keeps_none() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let caller = admin().with_key("k1");
        let first = service.create(&caller, with_header("Bearer hunter3")).await.unwrap();
        assert_eq!(service.create(&caller, with_header("Bearer hunter3")).await.unwrap(), first);
        let other = service.create(&caller, with_header("Bearer hunter4")).await.unwrap_err();
        assert_eq!(reason(&other), "IDEMPOTENCY_KEY_REUSED");
        let rows: Vec<(Vec<u8>,)> = service.db().all("SELECT answer FROM idempotency", &[]).await.unwrap();
        let has_value = |bytes: &[u8]| bytes.windows(7).any(|part| part == b"hunter3");
        assert!(!rows.is_empty() && !rows.iter().any(|(answer,)| has_value(answer)));
        service.stop().await;
    })
    .await;
}
