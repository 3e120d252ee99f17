//! Releases and their files.

use reqwest::header::{IF_NONE_MATCH, RANGE};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::concurrent::join_all;
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        a_release_is_made_published_and_deleted_and_its_tag_stays
        files_are_uploaded_downloaded_and_deleted
        of_releases_of_one_tag_at_once_one_has_it_at_its_target
    }
    embedded {
        drafts_are_hidden_from_readers
        releases_are_listed_by_kind_and_deleted_by_tag
        downloads_have_ranges_and_tags
        wrong_uploads_are_refused
        releases_of_an_archived_repository_cannot_be_changed
    }
}

const WRITERS: usize = 8;

async fn owner(cluster: &Cluster, private: bool) -> User {
    let ada = cluster.user("ada").await;
    ada.new_repository("demo", json!({"auto_init": true, "private": private})).await;
    ada
}

async fn new_release(user: &User, body: Value) -> Value {
    user.post(&user.repo("demo", "/releases"), &body).await.expect(201).json()
}

async fn tags(user: &User) -> Vec<String> {
    user.get(&user.repo("demo", "/tags")).await.expect(200).each("name")
}

fn of_release(user: &User, release: &Value, rest: &str) -> String {
    user.repo("demo", &format!("/releases/{}{rest}", release["id"]))
}

fn raw(user: &User, release: &Value, name: &str, content: &[u8]) -> RequestBuilder {
    let request = user.request(Method::POST, &of_release(user, release, &format!("/assets?name={name}")));
    request.header("content-type", "application/octet-stream").body(content.to_vec())
}

fn form(user: &User, release: &Value, part: &str, name: &str, content: &[u8]) -> RequestBuilder {
    form_with(user, release, "", part, name, content)
}

/// Like [`form`], with a query.
fn form_with(user: &User, release: &Value, query: &str, part: &str, name: &str, content: &[u8]) -> RequestBuilder {
    let head = format!(
        "--xyz\r\nContent-Disposition: form-data; name=\"{part}\"; filename=\"{name}\"\r\nContent-Type: text/plain\r\n\r\n"
    );
    let request = user.request(Method::POST, &of_release(user, release, &format!("/assets{query}")));
    let body = [head.as_bytes(), content, b"\r\n--xyz--\r\n"].concat();
    request.header("content-type", "multipart/form-data; boundary=xyz").body(body)
}

/// A request for a file by the URL in its entry.
fn download(user: &User, asset: &Value) -> RequestBuilder {
    let address = asset["browser_download_url"].as_str().unwrap();
    let request = user.raw(Method::GET, address.strip_prefix(&user.url).expect("a URL of the site"));
    match &user.token {
        Some(token) => request.header("authorization", format!("token {token}")),
        None => request,
    }
}

