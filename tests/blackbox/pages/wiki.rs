//! Pages of wikis.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;

use super::accounts::{form_token, with_fields};
use super::issues::{leads, send};
use super::{page, shows};
use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    embedded {
        a_wiki_is_read_with_its_sidebar_and_its_files
        pages_are_written_by_forms
        wikis_are_for_those_who_may_see_them
        a_public_wiki_is_read_without_its_repository
    }
}

async fn write(user: &User, wiki: &str, title: &str, text: &str) {
    let body = json!({"title": title, "content_base64": STANDARD.encode(text)});
    user.post(&format!("{wiki}/new"), &body).await.expect(201);
}

async fn a_wiki_is_read_with_its_sidebar_and_its_files(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("read", json!({})).await;
    let (wiki, path) = (ada.repo("read", "/wiki"), format!("/{}/read/wiki", ada.name));
    for visitor in [&ada, &cluster.anonymous()] {
        shows(&page(visitor, &path).await.expect(200), &["There are no pages", "aria-current=\"page\""]);
    }
    shows(&page(&ada, &path).await, &["Create the first page"]);
    let text = "# Hi <script>alert(1)</script>\n[Start](Getting-started) ![p](img/p.png) [Doc](img/p.png) *so*";
    write(&ada, &wiki, "Home", text).await;
    write(&ada, &wiki, "a-b <b> c/d", "Odd").await;
    write(&ada, &wiki, "_Sidebar", "[Aside](Home)").await;
    write(&ada, &wiki, "_Footer", "**Below**").await;
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "read.wiki"), "work"]).await;
    std::fs::create_dir(git.path().join("work/img")).unwrap();
    std::fs::write(git.path().join("work/img/p.png"), b"\x89PNG\0").unwrap();
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["commit", "-q", "-m", "Picture"]).await;
    git.run("work", &["push", "-q"]).await;
    for visitor in [&ada, &cluster.anonymous()] {
        for home in [path.clone(), format!("{path}/Home"), format!("{path}/Home.md")] {
            let shown = page(visitor, &home).await.expect(200);
            let (start, picture) = (format!("{path}/Getting-started"), format!("{path}/raw/img/p.png"));
            shows(&shown, &["<em>so</em>", &start, &picture, "Sidebar of the wiki", "<strong>Below</strong>"]);
            shows(&shown, &["1 revision", &format!("{path}/_pages")]);
        }
        let list = page(visitor, &format!("{path}/_pages")).await.expect(200);
        shows(&list, &["a-b &#60;b&#62; c/d", "a-b+%3Cb%3E+c%2Fd.-", "read.wiki.git"]);
        shows(
            &page(visitor, &format!("{path}/a-b+%3Cb%3E+c%2Fd.-")).await.expect(200),
            &["a-b &#60;b&#62; c/d", "Odd"],
        );
        let revisions = page(visitor, &format!("{path}/Home?action=_revision")).await.expect(200);
        shows(&revisions, &["Revisions of", "Add Home.md"]);
        let raw = page(visitor, &format!("{path}/raw/img/p.png")).await.expect(200);
        assert_eq!(raw.header("content-type"), "image/png");
        assert!(raw.header("content-security-policy").contains("sandbox"));
        let linked = page(visitor, &format!("{path}/img/p.png")).await.expect(307);
        assert_eq!(linked.header("location"), format!("{path}/raw/img/p.png"));
    }
    assert!(!page(&cluster.anonymous(), &path).await.text().contains("_edit"));
    page(&cluster.anonymous(), &format!("{path}/None")).await.expect(404);
    shows(&page(&ada, &format!("{path}/None-at-all")).await.expect(404), &["None at all", "Create the page"]);
}

async fn pages_are_written_by_forms(cluster: &Cluster) {
    let (ada, eve) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("written", json!({})).await;
    let (wiki, path) = (ada.repo("written", "/wiki"), format!("/{}/written/wiki", ada.name));
    let new = format!("{path}/_new");
    let preview = send(&ada, &new, &[("title", "Home"), ("content", "*so*"), ("preview", "1")]).await.expect(200);
    shows(&preview, &["<em>so</em>", "value=\"Home\"", "*so*"]);
    shows(&send(&ada, &new, &[("title", "_new"), ("content", "kept")]).await.expect(422), &["reserved", "kept"]);
    let fields = [("title", "Getting started"), ("content", "one\r\ntwo"), ("message", "Begin")];
    leads(&send(&ada, &new, &fields).await, &format!("{path}/Getting-started"));
    let made = ada.get(&format!("{wiki}/page/Getting-started")).await.expect(200).json();
    assert_eq!(made["content_base64"], STANDARD.encode("one\ntwo"));
    assert_eq!(made["last_commit"]["message"], "Begin");

    let edit = format!("{path}/Getting-started?action=_edit");
    let form = page(&ada, &edit).await.expect(200);
    shows(&form, &["one\ntwo", &format!("name=\"sha\" value=\"{}\"", made["sha"].as_str().unwrap())]);
    // Another change comes first.
    let other = json!({"content_base64": STANDARD.encode("three")});
    ada.patch(&format!("{wiki}/page/Getting-started"), &other).await.expect(200);
    let fields = [("title", "Getting started"), ("content", "mine"), ("sha", made["sha"].as_str().unwrap())];
    shows(&send(&ada, &edit, &fields).await.expect(422), &["changed meanwhile", "mine"]);
    shows(&send(&ada, &edit, &[("title", " "), ("content", "kept")]).await.expect(422), &["title", "kept"]);
    let gogs = format!("{path}/Getting-started/_edit");
    leads(&send(&ada, &gogs, &[("title", "Home"), ("content", "four")]).await, &format!("{path}/Home"));
    shows(&page(&ada, &path).await.expect(200), &["four"]);

    let delete = format!("{path}/Home?action=_delete");
    shows(&page(&ada, &delete).await.expect(200), &["Delete the page Home?"]);
    for form in [&new, &edit, &delete] {
        page(&eve, form).await.expect(403);
        assert!(page(&cluster.anonymous(), form).await.expect(303).header("location").contains("/user/login"));
    }
    leads(&send(&ada, &delete, &[]).await, &format!("{path}/_pages"));
    ada.get(&format!("{wiki}/page/Home")).await.refused(404);
}

