//! The API documentation page in a browser: sends requests with scripts on, is readable without
//! scripts, and loads nothing from other hosts.

use reqwest::Method;
use serde_json::json;

use crate::harness::browser::Browser;
use crate::harness::{Cluster, Response};

on_profiles! {
    embedded {
        every_operation_of_the_document_is_on_the_page_without_scripts
        an_error_leads_to_its_operation_and_a_request_is_sent_from_there
        an_address_that_names_no_operation_opens_none
    }
}

async fn operations(cluster: &Cluster) -> Vec<String> {
    let response = Response::of(cluster.anonymous().raw(Method::GET, "/api/v1/openapi.json")).await.expect(200);
    assert_eq!(response.header("cache-control"), "public, max-age=300");
    let document = response.json();
    let items = document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    items.filter_map(|operation| operation["operationId"].as_str()).map(str::to_owned).collect()
}

/// Fails if the page contacted another host, or if the console shows a relevant message.
async fn is_quiet_and_alone(browser: &Browser, cluster: &Cluster) -> Vec<String> {
    let own = format!("{}/", cluster.url);
    let requested = browser.requested().await;
    let others: Vec<_> = requested.iter().filter(|url| !url.starts_with(&own) && !url.starts_with("data:")).collect();
    assert!(others.is_empty(), "{others:?}");
    let mut messages = browser.console().await;
    messages.retain(|message| message["level"] != "DEBUG" && message["level"] != "INFO");
    assert!(messages.is_empty(), "{messages:?}");
    requested
}

async fn every_operation_of_the_document_is_on_the_page_without_scripts(cluster: &Cluster) {
    let browser = Browser::start().await;
    browser.disable_scripts().await;
    browser.open(&format!("{}/docs/api#CreateLabel", cluster.url)).await;
    let (mut shown, mut expected) = (browser.attributes(".operation", "id").await, operations(cluster).await);
    shown.sort();
    expected.sort();
    assert_eq!(shown, expected);
    assert_eq!(browser.attributes(":target", "id").await, ["CreateLabel"]);
    assert!(browser.is_seen("#CreateLabel h3").await && !browser.is_seen("#CreateLabel .try").await);
    assert!(browser.text("#CreateLabel").await.contains("/api/v1/repos/{owner}/{repo}/labels"));
    is_quiet_and_alone(&browser, cluster).await;
}

async fn an_error_leads_to_its_operation_and_a_request_is_sent_from_there(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.new_label(&repo, "shown in the browser").await;
    let error = cluster.anonymous().get(&ada.repo("absent", "/labels")).await.refused(404).json();
    let url = error["url"].as_str().unwrap();
    assert_eq!(url, format!("{}/docs/api#ListLabels", cluster.url));

    let browser = Browser::start().await;
    browser.open(url).await;
    let viewer = "#ListLabels .viewer";
    browser.click(&format!("{viewer} .auth-wrapper .authorize")).await;
    browser.write("#auth-bearer-value", ada.token.as_deref().unwrap()).await;
    browser.click(".viewer .auth-btn-wrapper .authorize").await;
    browser.click(".viewer .auth-btn-wrapper .btn-done").await;
    for (name, value) in [("owner", &*ada.name), ("repo", "tracker")] {
        browser.write(&format!("{viewer} [data-param-name={name}] input"), value).await;
    }
    browser.click(&format!("{viewer} .execute")).await;
    let response = format!("{viewer} .live-responses-table tbody");
    assert!(browser.text(&format!("{response} .response-col_status")).await.starts_with("200"));
    assert!(browser.text(&response).await.contains("shown in the browser"));

    // The next operation already has the token.
    browser.click("#ListIssueLabels .try").await;
    browser.text("#ListIssueLabels .viewer .auth-wrapper .authorize.locked").await;
    assert_eq!(browser.all(".viewer .opblock").await.len(), 1);
    let requested = is_quiet_and_alone(&browser, cluster).await;
    let sent = format!("{}/api/v1{repo}/labels", cluster.url);
    assert!(requested.iter().any(|url| url.starts_with(&sent)), "{requested:?}");
}

async fn an_address_that_names_no_operation_opens_none(cluster: &Cluster) {
    let browser = Browser::start().await;
    for anchor in ["#%", "#%E4", "#NoOperation", "#responses", "#"] {
        browser.open(&format!("{}/docs/api{anchor}", cluster.url)).await;
        assert!(browser.all(".viewer").await.is_empty(), "{anchor}");
        is_quiet_and_alone(&browser, cluster).await;
    }
    // The script still works afterwards.
    browser.click("#ListLabels .try").await;
    browser.text("#ListLabels .viewer .execute").await;
}
