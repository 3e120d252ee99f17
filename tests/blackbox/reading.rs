//! A pushed repository, read through the API: branches, commits, raw files.

use reqwest::header::{ACCEPT, ETAG, IF_NONE_MATCH, RANGE};
use serde_json::{Value, json};

use crate::harness::{Cluster, Git, User};

on_profiles! {
    both {
        raw_files_come_as_they_are
        every_read_takes_every_form_of_a_revision
    }
    embedded {
        branches_are_listed_by_name_with_their_commits
        a_commit_is_found_by_every_name_it_has
        revisions_without_a_commit_are_not_found
        links_lead_through_long_lists
    }
}

async fn pushed(ada: &User, git: &Git) {
    ada.new_repository("read", json!({})).await;
    git.small("work").await;
    git.run("work", &["tag", "light"]).await;
    git.run("work", &["tag", "-a", "-m", "Annotated", "v1.0"]).await;
    git.run("work", &["checkout", "-q", "-b", "feature/one"]).await;
    git.commit("work", "dir/sp ace.html", "<script>alert(1)</script>\n").await;
    std::fs::write(git.path().join("work/bin.dat"), [0, 159, 146, 150, 0]).unwrap();
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["commit", "-q", "-m", "Bytes\n\nMore <about> it"]).await;
    git.run("work", &["checkout", "-q", "main"]).await;
    git.run("work", &["remote", "add", "origin", &ada.git_url(&ada.name, "read")]).await;
    git.run("work", &["push", "-q", "--all", "origin"]).await;
    git.run("work", &["push", "-q", "--tags", "origin"]).await;
}

