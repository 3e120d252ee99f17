use reqwest::header::{ACCEPT, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    embedded {
        what_depends_on_the_caller_is_in_no_shared_cache
        an_object_by_its_id_is_read_once
        the_tag_of_a_tree_is_that_of_its_id
        a_file_that_is_unchanged_keeps_its_tag_when_the_branch_moves
        accounts_beside_a_commit_are_part_of_its_tag
        a_file_of_a_release_is_known_by_its_date
    }
}

const PRIVATE: &str = "private, no-cache";
const IMMUTABLE: &str = "private, max-age=86400, immutable";

fn policy(response: &Response) -> [String; 2] {
    let vary: Vec<_> = response.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
    [response.header("cache-control"), vary.join(", ")]
}

/// Creates a private repository with a commit and an annotated tag. Returns the ids of the tag and
/// of its commit, tree and file.
async fn tagged(user: &User, name: &str) -> [String; 4] {
    let git = Git::new();
    git.small("work").await;
    git.run("work", &["tag", "-a", "-m", "One", "v1"]).await;
    user.new_repository(name, json!({"private": true})).await;
    git.run("work", &["push", "-q", &user.git_url(&user.name, name), "HEAD:refs/heads/main", "v1"]).await;
    let names = ["v1", "v1^{commit}", "v1^{tree}"];
    let mut ids = Vec::new();
    for name in names {
        ids.push(git.run("work", &["rev-parse", name]).await.trim().to_owned());
    }
    let files = git.run("work", &["ls-tree", "-r", "v1"]).await;
    let blob = files.lines().next().unwrap().split_whitespace().nth(2).unwrap().to_owned();
    let [tag, commit, tree]: [String; 3] = ids.try_into().unwrap();
    [tag, commit, tree, blob]
}

async fn what_depends_on_the_caller_is_in_no_shared_cache(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.outsider().await);
    let [_, commit, ..] = tagged(&ada, "kept").await;
    for rest in
        ["", "/branches", "/contents", "/git/refs", "/raw/main/nothing", "/archive/main.zip", "/issues", "/topics"]
    {
        let response = ada.get(&ada.repo("kept", rest)).await;
        if rest.starts_with("/raw") {
            assert_eq!(policy(&response.refused(404)), ["no-store", ""]);
            continue;
        }
        assert_eq!(policy(&response.expect(200)), [PRIVATE, "authorization"], "{rest}");
    }
    let archive = ada.get(&ada.repo("kept", &format!("/archive/{commit}.zip"))).await.expect(200);
    assert_eq!(policy(&archive), [IMMUTABLE, "authorization"]);
    let head = Response::of(ada.request(Method::HEAD, &ada.repo("kept", ""))).await.expect(200);
    assert_eq!(policy(&head), [PRIVATE, "authorization"]);
    let shown = ada.get(&ada.repo("kept", &format!("/commits/{commit}"))).await.expect(200);
    assert_eq!(policy(&shown), [PRIVATE, "accept, authorization"]);
    let id = ada.get_with(&ada.repo("kept", "/commits/main"), ACCEPT, "application/vnd.gogs.sha").await.expect(200);
    assert_eq!((policy(&id), id.text()), ([PRIVATE, "accept, authorization"].map(str::to_owned), commit));
    // Errors, responses to writes, and redirects from former names.
    for refused in
        [bob.get(&ada.repo("kept", "")).await, ada.get("/nope").await, cluster.anonymous().get("/user").await]
    {
        assert!(refused.status.is_client_error());
        assert_eq!(policy(&refused), ["no-store", ""]);
    }
    let written = ada.patch(&ada.repo("kept", ""), &json!({"name": "renamed"})).await.expect(200);
    assert_eq!(policy(&written), ["no-store", ""]);
    assert_eq!(policy(&ada.get(&ada.repo("kept", "")).await.expect(301)), ["no-store", ""]);
}

async fn an_object_by_its_id_is_read_once(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.outsider().await);
    let [tag, _, tree, blob] = tagged(&ada, "objects").await;
    for (kind, id) in [("tags", &tag), ("trees", &tree), ("blobs", &blob)] {
        let path = ada.repo("objects", &format!("/git/{kind}/{id}"));
        let first = ada.get(&path).await.expect(200);
        assert_eq!(policy(&first), [IMMUTABLE, "authorization"], "{path}");
        assert_eq!(first.json()["sha"], id.as_str());
        let etag = first.header("etag");
        let upper = ada.repo("objects", &format!("/git/{kind}/{}", id.to_uppercase()));
        for path in [&path, &upper] {
            let same = ada.get_with(path, IF_NONE_MATCH, &etag).await.empty(304);
            assert_eq!((same.header("etag"), policy(&same)), (etag.clone(), policy(&first)), "{path}");
        }
        ada.get_with(&path, IF_NONE_MATCH, "\"other\"").await.expect(200);
        ada.get_with(&path, IF_NONE_MATCH, "*").await.empty(304);
        bob.get_with(&path, IF_NONE_MATCH, &etag).await.refused(404);
        let missing = ada.repo("objects", &format!("/git/{kind}/{}", "0".repeat(40)));
        for value in [etag.as_str(), "*"] {
            ada.get_with(&missing, IF_NONE_MATCH, value).await.refused(404);
        }
    }
    // A new repository with the same name does not have the old objects.
    let path = ada.repo("objects", &format!("/git/blobs/{blob}"));
    let etag = ada.get(&path).await.expect(200).header("etag");
    ada.delete(&ada.repo("objects", "")).await.empty(204);
    ada.new_repository("objects", json!({})).await;
    ada.get_with(&path, IF_NONE_MATCH, &etag).await.refused(404);
}

