//! Files written and deleted with `If-Match`, and created with `If-None-Match`. The condition
//! applies to the file on the branch that the body names.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use serde_json::{Value, json};

use crate::harness::concurrent::join_all;
use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        a_file_is_written_and_removed_by_its_tag
        of_writers_with_one_tag_at_once_one_succeeds
        of_creators_at_once_one_succeeds
    }
    embedded {
        the_tag_is_compared_with_the_file_of_the_branch_that_the_body_names
        what_is_committed_beside_a_file_leaves_its_tag
        a_push_makes_the_tag_of_a_file_stale
        a_star_and_lists_match_and_weak_tags_never_do
        a_file_that_exists_is_not_created
        a_file_with_a_tag_of_if_none_match_is_left_alone
        a_read_with_the_tag_of_a_file_is_304
        refusals_for_other_reasons_come_first
        a_repeat_with_its_key_gets_the_first_response_with_a_stale_tag_too
    }
}

const WRITERS: usize = 8;

pub(crate) async fn tag(user: &User, path: &str) -> String {
    let tag = user.get(path).await.expect(200).header("etag");
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2, "{path}: {tag}");
    tag
}

pub(crate) async fn send(
    user: &User,
    method: Method,
    path: &str,
    (name, value): (HeaderName, &str),
    body: &Value,
) -> Response {
    Response::of(user.request(method, path).header(name, value).json(body)).await
}

/// Sends concurrent writes, of which one must succeed and the others must get 412. Returns the
/// number of the winner.
pub(crate) async fn winner<F: Future<Output = Response>>(write: impl Fn(usize) -> F) -> usize {
    let responses = join_all((0..WRITERS).map(write)).await;
    let is_done = |(_, response): &(usize, Response)| response.status.is_success();
    let (done, refused): (Vec<_>, Vec<_>) = responses.into_iter().enumerate().partition(is_done);
    for (_, response) in refused {
        response.refused(412);
    }
    let [(number, _)] = done.as_slice() else { panic!("{} succeeded", done.len()) };
    *number
}

async fn new_file(user: &User, name: &str) -> String {
    user.new_repository(name, json!({"auto_init": true})).await;
    let path = user.repo(name, "/contents/dir/a");
    user.put(&path, &content("1")).await.expect(201);
    path
}

fn content(text: &str) -> Value {
    json!({"message": "Write", "content": STANDARD.encode(text)})
}

fn on(branch: &str, text: &str) -> Value {
    json!({"message": "Write", "content": STANDARD.encode(text), "branch": branch})
}

async fn put(user: &User, path: &str, if_match: &str, body: &Value) -> Response {
    send(user, Method::PUT, path, (IF_MATCH, if_match), body).await
}

async fn create(user: &User, path: &str, body: &Value) -> Response {
    send(user, Method::PUT, path, (IF_NONE_MATCH, "*"), body).await
}

async fn remove(user: &User, path: &str, if_match: &str, branch: &str) -> Response {
    let body = json!({"message": "Remove", "branch": branch});
    send(user, Method::DELETE, path, (IF_MATCH, if_match), &body).await
}

async fn text(user: &User, path: &str) -> String {
    let content = user.get(path).await.expect(200).json()["content"].as_str().unwrap().to_owned();
    String::from_utf8(STANDARD.decode(content).unwrap()).unwrap()
}

async fn a_file_is_written_and_removed_by_its_tag(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_file(&ada, "tagged").await;
    let first = tag(&ada, &path).await;
    put(&ada, &path, &first, &content("2")).await.expect(200);
    let refused = put(&ada, &path, &first, &content("3")).await.refused(412);
    // The body may name another branch than a GET of the path reads.
    assert_eq!(refused.header("etag"), "");
    assert!(refused.json().get("errors").is_none(), "{}", refused.text());
    assert_eq!(text(&ada, &path).await, "2");
    let second = tag(&ada, &path).await;
    assert_ne!(second, first);
    remove(&ada, &path, &first, "").await.refused(412);
    assert_eq!(text(&ada, &path).await, "2");
    remove(&ada, &path, &second, "").await.expect(200);
    ada.get(&path).await.refused(404);
    remove(&ada, &path, &second, "").await.refused(404);
    // A deleted file matches no tag, and `*` requires an existing file.
    for if_match in [second.as_str(), "*"] {
        put(&ada, &path, if_match, &content("2")).await.refused(412);
    }
    ada.get(&path).await.refused(404);
}