async fn branches_are_listed_by_name_with_their_commits(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    pushed(&ada, &git).await;
    let branches = ada.get(&ada.repo("read", "/branches")).await.expect(200).json();
    let names: Vec<_> = branches.as_array().unwrap().iter().map(|branch| branch["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["feature/one", "main"]);
    let tip = git.run("work", &["rev-parse", "feature/one"]).await;
    for path in ["/branches/feature/one", "/branches/feature%2Fone"] {
        assert_eq!(ada.get(&ada.repo("read", path)).await.expect(200).json(), branches[0]);
    }
    let commit = &branches[0]["commit"];
    assert_eq!((&commit["id"], &commit["message"]), (&json!(tip), &json!("Bytes\n\nMore <about> it\n")));
    assert_eq!(commit["author"], json!({"name": "Tester", "email": "tester@example.com", "username": ""}));
    assert_eq!(commit["url"], format!("{}/{}/read/commit/{tip}", cluster.url, ada.name));
    assert_eq!((&commit["added"], &commit["removed"], &commit["modified"]), (&json!([]), &json!([]), &json!([])));
    assert!(commit["timestamp"].as_str().unwrap().ends_with('Z'));
    for wrong in ["light", "refs/heads/main", "nope", "-x", "main%00", "main/x"] {
        ada.get(&ada.repo("read", &format!("/branches/{wrong}"))).await.refused_any(&[404]);
    }
}

async fn a_commit_is_found_by_every_name_it_has(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    pushed(&ada, &git).await;
    let (main, tip) =
        (git.run("work", &["rev-parse", "main"]).await, git.run("work", &["rev-parse", "feature/one"]).await);
    let tree = git.run("work", &["rev-parse", "main^{tree}"]).await;
    let get = |name: String| {
        let path = ada.repo("read", &format!("/commits/{name}"));
        let ada = ada.clone();
        async move { ada.get(&path).await.expect(200).json() }
    };
    let commit = get(main.clone()).await;
    assert_eq!((&commit["sha"], &commit["commit"]["tree"]["sha"]), (&json!(main), &json!(tree)));
    assert_eq!((&commit["author"], &commit["committer"], &commit["parents"]), (&Value::Null, &Value::Null, &json!([])));
    let short = main[..7].to_owned();
    for name in [
        short,
        "main".into(),
        "light".into(),
        "v1.0".into(),
        "HEAD".into(),
        "refs/heads/main".into(),
        "refs/tags/v1.0".into(),
    ] {
        assert_eq!(get(name.clone()).await, commit, "{name}");
    }
    assert_eq!(get("feature/one".into()).await["sha"], tip.as_str());
    assert_eq!(get(tip.clone()).await["commit"]["message"].as_str().unwrap().trim_end(), "Bytes\n\nMore <about> it");
    for name in ["main", "v1.0", "HEAD", &main, &main[..10]] {
        let path = ada.repo("read", &format!("/commits/{name}"));
        let sha = ada.get_with(&path, ACCEPT, "application/vnd.gogs.sha").await.expect(200);
        assert_eq!((sha.text(), sha.header("content-type")), (main.clone(), "text/plain".to_owned()), "{name}");
    }
}

async fn revisions_without_a_commit_are_not_found(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    pushed(&ada, &git).await;
    let tree = git.run("work", &["rev-parse", "main^{tree}"]).await;
    let blob = git.run("work", &["rev-parse", "main:README.md"]).await;
    let zeros = "0".repeat(40);
    for wrong in [
        tree.as_str(),
        &blob,
        &zeros,
        "--help",
        "-1",
        "nope",
        "main~1",
        "main^",
        "main:README.md",
        "@",
        "HEAD@%7B0%7D",
        "abc",
        ":/Bytes",
        "main..feature/one",
        "%00",
        "refs/heads/",
        "refs/pull/1/head",
    ] {
        ada.get(&ada.repo("read", &format!("/commits/{wrong}"))).await.refused(404);
        ada.get(&ada.repo("read", &format!("/contents/README.md?ref={wrong}"))).await.refused(404);
    }
}

async fn raw_files_come_as_they_are(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    pushed(&ada, &git).await;
    let tip = git.run("work", &["rev-parse", "feature/one"]).await;
    let page = ada.get(&ada.repo("read", "/raw/feature/one/dir/sp%20ace.html")).await.expect(200);
    assert_eq!(page.text(), "<script>alert(1)</script>\n");
    assert_eq!(page.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    for name in [&tip, &tip[..7]] {
        let same = ada.get(&ada.repo("read", &format!("/raw/{name}/dir/sp%20ace.html"))).await.expect(200);
        assert_eq!(same.body, page.body);
    }
    let bytes = ada.get(&ada.repo("read", "/raw/feature/one/bin.dat")).await.expect(200);
    assert_eq!(bytes.body, [0, 159, 146, 150, 0]);
    assert!(bytes.header("content-type").starts_with("text/plain"), "{:?}", bytes.headers);
    assert!(bytes.header("content-disposition").contains("bin.dat"), "{:?}", bytes.headers);
    let etag = page.header(ETAG.as_str());
    assert!(etag.starts_with('"'), "{etag}");
    let part = ada.get_with(&ada.repo("read", "/raw/feature/one/bin.dat"), RANGE, "bytes=1-3").await.expect(206);
    assert_eq!((&part.body[..], part.header("content-range").as_str()), (&[159, 146, 150][..], "bytes 1-3/5"));
    assert_eq!(part.header("content-disposition"), bytes.header("content-disposition"), "binary, like the whole file");
    ada.get_with(&ada.repo("read", "/raw/feature/one/bin.dat"), RANGE, "bytes=5-").await.refused(416);
    let path = ada.repo("read", "/raw/feature/one/dir/sp%20ace.html");
    assert!(ada.get_with(&path, IF_NONE_MATCH, &etag).await.expect(304).body.is_empty());
    // With `ref` the path is that of the file alone, and `media` is the same.
    let branch = "ref=feature/one";
    for same in [format!("/raw/dir/sp%20ace.html?{branch}"), format!("/media/dir/sp%20ace.html?{branch}")] {
        let same = ada.repo("read", &same);
        let found = ada.get(&same).await.expect(200);
        assert_eq!((found.header(ETAG.as_str()), &found.body), (etag.clone(), &page.body));
        assert!(ada.get_with(&same, IF_NONE_MATCH, &etag).await.expect(304).body.is_empty());
        assert_eq!(ada.get_with(&same, RANGE, "bytes=1-6").await.expect(206).text(), "script");
    }
    assert_eq!(ada.get(&ada.repo("read", "/media/feature/one/bin.dat")).await.expect(200).body, bytes.body);
    assert_eq!(ada.get(&ada.repo("read", "/raw/README.md?ref=")).await.expect(200).text(), "# small\n");
    for wrong in
        ["raw/README.md", "raw/main/README.md?ref=main", "raw/bin.dat?ref=main", "raw/README.md?ref=nope", "media/main"]
    {
        ada.get(&ada.repo("read", &format!("/{wrong}"))).await.refused(404);
    }
    for wrong in [
        "main",
        "main/",
        "main/dir",
        "feature/one/dir",
        "main/nope",
        "nope/README.md",
        "-x/README.md",
        "main/README.md/x",
        "main/%00",
    ] {
        ada.get(&ada.repo("read", &format!("/raw/{wrong}"))).await.refused(404);
    }
    for rest in ["/branches", "/branches/main", "/tags", "/commits", "/git/refs", "/contents", "/languages"] {
        cluster.anonymous().get(&ada.repo("read", rest)).await.expect(200);
    }
    cluster.anonymous().get(&path).await.expect(200);
}

async fn every_read_takes_every_form_of_a_revision(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    pushed(&ada, &git).await;
    // A tag with the name of a branch, reachable only by its full name.
    git.run("work", &["tag", "feature/one", "main"]).await;
    git.run("work", &["push", "-q", "origin", "refs/tags/feature/one"]).await;
    let main = git.run("work", &["rev-parse", "main"]).await;
    let tip = git.run("work", &["rev-parse", "refs/heads/feature/one"]).await;
    for (revision, commit) in [
        ("HEAD", &main),
        ("main", &main),
        ("refs/heads/main", &main),
        ("light", &main),
        ("refs/tags/light", &main),
        ("v1.0", &main),
        ("refs/tags/v1.0", &main),
        (&main, &main),
        (&main[..7], &main),
        ("feature/one", &tip),
        ("refs/heads/feature/one", &tip),
        ("refs/tags/feature/one", &main),
        (&tip, &tip),
    ] {
        let read = async |rest: String| ada.get(&ada.repo("read", &rest)).await.expect(200);
        assert_eq!(read(format!("/commits/{revision}")).await.json()["sha"], json!(commit), "{revision}");
        assert_eq!(read(format!("/commits?sha={revision}")).await.json()[0]["sha"], json!(commit), "{revision}");
        assert_eq!(read(format!("/raw/{revision}/README.md")).await.text(), "# small\n", "{revision}");
        let has_page = ada.get(&ada.repo("read", &format!("/raw/{revision}/bin.dat"))).await.status == 200;
        assert_eq!(has_page, *commit == tip, "{revision}");
        for ending in ["zip", "tar.gz"] {
            assert!(!read(format!("/archive/{revision}.{ending}")).await.body.is_empty(), "{revision}");
        }
        let tree = read(format!("/git/trees/{revision}")).await.json();
        let root = git.run("work", &["rev-parse", &format!("{commit}^{{tree}}")]).await;
        assert_eq!(tree["sha"], json!(root), "{revision}");
        let file = read(format!("/contents/README.md?ref={revision}")).await.json();
        // The links of a file lead to the same file.
        let link = file["download_url"].as_str().unwrap().split_once("/read/raw/").unwrap().1;
        let linked = link.strip_suffix("/README.md").unwrap();
        assert_eq!(read(format!("/commits/{linked}")).await.json()["sha"], json!(commit), "{revision} {linked}");
    }
}

async fn links_lead_through_long_lists(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("read", json!({})).await;
    git.small("work").await;
    for number in 10..35 {
        git.run("work", &["branch", &format!("b{number}")]).await;
    }
    git.run("work", &["push", "-q", "--all", &ada.git_url(&ada.name, "read")]).await;
    let path = ada.repo("read", "/branches");
    assert_eq!(ada.get(&path).await.expect(200).json().as_array().unwrap().len(), 26);
    let mut next = Some(format!("{path}?limit=10"));
    let mut names = Vec::new();
    while let Some(path) = next {
        let page = ada.get(&path).await.expect(200);
        names.extend(page.json().as_array().unwrap().iter().map(|branch| branch["name"].as_str().unwrap().to_owned()));
        let link = page.header("link");
        let to_next = link.split(',').find(|entry| entry.ends_with("rel=\"next\""));
        let prefix = format!("<{}/api/v1", cluster.url);
        next = to_next.map(|entry| entry.strip_prefix(&prefix).unwrap().split_once('>').unwrap().0.to_owned());
    }
    let mut wanted: Vec<_> = (10..35).map(|number| format!("b{number}")).collect();
    wanted.push("main".to_owned());
    assert_eq!(names, wanted);
}
