//! Access to git over HTTP: who can fetch and push, and how others are refused.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        every_form_of_credential_is_accepted
    }
    embedded {
        anonymous_callers_fetch_what_is_public
        outsiders_get_the_same_response_for_hidden_and_missing
        only_writers_push
        requests_that_are_not_git_are_refused
        advertisements_are_not_cached
        names_match_without_case_and_suffix
    }
}

fn refs(user: &User, owner: &User, name: &str, service: &str) -> reqwest::RequestBuilder {
    user.raw(Method::GET, &format!("/{}/{name}.git/info/refs?service=git-{service}", owner.name))
}

async fn anonymous_callers_fetch_what_is_public(cluster: &Cluster) {
    let (ada, anonymous) = (cluster.user("ada").await, cluster.anonymous());
    ada.new_repository("open", json!({"auto_init": true})).await;
    ada.new_repository("hidden", json!({"auto_init": true, "private": true})).await;
    Response::of(refs(&anonymous, &ada, "open", "upload-pack")).await.expect(200);
    for (name, service) in
        [("hidden", "upload-pack"), ("absent", "upload-pack"), ("open", "receive-pack"), ("hidden", "receive-pack")]
    {
        let asked = Response::of(refs(&anonymous, &ada, name, service)).await.expect(401);
        assert!(asked.header("www-authenticate").starts_with("Basic realm="), "{:?}", asked.headers);
        assert!(asked.header("content-type").starts_with("text/plain"));
    }
    let git = Git::new();
    git.run("", &["clone", "-q", &anonymous.git_url(&ada.name, "open"), "work"]).await;
    git.fails("", &["clone", "-q", &anonymous.git_url(&ada.name, "hidden"), "no"]).await;
}

async fn every_form_of_credential_is_accepted(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("hidden", json!({"auto_init": true, "private": true})).await;
    let token = ada.token.clone().unwrap();
    let good = [
        (ada.name.as_str(), ada.password.as_str()),
        (&ada.email, &ada.password),
        (&token, ""),
        (&token, "x-oauth-basic"),
        ("x", &token),
        (&ada.name, &token),
    ];
    for (user, password) in good {
        let request = refs(&ada, &ada, "hidden", "upload-pack").basic_auth(user, Some(password));
        Response::of(request).await.expect(200);
    }
    for (user, password) in
        [(ada.name.as_str(), "wrong"), ("no-such-user", "wrong"), (&ada.name, ""), ("", ""), ("", &ada.password)]
    {
        let request = refs(&ada, &ada, "hidden", "upload-pack").basic_auth(user, Some(password));
        let asked = Response::of(request).await.expect(401);
        assert!(asked.header("www-authenticate").starts_with("Basic"));
    }
    for value in [format!("token {token}"), format!("Bearer {token}"), "Basic".to_owned(), "Basic !!!".to_owned()] {
        Response::of(refs(&ada, &ada, "hidden", "upload-pack").header("authorization", value)).await.expect(401);
    }
}

async fn outsiders_get_the_same_response_for_hidden_and_missing(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("hidden", json!({"auto_init": true, "private": true})).await;
    for service in ["upload-pack", "receive-pack"] {
        let mut responses = Vec::new();
        for name in ["hidden", "absent"] {
            let request = refs(&outsider, &ada, name, service).basic_auth(&outsider.name, outsider.token.as_ref());
            let response = Response::of(request).await.expect(404);
            responses.push(response.text());
        }
        assert_eq!(responses[0], responses[1]);
    }
    let unknown = outsider.raw(Method::GET, "/no-such-user/x.git/info/refs?service=git-upload-pack");
    Response::of(unknown.basic_auth(&outsider.name, outsider.token.as_ref())).await.expect(404);
    let git = Git::new();
    git.small("work").await;
    git.fails("work", &["push", "-q", &ada.git_url(&ada.name, "absent"), "main"]).await;
    ada.get(&ada.repo("absent", "")).await.refused(404);
}