async fn the_tag_of_a_tree_is_that_of_its_id(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let [_, commit, tree, _] = tagged(&ada, "trees").await;
    let path = |name: &str| ada.repo("trees", &format!("/git/trees/{name}"));
    let etag = ada.get(&path(&tree)).await.expect(200).header("etag");
    for name in ["main", "v1", &commit, &tree[..10]] {
        let shown = ada.get(&path(name)).await.expect(200);
        // The name may point to another tree later.
        assert_eq!((shown.header("etag"), policy(&shown)[0].as_str()), (etag.clone(), PRIVATE), "{name}");
        ada.get_with(&path(name), IF_NONE_MATCH, &etag).await.empty(304);
    }
    let recursive = ada.get(&path(&format!("{tree}?recursive=true"))).await.expect(200);
    assert_ne!(recursive.header("etag"), etag);
    ada.patch(&ada.repo("trees", ""), &json!({"name": "woods"})).await.expect(200);
    let renamed = ada.get(&ada.repo("woods", &format!("/git/trees/{tree}"))).await.expect(200);
    assert_ne!(renamed.header("etag"), etag, "its URLs are others");
}

async fn a_file_that_is_unchanged_keeps_its_tag_when_the_branch_moves(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("moving", json!({"auto_init": true})).await;
    let (file, folder) = (ada.repo("moving", "/contents/README.md"), ada.repo("moving", "/contents"));
    let (of_file, of_folder) = (ada.get(&file).await.header("etag"), ada.get(&folder).await.header("etag"));
    ada.put(&ada.repo("moving", "/contents/x"), &json!({"message": "m", "content": "eA=="})).await.expect(201);
    ada.get_with(&file, IF_NONE_MATCH, &of_file).await.empty(304);
    ada.get_with(&folder, IF_NONE_MATCH, &of_folder).await.expect(200);
    let tip = ada.get(&ada.repo("moving", "/branches/main")).await.expect(200).json()["commit"]["id"].clone();
    let by_id = ada.get(&format!("{file}?ref={}", tip.as_str().unwrap())).await.expect(200);
    // Whether the content is shown depends on how git stored the file.
    assert_eq!(policy(&by_id)[0], PRIVATE);
    assert_ne!(by_id.header("etag"), of_file, "its URLs name the commit");
}

async fn accounts_beside_a_commit_are_part_of_its_tag(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("named", json!({"auto_init": true})).await;
    let file = json!({"message": "m", "content": "eA=="});
    let made = ada.put(&ada.repo("named", "/contents/x"), &file).await.expect(201).json();
    let path = ada.repo("named", &format!("/commits/{}", made["commit"]["sha"].as_str().unwrap()));
    let first = ada.get(&path).await.expect(200);
    assert_eq!(first.json()["author"]["username"], ada.name.as_str());
    let admin = cluster.admin().await;
    admin.patch(&format!("/admin/users/{}", ada.name), &json!({"full_name": "Countess"})).await.expect(200);
    ada.get_with(&path, IF_NONE_MATCH, &first.header("etag")).await.expect(200);
}

async fn a_file_of_a_release_is_known_by_its_date(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("dated", json!({"auto_init": true})).await;
    let release = ada.post(&ada.repo("dated", "/releases"), &json!({"tag_name": "v1"})).await.expect(201).json();
    let upload = ada.request(Method::POST, &ada.repo("dated", &format!("/releases/{}/assets?name=a", release["id"])));
    let upload = upload.header("content-type", "application/octet-stream").body("content");
    let made: Value = Response::of(upload).await.expect(201).json();
    let address = made["browser_download_url"].as_str().unwrap().strip_prefix(&ada.url).unwrap().to_owned();
    let get = |headers: &[(HeaderName, &str)]| {
        let request = ada.raw(Method::GET, &address);
        let with = |request: RequestBuilder, (name, value): &(HeaderName, &str)| request.header(name, *value);
        Response::of(headers.iter().fold(request, with))
    };
    let whole = get(&[]).await.expect(200);
    assert_eq!(policy(&whole), [PRIVATE, "authorization"]);
    let (etag, date) = (whole.header("etag"), whole.header("last-modified"));
    assert!(date.ends_with(" GMT"), "{date}");
    let same = get(&[(IF_MODIFIED_SINCE, date.as_str())]).await.empty(304);
    assert_eq!((same.header("etag"), same.header("last-modified")), (etag.clone(), date.clone()));
    assert_eq!(policy(&same), policy(&whole));
    get(&[(IF_NONE_MATCH, etag.as_str()), (IF_MODIFIED_SINCE, "Thu, 01 Jan 1970 00:00:00 GMT")]).await.empty(304);
    get(&[(IF_NONE_MATCH, "\"other\""), (IF_MODIFIED_SINCE, date.as_str())]).await.expect(200);
    get(&[(IF_MODIFIED_SINCE, "Thu, 01 Jan 1970 00:00:00 GMT")]).await.expect(200);
}
