//! Pages of pull requests and releases.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::editor::{field, send_parts};
use super::issues::{leads, send};
use super::{page, shows};
use crate::harness::{Cluster, Git, User};

on_profiles! {
    embedded {
        a_pull_request_is_opened_reviewed_and_merged_by_forms
        what_stands_against_a_merge_is_shown
        lists_and_tabs_are_shown_to_everybody
        changes_of_whitespace_are_hidden
        releases_are_published_and_deleted_by_forms
        files_of_releases_are_uploaded_renamed_and_deleted_by_forms
        pages_of_private_repositories_are_for_their_readers
    }
}

const HOSTILE: &str = "<script>alert(1)</script> \"&";
const ESCAPED: &str = "&#60;script&#62;alert(1)&#60;/script&#62; &#34;&#38;";

/// A repository with a branch `topic`, which adds a file of two lines.
struct Site {
    ada: User,
    /// The paths in the API and on pages.
    repo: String,
    path: String,
    base: String,
}

impl Site {
    async fn new(cluster: &Cluster, name: &str, is_private: bool) -> Self {
        let ada = cluster.user("ada").await;
        let repo = ada.new_tracker(name, json!({"auto_init": true, "private": is_private})).await;
        let shown = ada.get(&repo).await.expect(200).json();
        let base = shown["default_branch"].as_str().unwrap().to_owned();
        let site = Self { path: format!("/{}/{name}", ada.name), ada, repo, base };
        site.add_file("added.txt", "one\ntwo\n", Some("topic")).await;
        site
    }

    async fn add_file(&self, file: &str, content: &str, new_branch: Option<&str>) {
        let mut body = json!({"message": format!("Add {file} <b>"), "content": STANDARD.encode(content)});
        if let Some(branch) = new_branch {
            body["new_branch"] = branch.into();
        }
        self.ada.put(&format!("{}/contents/{file}", self.repo), &body).await.expect(201);
    }

    async fn open(&self, head: &str, title: &str) -> i64 {
        let body = json!({"head": head, "base": self.base, "title": title, "body": "Some **bold** text"});
        let made = self.ada.post(&format!("{}/pulls", self.repo), &body).await.expect(201).json();
        made["number"].as_i64().unwrap()
    }

    async fn pull(&self, number: i64) -> Value {
        self.ada.get(&format!("{}/pulls/{number}", self.repo)).await.expect(200).json()
    }

    fn at(&self, rest: &str) -> String {
        format!("{}{rest}", self.path)
    }
}

/// The fields of a merge of a head.
fn merge_of(head: &str) -> [(&str, &str); 4] {
    [("action", "merge"), ("Do", "merge"), ("MergeTitleField", "All <in>"), ("head_commit_id", head)]
}