async fn a_release_is_made_published_and_deleted_and_its_tag_stays(cluster: &Cluster) {
    let ada = owner(cluster, false).await;
    let path = ada.repo("demo", "/releases");
    ada.get(&ada.repo("demo", "/releases/latest")).await.refused_with_message(404, "release does not exist");
    let first = new_release(&ada, json!({"tag_name": "v1/rc", "name": "One", "body": "Notes"})).await;
    assert_eq!((&first["target_commitish"], &first["author"]["login"]), (&json!("main"), &json!(ada.name)));
    assert_eq!((first["draft"].clone(), first["assets"].clone()), (json!(false), json!([])));
    assert_eq!(first["html_url"], format!("{}/{}/demo/releases/tag/v1%2Frc", ada.url, ada.name));
    assert_eq!(tags(&ada).await, ["v1/rc"]);
    let archive = first["zipball_url"].as_str().unwrap().strip_prefix(&format!("{}/api/v1", ada.url)).unwrap();
    assert!(ada.get(archive).await.expect(200).body.starts_with(b"PK"));
    for place in [format!("/{}", first["id"]), "/latest".into(), "/tags/v1/rc".into(), "/tags/v1%2Frc".into()] {
        assert_eq!(cluster.anonymous().get(&format!("{path}{place}")).await.expect(200).json()["id"], first["id"]);
    }
    ada.post(&path, &json!({"tag_name": "v1/rc"})).await.refused_fields(&[("tag_name", "taken")]);
    ada.post(&path, &json!({"tag_name": "v1"})).await.refused_fields(&[("tag_name", "taken")]);
    let unknown = json!({"tag_name": "v2", "target_commitish": "nowhere"});
    ada.post(&path, &unknown).await.refused_fields(&[("target_commitish", "unknown")]);
    let wrong = json!({"tag_name": "a b", "name": "x\ny", "target_commitish": "\t"});
    let fields = [("tag_name", "invalid"), ("target_commitish", "invalid"), ("name", "invalid")];
    ada.post(&path, &wrong).await.refused_fields(&fields);
    let backwards = json!({"tag_name": "a\u{202e}b", "target_commitish": "a\u{202e}b"});
    ada.post(&path, &backwards).await.refused_fields(&fields[..2]);
    let nameless = json!({"name": "n".repeat(256)});
    ada.post(&path, &nameless).await.refused_fields(&[("tag_name", "required"), ("name", "too_long")]);
    let draft = new_release(&ada, json!({"tag_name": "v2", "draft": true, "target_commitish": "nowhere"})).await;
    assert_eq!(draft["published_at"], Value::Null);
    assert_eq!(tags(&ada).await, ["v1/rc"], "a draft creates no tag");
    let draft_path = of_release(&ada, &draft, "");
    ada.patch(&draft_path, &json!({"draft": false})).await.refused_fields(&[("target_commitish", "unknown")]);
    let edit = json!({"draft": false, "target_commitish": "main", "prerelease": true, "body": "x"});
    let published = ada.patch(&draft_path, &edit).await.expect(200).json();
    assert!(published["published_at"].is_string() && published["body"] == "x", "{published}");
    let moved = ada.patch(&draft_path, &json!({"tag_name": "v2", "target_commitish": "nowhere"})).await;
    assert_eq!(moved.expect(200).json()["target_commitish"], "main", "the tag stays");
    assert_eq!(tags(&ada).await, ["v1/rc", "v2"]);
    assert_eq!(ada.get(&format!("{path}/latest")).await.expect(200).json()["id"], first["id"], "v2 is a prerelease");
    let listed = ada.get(&format!("{path}?limit=1&page=2")).await.expect(200);
    assert_eq!((listed.each("tag_name"), listed.header("x-total-count")), (vec!["v1/rc".into()], "2".into()));
    ada.delete(&of_release(&ada, &first, "")).await.empty(204);
    ada.get(&of_release(&ada, &first, "")).await.refused(404);
    ada.delete(&of_release(&ada, &first, "")).await.refused(404);
    assert_eq!(tags(&ada).await, ["v1/rc", "v2"]);
    new_release(&ada, json!({"tag_name": "v1/rc", "target_commitish": "nowhere"})).await;
    // Only publications of releases emit events. New tags emit the same events as pushed ones.
    let told = |feed: &Value, event: &str, field: &str| -> Vec<String> {
        let events = feed["events"].as_array().unwrap().iter().filter(|one| one["event"] == event);
        events.map(|one| one["payload"].pointer(field).and_then(Value::as_str).unwrap_or_default().to_owned()).collect()
    };
    let path = ada.repo("demo", "/events?after=0&limit=100");
    let feed = ada.eventually(&path, |feed| told(feed, "release", "/release/tag_name").len() >= 2).await;
    assert_eq!(told(&feed, "release", "/release/tag_name"), ["v2", "v1/rc"], "the deleted release is hidden");
    assert_eq!(told(&feed, "create", "/ref"), ["main", "v1/rc", "v2"]);
}

async fn releases_are_listed_by_kind_and_deleted_by_tag(cluster: &Cluster) {
    let ada = owner(cluster, false).await;
    let path = ada.repo("demo", "/releases");
    for (tag, draft, prerelease) in [("v1", false, false), ("v2/rc", false, true), ("v3", true, false)] {
        new_release(&ada, json!({"tag_name": tag, "draft": draft, "prerelease": prerelease})).await;
    }
    let reader = cluster.anonymous();
    for (query, to_owner, to_reader) in [
        ("", &["v3", "v2/rc", "v1"][..], &["v2/rc", "v1"][..]),
        ("draft=true", &["v3"], &[]),
        ("draft=false", &["v2/rc", "v1"], &["v2/rc", "v1"]),
        ("pre-release=true", &["v2/rc"], &["v2/rc"]),
        ("draft=false&pre-release=false", &["v1"], &["v1"]),
        ("draft=&pre-release=", &["v3", "v2/rc", "v1"], &["v2/rc", "v1"]),
    ] {
        for (caller, expected) in [(&ada, to_owner), (&reader, to_reader)] {
            let listed = caller.get(&format!("{path}?{query}")).await.expect(200);
            assert_eq!(listed.each("tag_name"), expected, "{query}");
            assert_eq!(listed.header("x-total-count"), expected.len().to_string(), "{query}");
        }
    }
    ada.get(&format!("{path}?draft=maybe")).await.refused_field("draft");
    let count = async || ada.get(&ada.repo("demo", "")).await.expect(200).json()["release_counter"].clone();
    assert_eq!(count().await, 2);
    let release = format!("{path}/tags/v2/rc");
    cluster.outsider().await.delete(&release).await.refused(403);
    ada.delete(&release).await.empty(204);
    assert_eq!((count().await, tags(&ada).await), (json!(1), vec!["v1".to_owned(), "v2/rc".to_owned()]));
    for tag in ["v2/rc", "never"] {
        ada.delete(&format!("{path}/tags/{tag}")).await.refused_with_message(404, "release does not exist");
    }
    assert_eq!(ada.get(&path).await.expect(200).each("tag_name"), ["v3", "v1"]);
}