async fn of_writers_with_one_tag_at_once_one_succeeds(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let path = &new_file(ada, "raced").await;
    let one = &tag(ada, path).await;
    let write =
        |number: usize| async move { put(&ada.reconnected(), path, one, &content(&format!("By {number}"))).await };
    let number = winner(write).await;
    assert_eq!(text(ada, path).await, format!("By {number}"));
    assert_eq!(ada.get(&ada.repo("raced", "/commits")).await.expect(200).json().as_array().unwrap().len(), 3);
}

async fn of_creators_at_once_one_succeeds(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    ada.new_repository("made", json!({})).await;
    for name in ["first", "second"] {
        let path = &ada.repo("made", &format!("/contents/{name}"));
        let write =
            |number: usize| async move { create(&ada.reconnected(), path, &content(&format!("By {number}"))).await };
        let number = winner(write).await;
        assert_eq!(text(ada, path).await, format!("By {number}"));
    }
    assert_eq!(ada.get(&ada.repo("made", "/commits")).await.expect(200).json().as_array().unwrap().len(), 2);
}

async fn the_tag_is_compared_with_the_file_of_the_branch_that_the_body_names(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_file(&ada, "branched").await;
    let topic_path = format!("{path}?ref=topic");
    let main = tag(&ada, &path).await;
    put(&ada, &path, &main, &on("topic", "2")).await.expect(200);
    assert_eq!(tag(&ada, &path).await, main);
    let topic = tag(&ada, &topic_path).await;
    for query in ["", "?ref=topic", "?ref=main"] {
        let path = format!("{path}{query}");
        put(&ada, &path, &main, &on("topic", "3")).await.refused(412);
        put(&ada, &path, &topic, &on("main", "3")).await.refused(412);
        put(&ada, &path, &topic, &content("3")).await.refused(412);
        remove(&ada, &path, &main, "topic").await.refused(412);
        remove(&ada, &path, &topic, "main").await.refused(412);
        let topic = tag(&ada, &topic_path).await;
        put(&ada, &path, &topic, &on("topic", &format!("3{query}"))).await.expect(200);
    }
    let of_main = tag(&ada, &format!("{path}?ref=main")).await;
    put(&ada, &path, &of_main, &content("4")).await.expect(200);
    remove(&ada, &path, &tag(&ada, &topic_path).await, "topic").await.expect(200);
    ada.get(&topic_path).await.refused(404);
    create(&ada, &path, &on("topic", "5")).await.expect(201);
    assert_eq!((text(&ada, &path).await, text(&ada, &topic_path).await), ("4".to_owned(), "5".to_owned()));
}

async fn what_is_committed_beside_a_file_leaves_its_tag(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_file(&ada, "beside").await;
    let first = tag(&ada, &path).await;
    ada.put(&ada.repo("beside", "/contents/dir/b"), &content("b")).await.expect(201);
    assert_eq!(tag(&ada, &path).await, first);
    put(&ada, &path, &first, &content("2")).await.expect(200);
    // The same content again is the same version.
    ada.put(&path, &content("1")).await.expect(200);
    assert_eq!(tag(&ada, &path).await, first);
    let files = json!([{"operation": "move", "path": "dir/c", "from_path": "dir/a"}]);
    ada.post(&ada.repo("beside", "/contents"), &json!({"message": "Move", "files": files})).await.expect(201);
    put(&ada, &path, &first, &content("2")).await.refused(412);
}