async fn a_pull_request_is_opened_reviewed_and_merged_by_forms(cluster: &Cluster) {
    let site = Site::new(cluster, "tour", false).await;
    let (ada, bob) = (&site.ada, cluster.user("bob").await);
    ada.share(&site.repo, &bob, "write").await;
    let form = site.at(&format!("/pulls/new/{}...topic", site.base));
    shows(&page(ada, &form).await.expect(200), &["1 changed file in 1 commit", "value=\"Add added.txt &#60;b&#62;\""]);
    let fields = [("title", HOSTILE), ("body", "Some **bold** text"), ("send", "1")];
    shows(
        &send(ada, &form, &[("title", HOSTILE), ("body", "*x*"), ("preview", "1")]).await.expect(200),
        &["<em>x</em>"],
    );
    let pull = site.at("/pulls/1");
    leads(&send(ada, &form, &fields).await, &pull);
    shows(&send(ada, &form, &fields).await.expect(422), &["flash bad", ESCAPED, &format!("href=\"{pull}\"")]);

    let head = site.pull(1).await["head"]["sha"].as_str().unwrap().to_owned();
    let files = site.at("/pulls/1/files");
    let comment = format!("{files}/comment?commit={head}&path=added.txt&side=new&line=2");
    shows(&page(&bob, &files).await.expect(200), &[&comment.replace('&', "&#38;"), "Request changes"]);
    shows(&page(&bob, &comment).await.expect(200), &["added.txt", "+two", "Comment at once"]);
    for missing in [comment.replace("line=2", "line=9"), comment.replace("added.txt", "gone.txt")] {
        page(&bob, &missing).await.expect(404);
    }
    let sent = send(&bob, &comment, &[("body", "Why *two*?"), ("line_count", "1"), ("event", "PENDING")]).await;
    assert!(sent.expect(303).header("location").starts_with(&format!("{files}#diff-")));
    shows(&page(&bob, &files).await.expect(200), &["Why <em>two</em>?", "Pending", "Finish your review"]);
    assert!(!page(ada, &files).await.expect(200).text().contains("Why <em>"), "others do not see it");
    let reviews = bob.get(&format!("{}/pulls/1/reviews", site.repo)).await.expect(200).json();
    let id = reviews[0]["id"].to_string();
    let sent = send(&bob, &files, &[("event", "APPROVED"), ("body", "Well done"), ("pending", &id)]).await;
    leads(&sent, &format!("{pull}#pullrequestreview-{id}"));

    let texts = [ESCAPED, "<strong>bold</strong>", "approved the changes", "Why <em>two</em>?", "Well done", "+two"];
    for visitor in [ada, &bob, &cluster.anonymous()] {
        shows(&page(visitor, &pull).await.expect(200), &texts);
    }
    assert!(!page(&cluster.anonymous(), &pull).await.text().contains("<form class=\"form\" method=\"post\""));
    let sent = send(&bob, &pull, &[("body", "A comment"), ("send", "comment")]).await;
    let comments = ada.get(&format!("{}/issues/1/comments", site.repo)).await.expect(200).ids("id");
    leads(&sent, &format!("{pull}#issuecomment-{}", comments[0]));
    let resolved = bob.get(&format!("{}/pulls/1/reviews/{id}/comments", site.repo)).await.expect(200).ids("id")[0];
    send(ada, &pull, &[("action", "resolve"), ("id", &resolved.to_string())]).await.expect(303);
    shows(&page(ada, &pull).await.expect(200), &["Resolved by"]);

    let moved = "0".repeat(40);
    shows(&send(ada, &pull, &merge_of(&moved)).await.expect(422), &["flash bad", "value=\"All &#60;in&#62;\""]);
    leads(&send(ada, &pull, &merge_of(&head)).await, &format!("{pull}#merge"));
    assert_eq!(site.pull(1).await["merged"], true);
    shows(&page(ada, &pull).await.expect(200), &["Merged", "This is merged", "Revert"]);
    leads(&send(ada, &pull, &[("action", "revert"), ("title", "Back")]).await, &site.at("/pulls/2"));
}

async fn what_stands_against_a_merge_is_shown(cluster: &Cluster) {
    let site = Site::new(cluster, "against", false).await;
    let (ada, number) = (&site.ada, site.open("topic", "WIP: topic").await);
    let pull = site.at(&format!("/pulls/{number}"));
    shows(&page(ada, &pull).await.expect(200), &["This is a draft", "Ready for review"]);
    leads(&send(ada, &pull, &[("action", "ready")]).await, &pull);
    assert_eq!(site.pull(number).await["title"], "topic");
    let head = site.pull(number).await["head"]["sha"].as_str().unwrap().to_owned();
    let status = json!({"state": "failure", "context": "ci/<i>", "target_url": "javascript:alert(1)"});
    ada.post(&format!("{}/statuses/{head}", site.repo), &status).await;
    let status = json!({"state": "failure", "context": "ci/two", "target_url": "https://ci.example.com/2"});
    ada.post(&format!("{}/statuses/{head}", site.repo), &status).await.expect(201);
    let rule = json!({"rule_name": site.base, "required_approvals": 1, "enable_status_check": true});
    ada.post(&format!("{}/branch_protections", site.repo), &rule).await.expect(201);
    let shown = page(ada, &pull).await.expect(200);
    let texts = ["Some checks have failed", "href=\"https://ci.example.com/2\"", "Approvals: 0 of 1", "Not met: "];
    shows(&shown, &texts);
    assert!(!shown.text().contains("javascript:"));
    assert!(!shown.text().contains("name=\"team_reviewers\""), "users have no teams");
    let eve = cluster.outsider().await;
    eve.post(&format!("{}/pulls/{number}/reviews", site.repo), &json!({"event": "APPROVED"})).await.expect(200);
    shows(&page(ada, &pull).await.expect(200), &["approved the changes", "Does not count: no write access"]);
    let guest = page(&cluster.anonymous(), &pull).await.expect(200);
    shows(&guest, &["Approvals: 0 of 1", "All checks have passed", "Users with write permission can merge this."]);
    let fields = [("action", "merge"), ("Do", "merge"), ("head_commit_id", head.as_str())];
    shows(&send(ada, &pull, &fields).await.expect(422), &["flash bad"]);
    let waiting = [fields.as_slice(), &[("merge_when_checks_succeed", "1")]].concat();
    leads(&send(ada, &pull, &waiting).await, &format!("{pull}#merge"));
    shows(&page(ada, &pull).await.expect(200), &["scheduled the merge", "Cancel the merge"]);
    leads(&send(ada, &pull, &[("action", "cancel_merge")]).await, &format!("{pull}#merge"));
    assert_eq!(site.pull(number).await["scheduled_merge"], Value::Null);

    ada.delete(&format!("{}/branch_protections/{}", site.repo, site.base)).await.empty(204);
    site.add_file("added.txt", "another\n", None).await;
    let shown = page(ada, &pull).await.expect(200);
    shows(&shown, &["conflicts with", "both sides add it", "The base has newer commits"]);
    leads(&send(ada, &pull, &[("state", "closed")]).await, &pull);
    shows(&page(ada, &pull).await.expect(200), &["This is closed, and not merged", "Reopen pull request"]);
}

