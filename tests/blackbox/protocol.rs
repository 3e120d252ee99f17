//! Forms of requests and responses that are the same for every operation.

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        bodies_over_the_limit_are_refused
        a_write_with_a_key_happens_once
        writes_of_the_issue_tracker_with_a_key_happen_once
        malformed_requests_get_a_client_error
    }
    embedded {
        unknown_paths_and_methods_respond_with_json
        bodies_of_another_type_are_refused
        bodies_that_are_not_json_are_refused
        every_response_has_a_request_id
        reads_have_an_entity_tag
        pages_are_numbers_or_the_first
        links_keep_the_query
        heads_and_options_are_answered
    }
}

/// Sends a request that no HTTP library would send, and returns the response status. `head` is the
/// request line.
pub(crate) async fn raw_status(cluster: &Cluster, head: &str, user: &User, body: &str) -> u16 {
    let host = cluster.url.trim_start_matches("http://");
    let token = user.token.as_deref().unwrap_or_default();
    let request = format!(
        "{head}\r\nhost: {host}\r\nauthorization: token {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len(),
    );
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    let response = String::from_utf8_lossy(&response);
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("{head}: no answer: {response:?}"))
}

async fn unknown_paths_and_methods_respond_with_json(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for path in
        ["/api", "/api/v1", "/api/v1/", "/api/v1/nope", "/api/v2/user", "/api/v1/repos/a", "/api/v1/user//repos"]
    {
        for caller in [&ada, &cluster.anonymous()] {
            let request = caller.raw(Method::GET, path);
            Response::of(request).await.refused(404);
        }
    }
    for (method, path) in [
        (Method::DELETE, "/user"),
        (Method::PATCH, "/user/repos"),
        (Method::POST, "/repos/search"),
        (Method::PUT, "/user"),
    ] {
        let response = Response::of(ada.request(method, path)).await.refused_any(&[404, 405]);
        assert!(response.status != 405 || !response.header("allow").is_empty());
    }
    ada.new_repository("plain", json!({})).await;
    ada.get(&ada.repo("plain.git", "")).await.refused(404);
    ada.get("/user/").await.expect(200);
    ada.get(&ada.repo("plain", "/")).await.expect(200);
    for path in
        ["/api/v1/../v1/user", "/api/v1/%2e%2e/v1/user", "//api/v1/user", "/api/v1/users/%2e%2e", "/api/v1/users/a%2fb"]
    {
        let status = raw_status(cluster, &format!("GET {path} HTTP/1.1"), &ada, "").await;
        assert_eq!(status, 404, "{path}");
    }
}