async fn a_push_makes_the_tag_of_a_file_stale(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    let path = new_file(&ada, "pushed").await;
    let first = tag(&ada, &path).await;
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "pushed"), "work"]).await;
    git.commit("work", "dir/a", "pushed").await;
    git.run("work", &["push", "-q", "origin", "HEAD:main"]).await;
    put(&ada, &path, &first, &content("2")).await.refused(412);
    put(&ada, &path, &tag(&ada, &path).await, &content("2")).await.expect(200);
}

async fn a_star_and_lists_match_and_weak_tags_never_do(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_file(&ada, "listed").await;
    for (number, form) in ["*", "\"x\", TAG", "W/\"x\",TAG", "TAG, TAG"].iter().enumerate() {
        let if_match = form.replace("TAG", &tag(&ada, &path).await);
        put(&ada, &path, &if_match, &content(&format!("by {number}"))).await.expect(200);
    }
    // One of the two listed tags is current.
    let old = tag(&ada, &path).await;
    ada.put(&path, &content("newer")).await.expect(200);
    let both = format!("{old}, {}", tag(&ada, &path).await);
    put(&ada, &path, &both, &content("newest")).await.expect(200);
    put(&ada, &path, &both, &content("never")).await.refused(412);
    for form in ["W/TAG", "\"x\"", "\"x\", W/TAG"] {
        let if_match = form.replace("TAG", &tag(&ada, &path).await);
        put(&ada, &path, &if_match, &content("never")).await.refused(412);
    }
    for malformed in ["", "abc", "\"abc", "*, \"a\""] {
        put(&ada, &path, malformed, &content("never")).await.refused_fields(&[("If-Match", "invalid")]);
    }
    assert_eq!(text(&ada, &path).await, "newest");
}

async fn a_file_that_exists_is_not_created(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_file(&ada, "kept").await;
    create(&ada, &path, &content("2")).await.refused(412);
    // Also for the same content, and on a new branch that starts with the file.
    create(&ada, &path, &content("1")).await.refused(412);
    create(&ada, &path, &on("topic", "2")).await.refused(412);
    assert_eq!(text(&ada, &path).await, "1");
    let other = ada.repo("kept", "/contents/other");
    let both = ada.request(Method::PUT, &other).header(IF_NONE_MATCH, "*").header(IF_MATCH, "*");
    Response::of(both.json(&content("2"))).await.refused(412);
    create(&ada, &other, &content("2")).await.expect(201);
}

async fn a_file_with_a_tag_of_if_none_match_is_left_alone(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_file(&ada, "other").await;
    let first = tag(&ada, &path).await;
    let put_other = async |if_none_match: &str, body: &Value| {
        send(&ada, Method::PUT, &path, (IF_NONE_MATCH, if_none_match), body).await
    };
    let remove_other = async |if_none_match: &str| {
        send(&ada, Method::DELETE, &path, (IF_NONE_MATCH, if_none_match), &json!({"message": "Remove"})).await
    };
    for form in ["TAG", "W/TAG", "\"x\", TAG", "*", "\"x\", *"] {
        let if_none_match = form.replace("TAG", &first);
        put_other(&if_none_match, &content("2")).await.refused(412);
        put_other(&if_none_match, &on("topic", "2")).await.refused(412);
        remove_other(&if_none_match).await.refused(412);
    }
    for malformed in ["", "abc", "\"abc"] {
        put_other(malformed, &content("2")).await.refused_fields(&[("If-None-Match", "invalid")]);
    }
    let both = async |if_match: &str, if_none_match: &str| {
        let request = ada.request(Method::PUT, &path).header(IF_MATCH, if_match).header(IF_NONE_MATCH, if_none_match);
        Response::of(request.json(&content("2"))).await
    };
    both(&first, &first).await.refused(412);
    both("*", &first).await.refused_fields(&[("If-None-Match", "invalid")]);
    assert_eq!(text(&ada, &path).await, "1");
    both(&first, "\"x\"").await.expect(200);
    put_other(&first, &content("3")).await.expect(200);
    put_other("\"x\"", &content("4")).await.expect(200);
    let second = tag(&ada, &path).await;
    remove_other(&second).await.refused(412);
    remove_other(&first).await.expect(200);
    remove_other(&second).await.refused(404);
    put_other(&second, &content("4")).await.expect(201);
}