async fn lists_and_tabs_are_shown_to_everybody(cluster: &Cluster) {
    let site = Site::new(cluster, "shown", false).await;
    let number = site.open("topic", HOSTILE).await;
    let pull = site.at(&format!("/pulls/{number}"));
    let eve = cluster.outsider().await;
    for visitor in [&site.ada, &eve, &cluster.anonymous()] {
        let list = page(visitor, &site.at("/pulls")).await.expect(200);
        shows(&list, &[ESCAPED, "Open <span class=\"count\">1", &format!("href=\"{pull}\"")]);
        shows(&page(visitor, &site.at("/pulls?state=closed")).await.expect(200), &["no closed pull requests"]);
        shows(&page(visitor, &format!("{pull}/commits")).await.expect(200), &[ESCAPED, "Add added.txt &#60;b&#62;"]);
        for style in ["", "?style=split"] {
            shows(&page(visitor, &format!("{pull}/files{style}")).await.expect(200), &[ESCAPED, "added.txt", "+two"]);
        }
        for text in ["diff", "patch"] {
            let shown = page(visitor, &format!("{pull}.{text}")).await.expect(200);
            assert!(shown.header("content-type").starts_with("text/plain") && shown.text().contains("+two"));
        }
    }
    page(&cluster.anonymous(), &site.at("/pulls/new")).await.expect(303);
    page(&eve, &site.at("/pulls/999")).await.expect(404);
    page(&eve, &format!("{pull}/reviews/999")).await.expect(404);
    site.ada.patch(&site.repo, &json!({"has_issues": false})).await.expect(200);
    let milestone = site.ada.new_milestone(&site.repo, "v1").await;
    for place in ["/labels", "/milestones", &format!("/milestone/{milestone}")] {
        shows(&page(&site.ada, &site.at(place)).await.expect(200), &[&format!("href=\"{}", site.at("/pulls"))]);
    }
    shows(&page(&site.ada, &site.at("/pulls?q=nothing")).await.expect(200), &["No pull request matches"]);
    shows(&page(&site.ada, &site.at(&format!("/issues/{number}/edit"))).await.expect(200), &["v1", &site.ada.name]);
    for (place, text) in [("/pulls".to_owned(), ESCAPED), (format!("/pulls/{number}"), ESCAPED)] {
        shows(&page(&site.ada, &site.at(&place)).await.expect(200), &[text]);
    }
    send(&eve, &pull, &[("body", "Without *issues*"), ("send", "comment")]).await.expect(303);
    leads(&send(&site.ada, &pull, &[("state", "closed")]).await, &pull);
    shows(&page(&eve, &pull).await.expect(200), &["Without <em>issues</em>", "This is closed, and not merged"]);
    leads(&send(&site.ada, &pull, &[("state", "open")]).await, &pull);
}