async fn of_releases_of_one_tag_at_once_one_has_it_at_its_target(cluster: &Cluster) {
    let ada = owner(cluster, false).await;
    let first = ada.get(&ada.repo("demo", "/branches/main")).await.expect(200).json()["commit"]["id"].clone();
    let file = json!({"message": "Second", "content": "eA=="});
    let second = ada.put(&ada.repo("demo", "/contents/x"), &file).await.expect(201).json()["commit"]["sha"].clone();
    let targets = [first, second];
    for round in 0..3 {
        let name = format!("made-{round}");
        let made = |number: usize| {
            let body = json!({"tag_name": name, "target_commitish": targets[number % 2]});
            (Method::POST, ada.repo("demo", "/releases"), body)
        };
        one_is_at_its_target(&ada, &name, (0..WRITERS).map(made).collect()).await;

        let name = format!("published-{round}");
        let mut publications = Vec::new();
        for (number, target) in targets.iter().cycle().take(WRITERS).enumerate() {
            let draft = json!({"tag_name": format!("draft-{round}-{number}"), "draft": true});
            let draft = new_release(&ada, draft).await;
            let body = json!({"draft": false, "tag_name": name, "target_commitish": target});
            publications.push((Method::PATCH, of_release(&ada, &draft, ""), body));
        }
        one_is_at_its_target(&ada, &name, publications).await;
    }
}

/// Sends concurrent writes of releases with one tag: one succeeds, and its target matches the tag.
async fn one_is_at_its_target(user: &User, tag: &str, writes: Vec<(Method, String, Value)>) {
    let send = |(method, path, body): (Method, String, Value)| {
        // Each on a new connection.
        Response::of(user.reconnected().request(method, &path).json(&body))
    };
    let responses = join_all(writes.into_iter().map(send)).await;
    let (done, refused): (Vec<_>, Vec<_>) = responses.into_iter().partition(|response| response.status.is_success());
    assert_eq!((done.len(), refused.len()), (1, WRITERS - 1));
    for response in refused {
        response.refused_fields(&[("tag_name", "taken")]);
    }
    let tags = user.get(&user.repo("demo", "/tags?limit=50")).await.expect(200).json();
    let made = tags.as_array().unwrap().iter().find(|one| one["name"] == tag).expect("the tag");
    assert_eq!(made["commit"]["id"], done[0].json()["target_commitish"], "{tag}");
}