async fn wikis_are_for_those_who_may_see_them(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("secret", json!({"private": true})).await;
    let (repo, path) = (ada.repo("secret", ""), format!("/{}/secret", ada.name));
    write(&ada, &format!("{repo}/wiki"), "Home", "Hidden").await;
    for place in ["wiki", "wiki/Home", "wiki/_pages", "wiki/Home?action=_revision", "wiki/raw/Home.md"] {
        let shown = page(&ada, &format!("{path}/{place}")).await.expect(200);
        assert!(shown.text().contains("Home") || shown.text() == "Hidden", "{place}");
        for other in [cluster.outsider().await, cluster.anonymous()] {
            let hidden = page(&other, &format!("{path}/{place}")).await.expect(404);
            assert!(!hidden.text().contains("Hidden"), "{place}");
        }
    }
    let external = json!({"enable_external_wiki": true, "external_wiki_url": "https://wiki.example.com/x"});
    ada.patch(&format!("{repo}/wiki"), &external).await.empty(204);
    shows(&page(&ada, &path).await.expect(200), &["href=\"https://wiki.example.com/x\""]);
    page(&ada, &format!("{path}/wiki")).await.expect(404);
    ada.patch(&format!("{repo}/wiki"), &json!({"enable_wiki": false, "enable_external_wiki": false})).await.empty(204);
    assert!(!page(&ada, &path).await.text().contains("Wiki"));
}

async fn a_public_wiki_is_read_without_its_repository(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let new = json!({"private": true, "description": "Hidden words", "auto_init": true});
    ada.new_repository("closed", new).await;
    let (repo, path) = (ada.repo("closed", ""), format!("/{}/closed", ada.name));
    let set = async |is_public: bool| {
        ada.patch(&format!("{repo}/wiki"), &json!({"allow_public_wiki": is_public})).await.empty(204);
    };
    let strangers = [cluster.outsider().await, cluster.anonymous()];
    set(true).await;
    for stranger in &strangers {
        page(stranger, &format!("{path}/wiki")).await.expect(404);
    }
    write(&ada, &format!("{repo}/wiki"), "Home", "Shown. [[Next|Second page]]").await;
    write(&ada, &format!("{repo}/wiki"), "Second page", "Second").await;
    let places = ["wiki", "wiki/Home", "wiki/Second-page", "wiki/_pages", "wiki/Home?action=_revision"];
    for stranger in &strangers {
        for place in places {
            let shown = page(stranger, &format!("{path}/{place}")).await.expect(200);
            shows(
                &shown,
                &[&format!("href=\"{path}/wiki\" aria-current=\"page\""), &format!("href=\"/{}\"", ada.name)],
            );
            let html = shown.text();
            for hidden in
                ["Hidden words", "closed.git", "/closed/issues", "/closed/stars", "/closed.atom", "_edit", "_new"]
            {
                assert!(!html.contains(hidden), "{hidden} in {place}: {html}");
            }
            assert!(!html.contains(&format!("href=\"{path}\"")), "{place} leads to the repository: {html}");
        }
        let home = page(stranger, &format!("{path}/wiki")).await;
        shows(&home, &["Shown.", &format!("{path}/wiki/Second-page\"")]);
        shows(&page(stranger, &format!("{path}/wiki/_pages")).await, &["Second page", "closed.wiki.git"]);
        assert!(page(stranger, &format!("{path}/wiki/raw/Home.md")).await.expect(200).text().starts_with("Shown."));
        let listed = stranger.get(&format!("{repo}/wiki/pages")).await.expect(200);
        for url in listed.each("html_url") {
            page(stranger, url.trim_start_matches(cluster.url.as_str())).await.expect(200);
        }
        for place in ["", "/issues", "/wiki/None", "/wiki/none.png", "/wiki/_new", "/wiki/Home?action=_edit"] {
            page(stranger, &format!("{path}{place}")).await.expect(404);
        }
    }
    let token = form_token(&page(&strangers[0], "/repo/create").await.expect(200).text());
    let fields = [("form_token", token.as_str()), ("title", "x"), ("content", "x")];
    let form = strangers[0].raw(Method::POST, &format!("{path}/wiki/_new"));
    let form = form.header("cookie", format!("ferrite_session={}", strangers[0].token.as_ref().unwrap()));
    Response::of(with_fields(form, &fields)).await.expect(404);
    let of_reader = page(&ada, &format!("{path}/wiki")).await.expect(200);
    shows(&of_reader, &["Shown.", &format!("href=\"{path}\""), "/closed/issues", "_edit"]);
    set(false).await;
    for (stranger, place) in strangers.iter().flat_map(|stranger| places.map(|place| (stranger, place))) {
        let hidden = page(stranger, &format!("{path}/{place}")).await.expect(404);
        assert!(!hidden.text().contains("Shown."), "{place}");
    }
    page(&strangers[1], &format!("{path}/wiki/raw/Home.md")).await.expect(404);
}