async fn changes_of_whitespace_are_hidden(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    let repo = ada.new_tracker("spaces", json!({})).await;
    let at = |rest: &str| format!("/{}/spaces{rest}", ada.name);
    let lines: Vec<_> = (1..=20).map(|line| format!("{line}\n")).collect();
    git.small("work").await;
    std::fs::write(git.path().join("work/only.txt"), "one\n").unwrap();
    git.commit("work", "both.txt", &lines.concat()).await;
    git.run("work", &["checkout", "-q", "-b", "topic"]).await;
    std::fs::write(git.path().join("work/only.txt"), "  one\n").unwrap();
    let changed = lines.concat().replace("\n2\n", "\n  2\n").replace("\n5\n", "\nfive\n");
    let head = git.commit("work", "both.txt", &changed).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "spaces"), "main", "topic"]).await;
    let fields = json!({"head": "topic", "base": "main", "title": "Spaces"});
    ada.post(&format!("{repo}/pulls"), &fields).await.expect(201);
    let files = at("/pulls/1/files");
    for path in [at(&format!("/commit/{head}")), at("/compare/main...topic"), files.clone()] {
        let hide = format!("href=\"{path}?whitespace=ignore-all\"");
        shows(&page(&ada, &path).await.expect(200), &["Hide whitespace changes", &hide, "+five", "+  2", "+  one"]);
        for style in ["", "&style=split"] {
            let shown = page(&ada, &format!("{path}?whitespace=ignore-all{style}")).await.expect(200);
            shows(
                &shown,
                &["Show whitespace changes", "2 changed files", "only.txt", "Only whitespace changes.", "+five"],
            );
            assert!(!["+  2", "+  one"].iter().any(|text| shown.text().contains(text)), "{}", shown.text());
        }
        let split = page(&ada, &format!("{path}?whitespace=ignore-all&style=split")).await.expect(200);
        shows(&split, &[&hide, &format!("href=\"{path}?style=split\"")]);
        shows(&page(&ada, &format!("{path}?whitespace=none")).await.expect(200), &["Hide whitespace changes", "+  2"]);
    }

    // A line of both files, which is a changed one in the whole diff.
    let hidden = format!("{files}?whitespace=ignore-all");
    let comment = format!("{files}/comment?commit={head}&whitespace=ignore-all&path=both.txt&side=new&line=2");
    shows(&page(&ada, &hidden).await.expect(200), &[&comment.replace('&', "&#38;")]);
    shows(&page(&ada, &comment).await.expect(200), &["+  2", &format!("href=\"{hidden}\"")]);
    let fields = [("body", "Why *two*?"), ("line_count", "1"), ("event", "COMMENT")];
    let sent = send(&ada, &comment, &fields).await.expect(303);
    assert!(sent.header("location").starts_with(&format!("{hidden}#diff-")), "{}", sent.header("location"));
    for path in [&files, &hidden] {
        shows(&page(&ada, path).await.expect(200), &["Why <em>two</em>?"]);
    }
    let made = ada.get(&format!("{repo}/pulls/1/comments")).await.expect(200).json();
    assert!(made[0]["diff_hunk"].as_str().unwrap().ends_with("\n+  2"), "{made}");
    page(&ada, &comment.replace("line=2", "line=18")).await.expect(404);
}

async fn releases_are_published_and_deleted_by_forms(cluster: &Cluster) {
    let site = Site::new(cluster, "released", false).await;
    let (ada, guest) = (&site.ada, cluster.anonymous());
    shows(&page(ada, &site.at("/releases")).await.expect(200), &["There are no releases", "Create a release"]);
    let (new, tag) = (site.at("/releases/new"), site.at("/releases/tag/v1/rc"));
    let fields = [("tag_name", "v1/rc"), ("name", HOSTILE), ("body", "The **notes**"), ("send", "draft")];
    let edit = site.at("/releases/edit/v1/rc");
    leads(&send(ada, &new, &fields).await, &format!("{edit}?created=1"));
    shows(&page(ada, &tag).await.expect(200), &["Draft", ESCAPED]);
    page(&guest, &tag).await.expect(404);
    let published = [&fields[..3], &[("send", "publish")]].concat();
    leads(&send(ada, &edit, &published).await, &tag);
    for visitor in [ada, &guest] {
        let texts = [ESCAPED, "<strong>notes</strong>", &site.at("/archive/v1/rc.zip")];
        shows(&page(visitor, &site.at("/releases")).await.expect(200), &texts);
        shows(&page(visitor, &tag).await.expect(200), &texts);
        leads(&page(visitor, &site.at("/releases/latest")).await, &tag);
    }
    let taken = send(ada, &new, &fields).await;
    assert!(taken.status.is_client_error() && taken.text().contains("flash bad"), "{}", taken.text());
    page(&cluster.outsider().await, &new).await.expect(403);
    leads(&send(ada, &site.at("/releases/delete/v1/rc"), &[]).await, &site.at("/releases"));
    page(ada, &tag).await.expect(404);
}

