//! Pages of commits, comparisons, branches, tags and blames, and the feeds.

use reqwest::Method;
use serde_json::json;

use super::{page, shows};
use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    embedded {
        histories_are_shown
        a_commit_is_shown_with_its_diff
        branches_are_compared_and_deleted
        tags_blames_and_feeds_are_shown
        pages_of_private_repositories_are_hidden
    }
}

const IMMUTABLE: &str = "private, max-age=86400, immutable";
const HOSTILE: &str = "<script>alert(1)</script> & \"more\"\n\nFixes #7 <b>now</b>";

struct Site {
    owner: User,
    git: Git,
    /// The path of the repository.
    path: String,
    /// The commit with the hostile message.
    hostile: String,
}

async fn site(cluster: &Cluster, name: &str, is_private: bool) -> Site {
    let (owner, git) = (cluster.user("ada").await, Git::new());
    owner.new_repository(name, json!({"private": is_private})).await;
    git.small("work").await;
    git.commit("work", "old.txt", "one\ntwo\nthree\n").await;
    git.run("work", &["mv", "old.txt", "new name.txt"]).await;
    std::fs::write(git.path().join("work/README.md"), "# <i>small</i>\n").unwrap();
    git.run("work", &["commit", "-q", "-a", "-m", HOSTILE]).await;
    let hostile = git.run("work", &["rev-parse", "HEAD"]).await;
    git.run("work", &["tag", "-a", "v1.0", "-m", "The <first> release"]).await;
    git.run("work", &["checkout", "-q", "-b", "feature/one"]).await;
    git.commit("work", "new name.txt", "one\n2\nthree\n").await;
    git.run("work", &["push", "-q", &owner.git_url(&owner.name, name), "main", "feature/one", "v1.0"]).await;
    let path = format!("/{}/{name}", owner.name);
    Site { owner, git, path, hostile }
}

impl Site {
    /// Opens a page, signed in or not.
    async fn open(&self, is_signed_in: bool, rest: &str) -> Response {
        let visitor = if is_signed_in { self.owner.clone() } else { self.owner.with_token(None) };
        page(&visitor, &format!("{}{rest}", self.path)).await
    }

    /// Opens a page that everybody may see, which must have all these texts.
    async fn shows(&self, rest: &str, texts: &[&str]) {
        for is_signed_in in [false, true] {
            let shown = self.open(is_signed_in, rest).await.expect(200);
            shows(&shown, texts);
            let html = shown.text();
            assert!(!html.contains("<b>now") && !html.contains("<i>small"), "{rest}");
        }
    }

    async fn leads(&self, page: &str, to: &str) {
        let response = self.open(false, page).await.expect(303);
        assert_eq!(response.header("location"), format!("{}{to}", self.path), "{page}");
    }
}

async fn histories_are_shown(cluster: &Cluster) {
    let site = site(cluster, "histories", false).await;
    let subject = "&#60;script&#62;alert(1)&#60;/script&#62; &#38; &#34;more&#34;";
    let commit = format!("href=\"{}/commit/{}\"", site.path, site.hostile);
    let issue = format!("<a href=\"{}/issues/7\">#7</a>", site.path);
    site.shows("/commits/branch/main", &[subject, &commit, &issue, "Change old.txt", "/atom/branch/main"]).await;
    site.shows("/commits/tag/v1.0", &[subject, "Browse files"]).await;
    site.shows(&format!("/commits/commit/{}", site.hostile), &[subject]).await;
    // The file had another name in the first of its commits.
    site.shows("/commits/branch/feature/one/new%20name.txt", &["Change new name.txt", subject, "Change old.txt"]).await;
    site.shows("/commits/branch/main/none.txt", &["There are no commits that changed this path"]).await;
    site.leads("/commits", "/commits/branch/main").await;
    site.leads("/commits/feature/one", "/commits/branch/feature/one").await;
    site.leads(&format!("/commits/{}", site.hostile), &format!("/commit/{}", site.hostile)).await;
    for none in ["/commits/branch/none", "/commits/none", "/commits/commit/main"] {
        site.open(false, none).await.expect(404);
    }
}

async fn a_commit_is_shown_with_its_diff(cluster: &Cluster) {
    let site = site(cluster, "commits", false).await;
    let page = format!("/commit/{}", site.hostile);
    let source = format!("{}/src/commit/{}/new%20name.txt", site.path, site.hostile);
    let texts = ["2 changed files", "Renamed", "old.txt &rarr; new name.txt", &source, "-L1\"", "-R1\"", "+# &#60;i"];
    site.shows(&page, &texts).await;
    site.shows(&format!("{page}?style=split"), &["diff-lines split", "+# &#60;i&#62;small"]).await;
    let state = json!({"state": "failure", "context": "ci<b>now", "target_url": "https://ci.example.com/1"});
    site.owner.post(&site.owner.repo("commits", &format!("/statuses/{}", site.hostile)), &state).await.expect(201);
    site.shows(&page, &["badge bad", "<a href=\"https://ci.example.com/1\"", "ci&#60;b&#62;now"]).await;
    let diff = site.git.attempt("work", &["diff", &format!("{}^", site.hostile), &site.hostile]).await.stdout;
    let text = site.open(false, &format!("{page}.diff")).await.expect(200);
    assert_eq!((text.body, text.headers["cache-control"].to_str().unwrap()), (diff, IMMUTABLE));
    assert!(site.open(false, &format!("{page}.patch")).await.expect(200).text().starts_with("From "));
    for none in ["/commit/main", "/commit/0123456789", "/commit/main.diff"] {
        site.open(false, none).await.expect(404);
    }
}