async fn files_are_uploaded_downloaded_and_deleted(cluster: &Cluster) {
    let ada = owner(cluster, true).await;
    let release = new_release(&ada, json!({"tag_name": "v1#0"})).await;
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let first = Response::of(form(&ada, &release, "attachment", "a b\u{e4}.bin", &content)).await.expect(201).json();
    assert_eq!((&first["name"], &first["size"]), (&json!("a b\u{e4}.bin"), &json!(content.len())));
    let sha256 = hex::encode(Sha256::digest(&content));
    assert_eq!(first["sha256"], sha256);
    let second = Response::of(raw(&ada, &release, "empty.txt", b"")).await.expect(201).json();
    assert_eq!((&second["name"], &second["size"]), (&json!("empty.txt"), &json!(0)));
    let listed = ada.get(&of_release(&ada, &release, "/assets")).await.expect(200);
    assert_eq!(listed.json(), json!([first, second]));
    assert_eq!(ada.get(&of_release(&ada, &release, "")).await.expect(200).json()["assets"], listed.json());
    let response = Response::of(download(&ada, &first)).await.expect(200);
    assert!(response.body == content, "{} bytes", response.body.len());
    assert_eq!(
        (response.header("content-type"), response.header("etag")),
        ("text/plain".into(), format!("\"{sha256}\""))
    );
    assert!(response.header("content-disposition").starts_with("attachment; filename=\"a b__.bin\""));
    assert_eq!(response.header("x-content-type-options"), "nosniff");
    assert!(Response::of(download(&ada, &second)).await.expect(200).body.is_empty());
    for user in [cluster.anonymous(), cluster.outsider().await] {
        Response::of(download(&user, &first)).await.refused_with_message(404, "repository does not exist");
    }
    let path = of_release(&ada, &release, &format!("/assets/{}", first["id"]));
    ada.patch(&path, &json!({"name": "empty.txt"})).await.refused_fields(&[("name", "taken")]);
    ada.patch(&path, &json!({"name": "a/b"})).await.refused_fields(&[("name", "invalid")]);
    let renamed = ada.patch(&path, &json!({"name": "b.bin"})).await.expect(200).json();
    Response::of(download(&ada, &first)).await.refused_with_message(404, "file does not exist");
    assert!(Response::of(download(&ada, &renamed)).await.expect(200).body == content);
    ada.delete(&path).await.empty(204);
    ada.get(&path).await.refused_with_message(404, "file does not exist");
    Response::of(download(&ada, &renamed)).await.refused(404);
    ada.delete(&of_release(&ada, &release, "")).await.empty(204);
    Response::of(download(&ada, &second)).await.refused_with_message(404, "release does not exist");
}

async fn drafts_are_hidden_from_readers(cluster: &Cluster) {
    let (ada, bob) = (owner(cluster, false).await, cluster.user("bob").await);
    ada.share(&ada.repo("demo", ""), &bob, "read").await;
    let draft = new_release(&ada, json!({"tag_name": "v1", "draft": true})).await;
    let asset = Response::of(raw(&ada, &draft, "a.txt", b"secret")).await.expect(201).json();
    for user in [&bob, &cluster.anonymous()] {
        assert_eq!(user.get(&ada.repo("demo", "/releases")).await.expect(200).json(), json!([]));
        for rest in ["", "/assets", &format!("/assets/{}", asset["id"])] {
            let response = user.get(&of_release(&ada, &draft, rest)).await;
            response.refused_with_message(404, "release does not exist");
        }
        Response::of(download(user, &asset)).await.refused_with_message(404, "release does not exist");
    }
    let path = of_release(&ada, &draft, "");
    bob.patch(&path, &json!({"draft": false})).await.refused(403);
    bob.post(&ada.repo("demo", "/releases"), &json!({"tag_name": "v2"})).await.refused(403);
    let upload = bob.request(Method::POST, &format!("{path}/assets?name=b.txt")).body("x");
    Response::of(upload.header("content-type", "application/octet-stream")).await.refused(403);
    Response::of(download(&ada, &asset)).await.expect(200);
    ada.share(&ada.repo("demo", ""), &bob, "write").await;
    assert_eq!(bob.get(&ada.repo("demo", "/releases")).await.expect(200).each("tag_name"), ["v1"]);
    bob.patch(&path, &json!({"draft": false})).await.expect(200);
    assert_eq!(Response::of(download(&cluster.anonymous(), &asset)).await.expect(200).text(), "secret");
}