async fn a_read_with_the_tag_of_a_file_is_304(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_file(&ada, "read").await;
    let first = tag(&ada, &path).await;
    for form in ["TAG", "W/TAG", "\"x\", TAG", "*"] {
        let unchanged = ada.get_with(&path, IF_NONE_MATCH, &form.replace("TAG", &first)).await.empty(304);
        assert_eq!(unchanged.header("etag"), first);
    }
    put(&ada, &path, &first, &content("2")).await.expect(200);
    ada.get_with(&path, IF_NONE_MATCH, &first).await.expect(200);
}

async fn refusals_for_other_reasons_come_first(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.outsider().await);
    let path = new_file(&ada, "strict").await;
    ada.new_repository("hidden", json!({"auto_init": true, "private": true})).await;
    let hidden = ada.repo("hidden", "/contents/README.md");
    let directory = ada.repo("strict", "/contents/dir");
    for if_match in ["\"stale\"", "*"] {
        put(&cluster.anonymous(), &path, if_match, &content("2")).await.refused(401);
        put(&bob, &path, if_match, &content("2")).await.refused(403);
        put(&bob, &hidden, if_match, &content("2")).await.refused(404);
        put(&ada, &path, if_match, &json!({"message": "m"})).await.refused_field("content");
        put(&ada, &path, if_match, &on("a..b", "2")).await.refused_field("branch");
        put(&ada, &directory, if_match, &content("2")).await.refused_field("path");
        remove(&ada, &directory, if_match, "").await.refused_field("path");
        remove(&ada, &ada.repo("strict", "/contents/none"), if_match, "").await.refused(404);
    }
    // The tag is checked before the blob id.
    let mut stale = content("2");
    stale["sha"] = json!("1".repeat(40));
    put(&ada, &path, "\"stale\"", &stale).await.refused(412);
    put(&ada, &path, "*", &stale).await.refused(409);
    put(&ada, &path, &tag(&ada, &path).await, &stale).await.refused(409);
    let rule = ada.repo("strict", "/branch_protections/main");
    ada.put(&rule, &json!({"push_users": [bob.name]})).await.expect(201);
    let writer = ada.repo("strict", &format!("/collaborators/{}", bob.name));
    ada.put(&writer, &json!({"permission": "write"})).await.expect(204);
    put(&bob, &path, "\"stale\"", &content("2")).await.refused(412);
    ada.put(&rule, &json!({"push_users": [ada.name]})).await.expect(200);
    put(&bob, &path, "\"stale\"", &content("2")).await.refused(403);
}

async fn a_repeat_with_its_key_gets_the_first_response_with_a_stale_tag_too(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_file(&ada, "repeated").await;
    let other = ada.repo("repeated", "/contents/other");
    let send = async |path: &str, condition: (HeaderName, &str), body: &Value, key: &str| {
        let request = ada.request(Method::PUT, path).header(condition.0, condition.1).header("idempotency-key", key);
        Response::of(request.json(body)).await
    };
    let first = tag(&ada, &path).await;
    let written = send(&path, (IF_MATCH, &first), &content("2"), "write").await.expect(200).text();
    assert_eq!(send(&path, (IF_MATCH, &first), &content("2"), "write").await.expect(200).text(), written);
    assert_eq!(send(&path, (IF_MATCH, "\"other\""), &content("2"), "write").await.expect(200).text(), written);
    send(&path, (IF_MATCH, &first), &content("3"), "write").await.refused_field("Idempotency-Key");
    let made = send(&other, (IF_NONE_MATCH, "*"), &content("2"), "make").await.expect(201).text();
    assert_eq!(send(&other, (IF_NONE_MATCH, "*"), &content("2"), "make").await.expect(201).text(), made);
    send(&other, (IF_NONE_MATCH, "*"), &content("2"), "again").await.refused(412);
}