async fn files_of_releases_are_uploaded_renamed_and_deleted_by_forms(cluster: &Cluster) {
    let site = Site::new(cluster, "filed", true).await;
    let (ada, guest) = (&site.ada, cluster.anonymous());
    let edit = site.at("/releases/edit/v1/rc");
    let created = send(ada, &site.at("/releases/new"), &[("tag_name", "v1/rc"), ("send", "draft")]).await;
    leads(&created, &format!("{edit}?created=1"));
    let shown = page(ada, &created.header("location")).await.expect(200);
    shows(&shown, &["The draft is saved", "The release has no files", "At most 2.0 GiB each, and 100 files"]);
    let token = field(&shown.text(), "form_token");
    let release = ada.get(&format!("{}/releases/tags/v1/rc", site.repo)).await.expect(200).json();
    let files = site.at(&format!("/releases/files/{}", release["id"]));
    let assets = format!("{}/releases/{}/assets", site.repo, release["id"]);
    let upload = async |user: &User, token: &str, sent: &[(&str, &[u8])]| {
        send_parts(user, &files, &[("form_token", token)], sent).await
    };
    let names = async || {
        let listed = ada.get(&assets).await.expect(200).json();
        listed.as_array().unwrap().iter().map(|asset| asset["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    let large = vec![7; 5 << 20];
    leads(&upload(ada, &token, &[("a.bin", &large[..]), ("<b>.txt", &b"b"[..])]).await, &format!("{edit}#files"));
    shows(&page(ada, &edit).await.expect(200), &["a.bin", "5.0 MiB", "&#60;b&#62;.txt", "value=\"publish\""]);
    let again = upload(ada, &token, &[("c", &b"c"[..]), ("a.bin", &b"x"[..]), ("d", &b"d"[..])]).await.expect(422);
    shows(&again, &["flash bad", "a.bin: ", "Uploaded before: 1 file"]);
    assert_eq!(names().await, ["a.bin", "<b>.txt", "c"]);
    shows(&upload(ada, &token, &[]).await.expect(422), &["select at least one file"]);
    upload(ada, "00", &[("e", &b"e"[..])]).await.expect(403);
    upload(&cluster.outsider().await, &token, &[("e", &b"e"[..])]).await.expect(404);
    assert!(upload(&guest, &token, &[("e", &b"e"[..])]).await.expect(303).header("location").contains("/user/login"));

    let id = ada.get(&assets).await.expect(200).json()[0]["id"].clone();
    let (file, download) = (format!("{files}/{id}"), format!("{files}/{id}/a.bin"));
    let content = page(ada, &download).await.expect(200);
    assert_eq!(
        (content.header("content-disposition").as_str(), content.body.len()),
        ("attachment; filename=\"a.bin\"", large.len())
    );
    page(&guest, &download).await.expect(404);
    shows(&send(ada, &file, &[("name", "c"), ("send", "1")]).await.expect(422), &["flash bad", "value=\"c\""]);
    leads(&send(ada, &file, &[("name", "f.bin"), ("send", "1")]).await, &format!("{edit}#files"));
    assert_eq!(names().await, ["f.bin", "<b>.txt", "c"]);
    leads(&send(ada, &file, &[("delete", "1")]).await, &format!("{edit}#files"));
    page(ada, &file).await.expect(404);
    let tag = site.at("/releases/tag/v1/rc");
    leads(&send(ada, &edit, &[("tag_name", "v1/rc"), ("send", "publish")]).await, &tag);
    shows(&page(ada, &tag).await.expect(200), &["&#60;b&#62;.txt</a>", &files]);
    assert_eq!(names().await, ["<b>.txt", "c"]);
}

async fn pages_of_private_repositories_are_for_their_readers(cluster: &Cluster) {
    let site = Site::new(cluster, "hidden", true).await;
    let number = site.open("topic", "Secret").await;
    for rest in ["", "/commits", "/files", ".diff"] {
        let path = site.at(&format!("/pulls/{number}{rest}"));
        page(&site.ada, &path).await.expect(200);
        for visitor in [&cluster.outsider().await, &cluster.anonymous()] {
            assert!(!page(visitor, &path).await.expect(404).text().contains("Secret"));
        }
    }
    for rest in ["/pulls", "/releases", "/releases/new", "/pulls/new"] {
        page(&site.ada, &site.at(rest)).await.expect(200);
        page(&cluster.outsider().await, &site.at(rest)).await.expect(404);
    }
}
