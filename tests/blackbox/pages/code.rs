//! Pages of the code of a repository.

use serde_json::json;

use super::{page, shows};
use crate::harness::{Cluster, Git, User};

on_profiles! {
    embedded {
        a_repository_begins_with_its_files_and_its_readme
        each_kind_of_file_has_its_page
        raw_files_run_nothing
        old_paths_and_names_lead_to_the_same_files
        pages_of_private_repositories_are_for_members
    }
}

const README: &str = "# Demo <script>alert(1)</script>\n\n[More](docs/more.md#end) ![Logo](logo.png) \
                      ![Badge](https://example.com/badge.svg) <script>alert(2)</script>\n";
/// The smallest picture: one transparent pixel.
const PICTURE: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\0\x01\
                         \0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

/// Pushes files of all kinds to a new repository, and returns its owner, its path, and the id of its
/// commit.
async fn pushed(cluster: &Cluster, is_private: bool) -> (User, String, String) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    let description = "About <script>alert(3)</script>";
    ada.new_repository("demo", json!({"private": is_private, "description": description})).await;
    git.small("tree").await;
    let folder = git.path().join("tree");
    let write = |name: &str, content: &[u8]| std::fs::write(folder.join(name), content).unwrap();
    for name in ["docs", "module"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    write("README.md", README.as_bytes());
    write("docs/more.md", b"# End\n");
    write("<b>&\"x\".txt", b"<script>alert(4)</script>\n");
    write("page.html", b"<script>alert(5)</script>");
    write("logo.png", PICTURE);
    write("logo.svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(6)</script></svg>");
    write("data.bin", b"a\0b");
    write("large.txt", &b"0123456789abcde\n".repeat(70_000));
    write("LICENSE", b"MIT\n");
    std::os::unix::fs::symlink("../README.md", folder.join("docs/link")).unwrap();
    write(".gitmodules", b"[submodule \"m\"]\n\tpath = module\n\turl = https://example.com/m.git\n");
    let module = format!("160000,{},module", "1".repeat(40));
    git.run("tree", &["add", "-A"]).await;
    git.run("tree", &["update-index", "--add", "--cacheinfo", &module]).await;
    git.run("tree", &["commit", "-q", "-m", "Add <script>alert(7)</script>"]).await;
    let commit = git.commit("tree", "src/main.rs", "// Starts\nfn main() {}\n").await;
    git.run("tree", &["branch", "feature/one"]).await;
    git.run("tree", &["tag", "v1"]).await;
    git.run("tree", &["push", "-q", "--mirror", &ada.git_url(&ada.name, "demo")]).await;
    let path = format!("/{}/demo", ada.name);
    (ada, path, commit)
}

async fn a_repository_begins_with_its_files_and_its_readme(cluster: &Cluster) {
    let (ada, path, commit) = pushed(cluster, false).await;
    ada.put(&ada.repo("demo", "/topics"), &json!({"topics": ["git"]})).await.empty(204);
    // Waits for the first count, which pages do not.
    ada.get(&ada.repo("demo", "/languages")).await.expect(200);
    let more = format!("href=\"{path}/src/branch/main/docs/more.md#end\"");
    let logo = format!("src=\"{path}/raw/branch/main/logo.png\"");
    let texts = [
        "About &#60;script&#62;",
        &format!("href=\"{path}/src/branch/main/docs\""),
        "&#60;b&#62;&#38;&#34;x&#34;.txt",
        "Change src/main.rs",
        &commit[..10],
        "<h2 id=\"demo-scriptalert1script\">",
        &more,
        &logo,
        "Badge",
        &format!("{}/{}/demo.git", cluster.url, ada.name),
        "2 branches",
        "1 tag",
        "feature/one",
        "LICENSE",
        "Rust",
        "?q=git",
    ];
    for visitor in [&ada, &cluster.anonymous()] {
        let home = page(visitor, &path).await.expect(200);
        shows(&home, &texts);
        assert!(!home.text().contains("src=\"https://"), "browsers load nothing of other sites");
    }
    ada.new_repository("empty", json!({})).await;
    let empty = page(&ada, &format!("/{}/empty", ada.name)).await.expect(200);
    shows(&empty, &["This repository is empty", "git push"]);
}

async fn each_kind_of_file_has_its_page(cluster: &Cluster) {
    let (ada, path, commit) = pushed(cluster, false).await;
    let at = |rest: &str| format!("{path}/src/branch/feature/one/{rest}");
    for (rest, texts) in [
        ("src", &["main.rs", "Change src/main.rs", "..", "History"][..]),
        ("src/main.rs", &["id=\"L2\"", "href=\"#L2\"", "<span class=\"k\">fn</span>", "2 lines", "Permanent link"]),
        ("docs", &["more.md", "link"]),
        ("docs/more.md", &["<h2 id=\"end\">End</h2>", "?display=source"]),
        ("docs/more.md?display=source", &["id=\"L1\"", "# End", "Rendered"]),
        ("docs/link", &["A symbolic link", "/src/branch/feature/one/README.md"]),
        ("%3Cb%3E&%22x%22.txt", &["&lt;script&gt;alert(4)"]),
        ("logo.png", &["/raw/commit/", "alt=\"logo.png\""]),
        ("logo.svg", &["/raw/commit/", "Source"]),
        ("logo.svg?display=source", &["id=\"L1\"", "&lt;script"]),
        ("data.bin", &["This is a binary file."]),
        ("large.txt", &["This file is too large to show.", "1.1 MiB"]),
        ("module", &["A submodule", "href=\"https://example.com/m.git\""]),
    ] {
        let shown = page(&ada, &at(rest)).await.expect(200);
        shows(&shown, texts);
        assert_eq!(shown.header("cache-control"), "private, no-cache", "{rest}");
        shows(&shown, &["feature/one", &format!("{path}/src/branch/main"), &format!("{path}/src/tag/v1")]);
    }
    let permanent = page(&ada, &format!("{path}/src/commit/{commit}/src/main.rs")).await.expect(200);
    // It shows the visitor, and numbers of the repository.
    assert_eq!(permanent.header("cache-control"), "private, no-cache");
    shows(&permanent, &["id=\"L2\"", &commit[..10]]);
    page(&ada, &format!("{path}/src/commit/{}", &commit[..8])).await.expect(200);
    for missing in ["nothing", "src/main.rs/x", "src/nothing"] {
        shows(&page(&ada, &at(missing)).await.expect(404), &["Not found"]);
    }
    for missing in ["branch/nothing", "tag/main", "commit/0000000", "branch", "nothing/README.md", "branch/../x"] {
        page(&ada, &format!("{path}/src/{missing}")).await.expect(404);
    }
}