async fn bodies_of_another_type_are_refused(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let post = |kind: Option<&'static str>, body: &'static str| {
        let mut request = ada.request(Method::POST, "/user/repos");
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        Response::of(if body.is_empty() { request } else { request.body(body) })
    };
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml"]
    {
        post(Some(kind), "name=x").await.refused(415);
    }
    // Pages of other sites may send these types.
    for kind in ["text/plain; json", "text/plain;charset=application/json", "multipart/form-data; boundary=json"] {
        post(Some(kind), r#"{"name":"typed-0"}"#).await.refused(415);
    }
    post(None, "").await.refused_fields(&[("name", "required")]);
    post(Some("application/json"), "").await.refused_fields(&[("name", "required")]);
    post(None, r#"{"name":"typed-1"}"#).await.expect(201);
    post(Some("APPLICATION/JSON; charset=utf-8"), r#"{"name":"typed-2"}"#).await.expect(201);
    post(Some("application/vnd.x+json"), r#"{"name":"typed-3","unknown":{"a":[1]}}"#).await.expect(201);
}

async fn bodies_that_are_not_json_are_refused(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let post = |body: Vec<u8>| {
        Response::of(ada.request(Method::POST, "/user/repos").header(CONTENT_TYPE, "application/json").body(body))
    };
    for broken in [
        r#"{"name":"#,
        "{",
        "nonsense",
        r#"{"name":"x"} trailing"#,
        r#"{"name":"x"}{}"#,
        r"{'name':'x'}",
        r#"{"name":"x",}"#,
    ] {
        post(broken.into()).await.refused(400);
    }
    post(b"{\"name\":\"\xff\"}".to_vec()).await.refused(400);
    post(vec![0]).await.refused(400);
    post("[".repeat(100_000).into()).await.refused(400);
    for wrong in ["[]", "\"x\"", "7", "true"] {
        post(wrong.into()).await.refused(422);
    }
    cluster.anonymous().post("/user/repos", &json!({})).await.refused(401);
}

async fn bodies_over_the_limit_are_refused(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("big", json!({"auto_init": true})).await;
    let body = json!({"title": "t", "body": "b".repeat(8 << 20)});
    ada.post(&ada.repo("big", "/issues"), &body).await.refused(413);
    ada.post(&ada.repo("big", "/labels"), &json!({"name": "b".repeat(5 << 20)})).await.refused(413);
    let fits = json!({"title": "t", "body": "b".repeat(2 << 20)});
    ada.post(&ada.repo("big", "/issues"), &fits).await.refused_fields(&[("body", "too_long")]);
    let content = "QUFB".repeat(3 << 20);
    let file = ada.put(&ada.repo("big", "/contents/big.bin"), &json!({"message": "m", "content": content})).await;
    let file = file.expect(201).json();
    assert_eq!(file["content"]["size"], 9 << 20);
    assert_eq!(file["content"]["encoding"], "none");
    assert!(file["content"]["content"].is_null());
    assert_eq!(ada.get(&ada.repo("big", "/raw/main/big.bin")).await.expect(200).body.len(), 9 << 20);
    let too_big = vec![b' '; 97 << 20];
    let request = ada.request(Method::PUT, &ada.repo("big", "/contents/x")).header(CONTENT_TYPE, "application/json");
    Response::of(request.body(too_big)).await.refused(413);
}

async fn every_response_has_a_request_id(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let first = ada.get("/user").await.expect(200).header("x-request-id");
    let second = ada.get("/user").await.expect(200).header("x-request-id");
    assert!(!first.is_empty() && first != second, "{first} {second}");
    let name = reqwest::header::HeaderName::from_static("x-request-id");
    let kept = ada.get_with("/user", name.clone(), "my-request.7").await.expect(200);
    assert_eq!(kept.header("x-request-id"), "my-request.7");
    for odd in ["a b", &"x".repeat(1000), "<script>"] {
        let replaced = ada.get_with("/user", name.clone(), odd).await.expect(200).header("x-request-id");
        assert!(!replaced.is_empty() && replaced != odd, "{replaced}");
    }
    assert_ne!(ada.get("/nope").await.refused(404).header("x-request-id"), "");
    assert_ne!(Response::of(ada.raw(Method::GET, "/x/y.git/info/refs")).await.header("x-request-id"), "");
}

async fn reads_have_an_entity_tag(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("tagged", json!({"auto_init": true})).await;
    ada.new_issue(&ada.repo("tagged", ""), "One", json!({})).await;
    for rest in ["", "/branches", "/contents/README.md", "/commits/main", "/issues", "/issues/1", "/issues/comments"] {
        let path = ada.repo("tagged", rest);
        let first = ada.get(&path).await.expect(200);
        let tag = first.header(ETAG.as_str());
        assert!(tag.starts_with('"') && tag.ends_with('"'), "{rest}: {tag:?}");
        assert_eq!(ada.get(&path).await.header(ETAG.as_str()), tag);
        for value in [tag.clone(), format!("\"x\", {tag}"), format!("W/{tag}"), "*".to_owned()] {
            let unchanged = ada.get_with(&path, IF_NONE_MATCH, &value).await.expect(304);
            assert!(unchanged.body.is_empty());
            assert_eq!(unchanged.header(ETAG.as_str()), tag);
        }
        ada.get_with(&path, IF_NONE_MATCH, "\"other\"").await.expect(200);
    }
    let path = ada.repo("tagged", "/branches");
    let tag = ada.get(&path).await.expect(200).header(ETAG.as_str());
    ada.put(&ada.repo("tagged", "/contents/x"), &json!({"message": "m", "content": ""})).await.expect(201);
    ada.get_with(&path, IF_NONE_MATCH, &tag).await.expect(200);
}

async fn a_write_with_a_key_happens_once(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let post = |user: &User, method: Method, path: String, key: &str, body: serde_json::Value| {
        Response::of(user.request(method, &path).header("idempotency-key", key).json(&body))
    };
    let made = post(&ada, Method::POST, "/user/repos".into(), "k1", json!({"name": "once", "auto_init": true})).await;
    let again = post(&ada, Method::POST, "/user/repos".into(), "k1", json!({"name": "once", "auto_init": true})).await;
    assert_eq!((made.expect(201).json()["id"].clone(), 201), (again.json()["id"].clone(), again.status.as_u16()));
    post(&ada, Method::POST, "/user/repos".into(), "k1", json!({"name": "other"})).await.refused(422);
    let issues = ada.repo("once", "/issues");
    let one = post(&ada, Method::POST, issues.clone(), "k1", json!({"title": "one"})).await.expect(201).json();
    let same = post(&ada, Method::POST, issues.clone(), "k1", json!({"title": "one"})).await.expect(201).json();
    assert_eq!(one, same);
    post(&ada, Method::POST, issues.clone(), "k1", json!({"title": "two"})).await.refused(422);
    let of_bob = post(&bob, Method::POST, issues.clone(), "k1", json!({"title": "one"})).await.expect(201).json();
    assert_eq!((&one["number"], &of_bob["number"]), (&json!(1), &json!(2)));
    let file = ada.repo("once", "/contents/x");
    let body = json!({"message": "m", "content": "eA=="});
    let first = post(&ada, Method::PUT, file.clone(), "k1", body.clone()).await.expect(201).json();
    let second = post(&ada, Method::PUT, file.clone(), "k1", body.clone()).await.expect(201).json();
    assert_eq!(first["commit"]["sha"], second["commit"]["sha"]);
    post(&ada, Method::PUT, file, "k1", json!({"message": "m", "content": "eQ=="})).await.refused(422);
    let long = "k".repeat(2000);
    post(&ada, Method::POST, issues, &long, json!({"title": "one"})).await.refused_any(&[400, 422]);
}

async fn writes_of_the_issue_tracker_with_a_key_happen_once(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("once", json!({})).await;
    let (first, second) = (ada.new_label(&repo, "first").await, ada.new_label(&repo, "second").await);
    ada.new_issue(&repo, "One", json!({})).await;
    let send = async |method: &Method, path: &str, body: &serde_json::Value| {
        let request = ada.request(method.clone(), &format!("{repo}{path}")).header("idempotency-key", "k1").json(body);
        Response::of(request).await
    };
    for (method, path, body, other) in [
        (Method::POST, "/issues/1/comments", json!({"body": "x"}), json!({"body": "y"})),
        (Method::POST, "/labels", json!({"name": "x", "color": "#000000"}), json!({"name": "y", "color": "#000000"})),
        (Method::POST, "/milestones", json!({"title": "x"}), json!({"title": "y"})),
        (Method::PATCH, "/issues/1", json!({"title": "x"}), json!({"title": "y"})),
        (Method::POST, "/issues/1/labels", json!({"labels": [first]}), json!({"labels": [second]})),
    ] {
        let done = send(&method, path, &body).await;
        assert!(done.status.is_success(), "{method} {path}: {}", done.text());
        let again = send(&method, path, &body).await;
        assert_eq!((done.status, done.text()), (again.status, again.text()), "{method} {path}");
        send(&method, path, &other).await.refused(422);
    }
    let path = format!("/labels/{second}");
    for _ in 0..2 {
        send(&Method::DELETE, &path, &json!({})).await.empty(204);
    }
    ada.delete(&format!("{repo}{path}")).await.refused(404);
    let issue = ada.issue(&repo, 1).await;
    assert_eq!(
        (&issue["title"], &issue["comments"], &issue["labels"][0]["id"]),
        (&json!("x"), &json!(1), &json!(first))
    );
    assert_eq!(ada.get(&format!("{repo}/labels")).await.expect(200).each("name"), ["first", "x"]);
    assert_eq!(ada.get(&format!("{repo}/milestones")).await.expect(200).each("title"), ["x"]);
    assert_eq!(ada.actions(&repo, 1).await, ["renamed", "labeled"]);
}

async fn pages_are_numbers_or_the_first(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for name in ["a", "b", "c"] {
        ada.new_repository(name, json!({})).await;
    }
    let first = ada.get("/user/repos?limit=2").await.expect(200).json();
    assert_eq!(first.as_array().unwrap().len(), 2);
    for page in ["", "0", "-1", "x", "1", "1.5"] {
        assert_eq!(ada.get(&format!("/user/repos?limit=2&page={page}")).await.expect(200).json(), first, "{page}");
    }
    for page in ["3", "99999999", "9223372036854775808", "99999999999999999999999"] {
        assert_eq!(ada.get(&format!("/user/repos?limit=2&page={page}")).await.expect(200).text(), "[]", "{page}");
    }
    for limit in ["0", "-5", "x", "99999999999999999999999"] {
        ada.get(&format!("/user/repos?limit={limit}")).await.expect(200);
        ada.get(&format!("/repos/search?limit={limit}")).await.expect(200);
    }
}

async fn links_keep_the_query(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for name in ["a", "b", "c", "d", "e"] {
        ada.new_repository(name, json!({})).await;
    }
    let response = ada.get(&format!("/repos/search?q=&page=2&limit=2&uid={}", ada.id)).await.expect(200);
    let to = |page: u32, rel: &str| {
        format!("<{}/api/v1/repos/search?q=&limit=2&uid={}&page={page}>; rel=\"{rel}\"", cluster.url, ada.id)
    };
    assert_eq!(response.header("link"), [to(3, "next"), to(3, "last"), to(1, "first"), to(1, "prev")].join(","));
}

async fn heads_and_options_are_answered(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("head", json!({})).await;
    for (path, status) in [("/user".to_owned(), 200), (ada.repo("head", ""), 200), (ada.repo("nope", ""), 404)] {
        let head = Response::of(ada.request(Method::HEAD, &path)).await.expect(status);
        assert!(head.body.is_empty());
    }
    let options = Response::of(cluster.anonymous().request(Method::OPTIONS, "/user/repos")).await.expect(200);
    assert!(options.body.is_empty());
}

async fn malformed_requests_get_a_client_error(cluster: &Cluster) {
    let outsider = cluster.outsider().await;
    for head in [
        "GET /api/v1/user%00 HTTP/1.1",
        "GET /api/v1/users/%FF%FE HTTP/1.1",
        "GET /%zz HTTP/1.1",
        "BREW /api/v1/user HTTP/1.1",
        "GET /api/v1/repos/%00/%00 HTTP/1.1",
        "GET http://elsewhere.example/api/v1/nope HTTP/1.1",
        "GET /api/v1/repos/search?q=%FF%00&uid=%00 HTTP/1.1",
    ] {
        let status = raw_status(cluster, head, &outsider, "").await;
        assert!(status < 500, "{head}: {status}");
    }
    let long = format!("GET /api/v1/{} HTTP/1.1", "x".repeat(60_000));
    assert!(raw_status(cluster, &long, &outsider, "").await < 500);
    let host = cluster.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(b"\x16\x03\x01\x00\xff\x01\x00").await.unwrap();
    drop(stream);
    outsider.get("/user").await.expect(200);
}