async fn branches_are_compared_and_deleted(cluster: &Cluster) {
    let site = site(cluster, "branches", false).await;
    let comparison = "/compare/main...feature/one";
    site.shows("/branches", &["Default", "feature/one", &format!("{}{comparison}", site.path)]).await;
    site.shows(comparison, &["1 commit", "Change new name.txt", "1 changed file", "-L2\"", "-two", "+2"]).await;
    site.shows("/compare/main..feature/one", &["1 commit", "1 changed file", "changed</td>"]).await;
    let diff = site.git.attempt("work", &["diff", "main...feature/one"]).await.stdout;
    assert_eq!(site.open(false, &format!("{comparison}.diff")).await.expect(200).body, diff);
    site.shows("/compare/feature/one...main", &["Choose others to compare"]).await;
    site.shows("/compare", &["value=\"main\"", "<option value=\"feature/one\">"]).await;
    site.leads("/compare?base=main&head=feature%2Fone", comparison).await;
    site.leads(&format!("{comparison}?expand=1"), "/pulls/new/main...feature/one").await;
    let new_pull = format!("{}/pulls/new/main...feature/one", site.path);
    assert!(site.open(true, comparison).await.text().contains(&new_pull));
    assert!(!site.open(false, comparison).await.text().contains(&new_pull));
    assert!(site.open(false, "/compare/main...none").await.expect(404).text().contains("flash bad"));

    let question = "/branches/delete?name=feature%2Fone";
    assert!(!site.open(false, "/branches").await.text().contains(question));
    site.open(false, question).await.expect(303);
    site.open(true, "/branches/delete?name=none").await.expect(404);
    assert!(site.open(true, "/branches").await.text().contains(question));
    let form = site.open(true, question).await.expect(200).text();
    let token = form.split("name=\"form_token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let send = async |name: &str, token: &str| {
        let request = site.owner.raw(Method::POST, &format!("{}/branches/delete", site.path));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let cookie = format!("ferrite_session={}", site.owner.token.as_deref().unwrap());
        Response::of(request.header("cookie", cookie).body(format!("name={name}&form_token={token}"))).await
    };
    send("feature%2Fone", "").await.expect(403);
    assert!(send("main", token).await.expect(422).text().contains("flash bad"), "the default branch");
    let sent = send("feature%2Fone", token).await.expect(303);
    assert_eq!(sent.header("location"), format!("{}/branches", site.path));
    site.owner.get(&site.owner.repo("branches", "/branches/feature/one")).await.refused(404);
}

async fn tags_blames_and_feeds_are_shown(cluster: &Cluster) {
    let site = site(cluster, "feeds", false).await;
    let archive = format!("{}/archive/v1.0.zip", site.path);
    site.shows("/tags", &["v1.0", "The &#60;first&#62; release", &archive]).await;
    let before = format!("{}/blame/commit/{}/new%20name.txt", site.path, site.hostile);
    site.shows("/blame/branch/feature/one/new%20name.txt", &["Change old.txt", "id=\"L3\"", "three", &before]).await;
    site.shows("/blame/tag/v1.0/README.md", &["# &#60;i&#62;small"]).await;
    site.open(false, "/blame/branch/main/none.txt").await.expect(404);
    let release =
        json!({"tag_name": "v1.0", "name": "One <b>now</b>", "body": "Notes & more", "target_commitish": "main"});
    site.owner.post(&site.owner.repo("feeds", "/releases"), &release).await.expect(201);
    let repository = site.owner.get(&site.owner.repo("feeds", "")).await.expect(200).json();
    let url = format!("<id>{}/", repository["html_url"].as_str().unwrap());
    for (feed, text) in [
        ("/atom/branch/feature/one", "Fixes #7 &#60;b&#62;now"),
        ("/tags.atom", "The &#60;first&#62; release"),
        ("/releases.atom", "Notes &#38; more"),
    ] {
        let shown = site.open(false, feed).await.expect(200);
        assert_eq!(shown.header("content-type"), "application/atom+xml; charset=utf-8");
        let xml = shown.text();
        assert!(xml.contains(text) && xml.contains(&url) && !xml.contains("<b>"), "{feed}: {xml}");
    }
    site.open(false, "/atom/branch/none").await.expect(404);
}

async fn pages_of_private_repositories_are_hidden(cluster: &Cluster) {
    let site = site(cluster, "hidden", true).await;
    for page in [
        "/commits/branch/main",
        &format!("/commit/{}", site.hostile),
        &format!("/commit/{}.diff", site.hostile),
        "/compare/main...feature/one",
        "/branches",
        "/tags",
        "/blame/branch/main/README.md",
        "/atom/branch/main",
        "/releases.atom",
    ] {
        site.open(false, page).await.expect(404);
        site.open(true, page).await.expect(200);
    }
}