async fn raw_files_run_nothing(cluster: &Cluster) {
    let (ada, path, commit) = pushed(cluster, false).await;
    for (file, media) in [
        ("page.html", "text/plain; charset=utf-8"),
        ("logo.png", "image/png"),
        ("logo.svg", "image/svg+xml"),
        ("data.bin", "text/plain"),
    ] {
        for revision in ["branch/main", "branch/feature/one", "tag/v1", "main", &format!("commit/{commit}")] {
            let raw = page(&ada, &format!("{path}/raw/{revision}/{file}")).await.expect(200);
            assert_eq!(raw.header("content-type"), media, "{revision} {file}");
            assert_eq!(raw.header("x-content-type-options"), "nosniff");
            let policy = raw.header("content-security-policy");
            assert!(policy.starts_with("default-src 'none';") && policy.ends_with("sandbox"), "{policy}");
            let is_download = raw.header("content-disposition").starts_with("attachment");
            assert_eq!(is_download, file == "data.bin", "{file}");
            let is_permanent = raw.header("cache-control").ends_with("immutable");
            assert_eq!(is_permanent, revision.starts_with("commit/"), "{revision}");
        }
    }
    let archive = page(&cluster.anonymous(), &format!("{path}/archive/feature/one.zip")).await.expect(200);
    assert_eq!(archive.header("content-disposition"), "attachment; filename=\"demo-feature-one.zip\"");
    page(&ada, &format!("{path}/raw/branch/main/nothing")).await.expect(404);
}

async fn old_paths_and_names_lead_to_the_same_files(cluster: &Cluster) {
    let (ada, path, commit) = pushed(cluster, false).await;
    for (old, expected) in [
        ("src/main/src/main.rs".to_owned(), format!("{path}/src/branch/main/src/main.rs")),
        ("src/feature/one/src".to_owned(), format!("{path}/src/branch/feature/one/src")),
        ("src/v1".to_owned(), format!("{path}/src/tag/v1")),
        (format!("src/{commit}/README.md"), format!("{path}/src/commit/{commit}/README.md")),
        ("src/refs/heads/main/".to_owned(), format!("{path}/src/branch/main")),
        ("media/branch/main/logo.png".to_owned(), format!("{path}/raw/branch/main/logo.png")),
    ] {
        let response = page(&ada, &format!("{path}/{old}")).await.expect(307);
        assert_eq!(response.header("location"), expected);
    }
    ada.patch(&ada.repo("demo", "/branches/feature/one"), &json!({"name": "feature/two"})).await.empty(204);
    let renamed = page(&ada, &format!("{path}/src/branch/feature/one/src/main.rs")).await.expect(200);
    shows(&renamed, &["feature/two", "id=\"L2\""]);
    ada.patch(&ada.repo("demo", ""), &json!({"name": "renamed"})).await.expect(200);
    let moved = page(&ada, &format!("{path}/src/branch/main")).await.expect(308);
    assert!(moved.header("location").ends_with(&format!("/{}/renamed/src/branch/main", ada.name)));
}

async fn pages_of_private_repositories_are_for_members(cluster: &Cluster) {
    let (ada, path, commit) = pushed(cluster, true).await;
    let outsider = cluster.outsider().await;
    for rest in [
        String::new(),
        "/src/branch/main".to_owned(),
        format!("/src/commit/{commit}/README.md"),
        "/raw/branch/main/README.md".to_owned(),
        "/archive/main.zip".to_owned(),
    ] {
        page(&ada, &format!("{path}{rest}")).await.expect(200);
        for stranger in [&outsider, &cluster.anonymous()] {
            let refused = page(stranger, &format!("{path}{rest}")).await.expect(404);
            shows(&refused, &["Not found"]);
            assert_eq!(refused.header("cache-control"), "no-store");
        }
    }
    let missing = format!("/{}/nope", ada.name);
    for (stranger, links) in [(&outsider, 0), (&cluster.anonymous(), 2)] {
        let hidden = page(stranger, &path).await.expect(404);
        shows(&hidden, &["There is no such page, or you may not see it.", "href=\"/\""]);
        assert_eq!(hidden.text().matches("/user/login?redirect_to=").count(), links, "in the header and below");
        assert_eq!(hidden.text(), page(stranger, &missing).await.expect(404).text().replace("nope", "demo"));
    }
}