async fn downloads_have_ranges_and_tags(cluster: &Cluster) {
    let ada = owner(cluster, false).await;
    let release = new_release(&ada, json!({"tag_name": "v1"})).await;
    let content: Vec<u8> = (0..=255).cycle().take(400_000).collect();
    let asset = Response::of(raw(&ada, &release, "a.bin", &content)).await.expect(201).json();
    let anonymous = cluster.anonymous();
    let whole = Response::of(download(&anonymous, &asset)).await.expect(200);
    assert_eq!((whole.header("accept-ranges"), whole.header("content-length")), ("bytes".into(), "400000".into()));
    let etag = whole.header("etag");
    let ranged = async |range: &str| Response::of(download(&anonymous, &asset).header(RANGE, range)).await;
    let part = ranged("bytes=100-199999").await.expect(206);
    assert_eq!(part.header("content-range"), "bytes 100-199999/400000");
    assert!(part.body == content[100..200_000]);
    assert!(ranged("bytes=-5").await.expect(206).body == content[399_995..]);
    assert_eq!(ranged("bytes=400000-").await.refused(416).header("content-range"), "bytes */400000");
    let stale = download(&anonymous, &asset).header(RANGE, "bytes=0-1").header("if-range", "\"other\"");
    assert_eq!(Response::of(stale).await.expect(200).body.len(), 400_000);
    let same = Response::of(download(&anonymous, &asset).header(IF_NONE_MATCH, &etag)).await.expect(304);
    assert!(same.body.is_empty() && same.header("etag") == etag);
    let address = asset["browser_download_url"].as_str().unwrap().strip_prefix(&ada.url).unwrap();
    let head = Response::of(anonymous.raw(Method::HEAD, address)).await.expect(200);
    assert!(head.body.is_empty() && head.header("content-length") == "400000" && head.header("etag") == etag);
    for wrong in ["v1/b.bin", "v2/a.bin", "a.bin", "v1/", "v1/%00", "v1/a.bin/x", "..%2fv1/a.bin", "%ff/%ff"] {
        let path = format!("/{}/demo/releases/download/{wrong}", ada.name);
        Response::of(anonymous.raw(Method::GET, &path)).await.refused(404);
    }
}

async fn wrong_uploads_are_refused(cluster: &Cluster) {
    let ada = owner(cluster, false).await;
    let release = new_release(&ada, json!({"tag_name": "v1"})).await;
    Response::of(raw(&ada, &release, "a.txt", b"x")).await.expect(201);
    for (name, code) in
        [("", "required"), ("a%2Fb", "invalid"), ("%0A", "invalid"), ("..", "invalid"), ("a.txt", "taken")]
    {
        Response::of(raw(&ada, &release, name, b"x")).await.refused_fields(&[("name", code)]);
    }
    let long = "x".repeat(256);
    Response::of(raw(&ada, &release, &long, b"x")).await.refused_fields(&[("name", "too_long")]);
    Response::of(form(&ada, &release, "other", "b.txt", b"x")).await.refused_fields(&[("attachment", "required")]);
    Response::of(form(&ada, &release, "attachment", "a.txt", b"x")).await.refused_fields(&[("name", "taken")]);
    // The file name in the query takes precedence over the form.
    let named = form_with(&ada, &release, "?name=b.txt", "attachment", "a.txt", b"x");
    assert_eq!(Response::of(named).await.expect(201).json()["name"], "b.txt");
    let path = of_release(&ada, &release, "/assets?name=c.txt");
    let typed = |kind: &str, body: &'static str| {
        ada.request(Method::POST, &path).header("content-type", kind.to_owned()).body(body)
    };
    Response::of(typed("application/json", "{}")).await.refused(415);
    Response::of(typed("multipart/form-data", "x")).await.refused(400);
    Response::of(typed("multipart/form-data; boundary=xyz", "x")).await.refused(400);
    let cut = "--xyz\r\nContent-Disposition: form-data; name=\"attachment\"; filename=\"c\"\r\n\r\nabc";
    Response::of(typed("multipart/form-data; boundary=xyz", cut)).await.refused(400);
    let missing = json!({"id": 999_999_999});
    Response::of(raw(&ada, &missing, "a.txt", b"x")).await.refused_with_message(404, "release does not exist");
    let listed = ada.get(&of_release(&ada, &release, "/assets")).await.expect(200);
    assert_eq!(listed.each("name"), ["a.txt", "b.txt"]);
}

async fn releases_of_an_archived_repository_cannot_be_changed(cluster: &Cluster) {
    let ada = owner(cluster, false).await;
    let release = new_release(&ada, json!({"tag_name": "v1"})).await;
    let asset = Response::of(raw(&ada, &release, "a.txt", b"x")).await.expect(201).json();
    ada.patch(&ada.repo("demo", ""), &json!({"archived": true})).await.expect(200);
    ada.post(&ada.repo("demo", "/releases"), &json!({"tag_name": "v2"})).await.refused(403);
    ada.patch(&of_release(&ada, &release, ""), &json!({"name": "x"})).await.refused(403);
    ada.delete(&of_release(&ada, &release, "")).await.refused(403);
    Response::of(raw(&ada, &release, "b.txt", b"x")).await.refused(403);
    assert_eq!(Response::of(download(&ada, &asset)).await.expect(200).text(), "x");
    ada.patch(&ada.repo("demo", ""), &json!({"archived": false})).await.expect(200);
    ada.delete(&of_release(&ada, &release, "")).await.empty(204);
}
