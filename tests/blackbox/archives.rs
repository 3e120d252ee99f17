//! Archives, unpacked with common programs and compared with git's own archives of the same commit.

use std::path::Path;

use reqwest::Method;
use reqwest::header::HeaderName;
use serde_json::json;
use tokio::process::Command;

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        a_download_goes_on_where_it_stopped
    }
    embedded {
        a_tar_file_is_gits_own
        a_zip_file_unpacks_to_the_tree_and_names_the_commit
        every_revision_has_an_archive_and_nothing_else
        private_archives_are_for_readers
    }
}

async fn pushed(cluster: &Cluster, name: &str) -> (User, Git) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository(name, json!({"private": true})).await;
    git.large("origin.git", 210).await;
    git.run("origin.git", &["push", "-q", "--mirror", &ada.git_url(&ada.name, name)]).await;
    (ada, git)
}

async fn run(folder: &Path, program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).current_dir(folder).output().await.unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

async fn archive(user: &User, repository: &str, name: &str) -> Response {
    user.get(&user.repo(repository, &format!("/archive/{name}"))).await.expect(200)
}

async fn a_tar_file_is_gits_own(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "Tarred").await;
    for (name, revision, file) in [
        ("main.tar.gz", "main", "Tarred-main.tar.gz"),
        ("feature/one.tar.gz", "feature/one", "Tarred-feature-one.tar.gz"),
    ] {
        let response = archive(&ada, "tarred", name).await;
        assert_eq!(response.header("content-type"), "application/octet-stream");
        assert_eq!(response.header("content-disposition"), format!("attachment; filename=\"{file}\""));
        assert_eq!(response.header("accept-ranges"), "bytes");
        assert_eq!(response.header("content-transfer-encoding"), "binary");
        assert_eq!(response.header("cache-control"), "private, no-cache");
        std::fs::write(git.path().join("a.tar.gz"), &response.body).unwrap();
        let ours = run(git.path(), "gzip", &["-dc", "a.tar.gz"]).await;
        let theirs = git
            .attempt("origin.git", &["-c", "tar.umask=0022", "archive", "--format=tar", "--prefix=Tarred/", revision])
            .await
            .stdout;
        assert!(ours == theirs, "{name}: {} and {} bytes", ours.len(), theirs.len());
        let listed = run(git.path(), "tar", &["-tzf", "a.tar.gz"]).await;
        assert!(String::from_utf8(listed).unwrap().lines().all(|line| line.starts_with("Tarred/")));
    }
}

async fn a_zip_file_unpacks_to_the_tree_and_names_the_commit(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "zipped").await;
    let response = archive(&ada, "zipped", "main.zip").await;
    assert_eq!(response.header("content-disposition"), "attachment; filename=\"zipped-main.zip\"");
    let commit = git.run("origin.git", &["rev-parse", "main"]).await;
    assert!(response.body.ends_with(commit.as_bytes()), "the comment is the commit");
    std::fs::write(git.path().join("a.zip"), &response.body).unwrap();
    run(git.path(), "unzip", &["-q", "-t", "a.zip"]).await;
    run(git.path(), "unzip", &["-q", "a.zip"]).await;
    git.run("", &["clone", "-q", "origin.git", "work"]).await;
    run(git.path(), "diff", &["-r", "--no-dereference", "--exclude=.git", "work", "zipped"]).await;
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&git.path().join("zipped/run.sh").metadata().unwrap().permissions());
    assert_eq!(mode & 0o111, 0o111);
    assert_eq!(std::fs::read_link(git.path().join("zipped/link")).unwrap(), Path::new("run.sh"));
}

async fn every_revision_has_an_archive_and_nothing_else(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "any").await;
    let commit = git.run("origin.git", &["rev-parse", "v100^{commit}"]).await;
    let first = archive(&ada, "any", "v100.zip").await;
    for name in [format!("{commit}.zip"), format!("{}.zip", &commit[..7])] {
        let response = archive(&ada, "any", &name).await;
        assert!(response.body == first.body, "{name}");
        assert_eq!(response.header("etag"), first.header("etag"));
    }
    let head = async |name: &str| {
        Response::of(ada.request(Method::HEAD, &ada.repo("any", &format!("/archive/{name}")))).await.expect(200)
    };
    let (made, other) = (head("v100.zip").await, head("v100.tar.gz").await);
    assert!(made.body.is_empty() && made.header("etag") == first.header("etag"));
    assert_eq!(made.header("content-length"), first.body.len().to_string());
    assert!(!other.headers.contains_key("content-length"), "it does not exist yet");
    assert_eq!(archive(&ada, "any", "v100.tar.gz").await.header("etag"), other.header("etag"));
    for wrong in
        ["none.zip", "main.tar", "main.ZIP", "main", ".zip", "--help.zip", "-o.tar.gz", "%ff.zip", "main.zip/x"]
    {
        ada.get(&ada.repo("any", &format!("/archive/{wrong}"))).await.refused(404);
    }
    ada.get(&ada.repo("absent", "/archive/main.zip")).await.refused(404);
}

async fn a_download_goes_on_where_it_stopped(cluster: &Cluster) {
    let (ada, _git) = pushed(cluster, "resumed").await;
    for name in ["main.zip", "main.tar.gz"] {
        let whole = archive(&ada, "resumed", name).await;
        let (path, tag) = (ada.repo("resumed", &format!("/archive/{name}")), whole.header("etag"));
        assert!(tag.starts_with('"'), "{tag}");
        let ask = async |range: &str, condition: &str| {
            let request = ada.request(Method::GET, &path).header("range", range);
            Response::of(if condition.is_empty() { request } else { request.header("if-range", condition) }).await
        };
        let (size, middle) = (whole.body.len(), whole.body.len() / 2);
        let start = ask(&format!("bytes=0-{}", middle - 1), "").await.expect(206);
        let rest = ask(&format!("bytes={middle}-"), &tag).await.expect(206);
        assert!([start.body, rest.body.clone()].concat() == whole.body, "{name}");
        assert_eq!(rest.header("content-range"), format!("bytes {middle}-{}/{size}", size - 1));
        assert_eq!(rest.header("content-length"), (size - middle).to_string());
        assert!(ask("bytes=-10", "").await.expect(206).body == whole.body[size - 10..]);
        assert!(ask("bytes=5-", "\"another\"").await.expect(200).body == whole.body);
        let beyond = ask(&format!("bytes={size}-"), "").await.refused(416);
        assert_eq!(beyond.header("content-range"), format!("bytes */{size}"));
        let same = ada.get_with(&path, HeaderName::from_static("if-none-match"), &tag).await.expect(304);
        assert!(same.body.is_empty());
        assert_eq!(archive(&ada, "resumed", name).await.header("content-length"), size.to_string());
    }
}

async fn private_archives_are_for_readers(cluster: &Cluster) {
    let (ada, _git) = pushed(cluster, "closed").await;
    let path = ada.repo("closed", "/archive/main.zip");
    for caller in [cluster.anonymous(), cluster.user("bob").await] {
        caller.get(&path).await.refused(404);
    }
    ada.get(&path).await.expect(200);
}