async fn only_writers_push(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("open", json!({"auto_init": true})).await;
    Response::of(refs(&outsider, &ada, "open", "upload-pack").basic_auth(&outsider.name, outsider.token.as_ref()))
        .await
        .expect(200);
    Response::of(refs(&outsider, &ada, "open", "receive-pack").basic_auth(&outsider.name, outsider.token.as_ref()))
        .await
        .expect(403);
    let post = outsider.raw(Method::POST, &format!("/{}/open.git/git-receive-pack", ada.name)).body("0000");
    let post = post.header("content-type", "application/x-git-receive-pack-request");
    Response::of(post.try_clone().unwrap().basic_auth(&outsider.name, outsider.token.as_ref())).await.expect(403);
    Response::of(post).await.expect(401);
    let git = Git::new();
    git.run("", &["clone", "-q", &outsider.git_url(&ada.name, "open"), "work"]).await;
    git.commit("work", "x", "x").await;
    git.fails("work", &["push", "-q", "origin", "main"]).await;
}

async fn requests_that_are_not_git_are_refused(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("open", json!({"auto_init": true})).await;
    let root = format!("/{}/open.git", ada.name);
    for (method, path, statuses) in [
        (Method::GET, "/info/refs", &[403, 404, 400][..]),
        (Method::GET, "/info/refs?service=git-upload-archive", &[403, 400]),
        (Method::GET, "/info/refs?service=--help", &[403, 400]),
        (Method::GET, "/HEAD", &[404]),
        (Method::GET, "/objects/info/packs", &[404]),
        (Method::GET, "/config", &[404]),
        (Method::GET, "/git-upload-pack", &[404, 405]),
        (Method::POST, "/info/refs?service=git-upload-pack", &[404, 405]),
        (Method::POST, "/git-upload-pack", &[415]),
    ] {
        let request = ada.raw(method.clone(), &format!("{root}{path}")).basic_auth(&ada.name, ada.token.as_ref());
        let response = Response::of(request).await;
        assert!(
            statuses.contains(&response.status.as_u16()),
            "{method} {path}: {} {}",
            response.status,
            response.text()
        );
    }
    let post = ada.raw(Method::POST, &format!("{root}/git-upload-pack")).header("content-type", "text/plain");
    Response::of(post.body("0000")).await.expect(415);
    for version in ["version=2\u{0}x", &"version=2:".repeat(100), "--upload-pack=x", "version=9", "x"] {
        let Ok(value) = reqwest::header::HeaderValue::from_str(version) else { continue };
        let response = Response::of(refs(&ada, &ada, "open", "upload-pack").header("git-protocol", value)).await;
        assert!(response.status.as_u16() < 500, "{version}: {}", response.status);
    }
}

async fn advertisements_are_not_cached(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("open", json!({"auto_init": true})).await;
    let response = Response::of(refs(&ada, &ada, "open", "upload-pack")).await.expect(200);
    assert_eq!(response.header("content-type"), "application/x-git-upload-pack-advertisement");
    assert_eq!(response.header("cache-control"), "no-cache, max-age=0, must-revalidate");
    assert_eq!(response.header("pragma"), "no-cache");
    assert_eq!(response.header("expires"), "Fri, 01 Jan 1980 00:00:00 GMT");
    assert!(response.text().starts_with("001e# service=git-upload-pack\n0000"), "{}", response.text());
    assert!(response.text().contains(" refs/heads/main\n"), "{}", response.text());
    let second = refs(&ada, &ada, "open", "upload-pack").header("git-protocol", "version=2");
    assert!(Response::of(second).await.expect(200).text().contains("version 2"));
}

async fn names_match_without_case_and_suffix(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("Open", json!({"auto_init": true})).await;
    for path in [format!("{}/oPEN.git", ada.name.to_uppercase()), format!("{}/open", ada.name)] {
        Response::of(ada.raw(Method::GET, &format!("/{path}/info/refs?service=git-upload-pack"))).await.expect(200);
        let git = Git::new();
        git.run("", &["clone", "-q", &format!("{}/{path}", cluster.url), "work"]).await;
        git.run("", &["clone", "-q", &format!("{}/{path}/", cluster.url), "slash"]).await;
    }
    let wiki = ada.raw(Method::GET, &format!("/{}/Open.wiki.git/info/refs?service=git-upload-pack", ada.name));
    Response::of(wiki.basic_auth(&ada.name, ada.token.as_ref())).await.expect(404);
}
