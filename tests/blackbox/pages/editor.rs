//! Forms that change files, branches and tags.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;

use super::issues::{leads, send};
use super::{page, shows};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    embedded {
        a_file_is_written_renamed_and_deleted
        a_text_that_is_not_saved_is_shown_again
        files_are_uploaded_in_one_commit
        files_are_found_by_words
        branches_and_tags_are_changed_by_forms
        only_writers_change_files
    }
}

const HOSTILE: &str = "\n</textarea><script>alert(1)</script> \"&\n";
const ESCAPED: &str = "\n\n&#60;/textarea&#62;&#60;script&#62;alert(1)&#60;/script&#62; &#34;&#38;\n</textarea>";

/// A repository, and its path on pages.
async fn repository(cluster: &Cluster, files: &[(&str, &str)]) -> (User, String) {
    let ada = cluster.user("ada").await;
    ada.new_repository("demo", json!({})).await;
    for (path, content) in files {
        let body = json!({"content": STANDARD.encode(content), "branch": "main"});
        ada.post(&ada.repo("demo", &format!("/contents/{path}")), &body).await.expect(201);
    }
    let path = format!("/{}/demo", ada.name);
    (ada, path)
}

/// The hidden field of a form.
pub(super) fn field(html: &str, name: &str) -> String {
    let (_, rest) = html.split_once(&format!("name=\"{name}\" value=\"")).expect(name);
    rest.split('"').next().unwrap().to_owned()
}

/// Sends a form of parts. Browsers end all lines of texts with CRLF.
pub(super) async fn send_parts(user: &User, path: &str, fields: &[(&str, &str)], files: &[(&str, &[u8])]) -> Response {
    let fields =
        fields.iter().map(|(name, value)| (format!("name=\"{name}\""), value.replace('\n', "\r\n").into_bytes()));
    let files = files.iter().map(|(name, content)| (format!("name=\"files\"; filename=\"{name}\""), content.to_vec()));
    let mut body = Vec::new();
    for (about, content) in fields.chain(files) {
        let head = format!("--xyz\r\nContent-Disposition: form-data; {about}\r\n\r\n");
        body.extend_from_slice(&[head.as_bytes(), &content, b"\r\n"].concat());
    }
    body.extend_from_slice(b"--xyz--\r\n");
    let request = user.raw(Method::POST, path).header("content-type", "multipart/form-data; boundary=xyz").body(body);
    let request = match &user.token {
        Some(token) => request.header("cookie", format!("ferrite_session={token}")),
        None => request,
    };
    Response::of(request).await
}

/// Opens a form and sends it, with its token and the id of its file.
async fn submit(user: &User, path: &str, fields: &[(&str, &str)], files: &[(&str, &[u8])]) -> Response {
    let html = page(user, path).await.expect(200).text();
    let mut all = vec![("form_token", field(&html, "form_token"))];
    if html.contains("name=\"sha\"") {
        all.push(("sha", field(&html, "sha")));
    }
    if html.contains("name=\"crlf\"") {
        all.push(("crlf", field(&html, "crlf")));
    }
    let all = all.iter().map(|(name, value)| (*name, value.as_str())).chain(fields.iter().copied());
    send_parts(user, path, &all.collect::<Vec<_>>(), files).await
}

async fn content(user: &User, path: &str) -> Vec<u8> {
    user.get(&user.repo("demo", &format!("/raw/main/{path}"))).await.expect(200).body.to_vec()
}

async fn commits(user: &User) -> usize {
    user.get(&user.repo("demo", "/commits")).await.expect(200).json().as_array().unwrap().len()
}

async fn a_file_is_written_renamed_and_deleted(cluster: &Cluster) {
    let (ada, path) = repository(cluster, &[]).await;
    let first = format!("{path}/_new/main?path=README.md");
    shows(&page(&ada, &path).await.expect(200), &[&first, &format!("{path}/_upload/main")]);
    shows(&page(&ada, &first).await.expect(200), &["value=\"README.md\""]);
    let made = submit(&ada, &format!("{path}/_new/main"), &[("path", "README.md"), ("content", HOSTILE)], &[]).await;
    leads(&made, &format!("{path}/src/branch/main/README.md"));
    assert_eq!(content(&ada, "README.md").await, HOSTILE.as_bytes(), "line feeds, and no other end");

    let edit = format!("{path}/_edit/main/README.md");
    shows(&page(&ada, &edit).await.expect(200), &[ESCAPED, "name=\"preview\""]);
    shows(&page(&ada, &path).await.expect(200), &[&format!("href=\"{edit}\""), &format!("{path}/find/branch/main")]);
    let fields = [("path", "README.md"), ("content", "# Title\n[x](a.md)"), ("preview", "1")];
    let preview = submit(&ada, &edit, &fields, &[]).await.expect(200);
    shows(&preview, &["Title</h2>", &format!("{path}/src/branch/main/a.md"), "\n# Title\n[x](a.md)</textarea>"]);

    let windows = json!({"content": STANDARD.encode("one\r\ntwo"), "branch": "main"});
    ada.post(&ada.repo("demo", "/contents/docs/a%20b.txt"), &windows).await.expect(201);
    let file = format!("{path}/src/branch/main/docs/a%20b.txt");
    let edit = format!("{path}/_edit/main/docs/a%20b.txt");
    shows(&page(&ada, &file).await.expect(200), &[&edit, &format!("{path}/_delete/main/docs/a%20b.txt")]);
    let before = commits(&ada).await;
    let fields = [("path", "docs/b.txt"), ("content", "one\ntwo\nthree"), ("message", "Move <b>")];
    leads(&submit(&ada, &edit, &fields, &[]).await, &format!("{path}/src/branch/main/docs/b.txt"));
    assert_eq!(content(&ada, "docs/b.txt").await, b"one\r\ntwo\r\nthree");
    assert_eq!(commits(&ada).await, before + 1, "one commit");
    ada.get(&ada.repo("demo", "/contents/docs/a%20b.txt")).await.expect(404);

    let delete = format!("{path}/_delete/main/docs/b.txt");
    leads(&submit(&ada, &delete, &[("message", "")], &[]).await, &format!("{path}/src/branch/main"));
    ada.get(&ada.repo("demo", "/contents/docs/b.txt")).await.expect(404);
    page(&ada, &delete).await.expect(404);
}

async fn a_text_that_is_not_saved_is_shown_again(cluster: &Cluster) {
    let (ada, path) = repository(cluster, &[("a.txt", "one\n"), ("data.bin", "\0")]).await;
    let edit = format!("{path}/_edit/main/a.txt");
    let html = page(&ada, &edit).await.expect(200).text();
    let (token, sha) = (field(&html, "form_token"), field(&html, "sha"));
    let typed = [("path", "a.txt"), ("content", HOSTILE), ("message", "Mine")];
    let with = |token: &str, more: &[(&str, &str)]| {
        let fields = [("form_token", token), ("sha", &sha)].into_iter().chain(typed).chain(more.iter().copied());
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
    };
    let send = async |user: &User, fields: Vec<(String, String)>| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        send_parts(user, &edit, &fields, &[]).await
    };

    // Somebody was faster.
    let other = json!({"content": STANDARD.encode("two\n"), "sha": sha});
    ada.put(&ada.repo("demo", "/contents/a.txt"), &other).await.expect(200);
    let conflict = send(&ada, with(&token, &[])).await.expect(409);
    shows(&conflict, &[ESCAPED, "Mine", "changed while you edited it", "name=\"replace\""]);
    let present = field(&conflict.text(), "replace");
    leads(&send(&ada, with(&token, &[("replace", &present)])).await, &format!("{path}/src/branch/main/a.txt"));
    assert_eq!(content(&ada, "a.txt").await, HOSTILE.as_bytes());

    // Other refusals of the API.
    for bad in ["", "a/../b", "data.bin/x"] {
        let fields = [("path", bad), ("content", HOSTILE)];
        let refused = submit(&ada, &format!("{path}/_new/main"), &fields, &[]).await.expect(422);
        shows(&refused, &[ESCAPED, "flash bad"]);
    }
    page(&ada, &format!("{path}/_edit/main/data.bin")).await.expect(422);
    page(&ada, &format!("{path}/_edit/main/none")).await.expect(404);

    // A protected branch, from which another one begins.
    let rule = json!({"pattern": "main", "enable_push": false});
    ada.post(&ada.repo("demo", "/branch_protections"), &rule).await.expect(201);
    let fields = [("path", "b.txt"), ("content", HOSTILE)];
    shows(&submit(&ada, &format!("{path}/_new/main"), &fields, &[]).await.expect(403), &[ESCAPED, "protected branch"]);
    let fields = [("path", "a.txt"), ("content", "three\n"), ("new_branch", "fix/a")];
    leads(&submit(&ada, &edit, &fields, &[]).await, &format!("{path}/pulls/new/main...fix/a"));
    assert_eq!(content(&ada, "a.txt").await, HOSTILE.as_bytes());

    // Without the right, the session, or the branch.
    for (user, token, status) in [(ada.clone(), "00", 403), (cluster.anonymous(), token.as_str(), 401)] {
        let kept = send(&user, with(token, &[])).await.expect(status);
        shows(&kept, &[ESCAPED, "Not saved"]);
    }
    let gone = format!("{path}/_new/none");
    let fields = [("form_token", token.as_str()), ("path", "x"), ("content", HOSTILE)];
    shows(&send_parts(&ada, &gone, &fields, &[]).await.expect(404), &[ESCAPED, "Not saved"]);
}

async fn files_are_uploaded_in_one_commit(cluster: &Cluster) {
    let (ada, path) = repository(cluster, &[("docs/a.bin", "old")]).await;
    let upload = format!("{path}/_upload/main/docs");
    shows(&page(&ada, &format!("{path}/src/branch/main/docs")).await.expect(200), &[&format!("href=\"{upload}\"")]);
    let files = [("a.bin", &b"\0\r\n\xff"[..]), ("b <b>.txt", b"text\n")];
    let sent = submit(&ada, &upload, &[("path", "docs"), ("message", "Two files")], &files).await;
    leads(&sent, &format!("{path}/src/branch/main/docs"));
    assert_eq!(content(&ada, "docs/a.bin").await, b"\0\r\n\xff");
    assert_eq!(content(&ada, "docs/b%20%3Cb%3E.txt").await, b"text\n");
    assert_eq!(commits(&ada).await, 2);
    let kept = [("path", "docs"), ("message", "Kept <b>")];
    let nothing = submit(&ada, &upload, &kept, &[]).await.expect(422);
    shows(&nothing, &["select at least one file", "Kept &#60;b&#62;"]);
    shows(&submit(&ada, &upload, &kept, &[(".git", b"x")]).await.expect(422), &["docs/.git", "Kept &#60;b&#62;"]);
}

async fn files_are_found_by_words(cluster: &Cluster) {
    let (ada, path) = repository(cluster, &[("src/<b>&.rs", "x"), ("src/main.rs", "x"), ("README.md", "x")]).await;
    let find = format!("{path}/find/branch/main");
    for visitor in [&ada, &cluster.anonymous()] {
        let found = page(visitor, &format!("{find}?q=RS+src")).await.expect(200);
        shows(
            &found,
            &["src/main.rs</a>", "src/&#60;b&#62;&#38;.rs</a>", &format!("{path}/src/branch/main/src/main.rs")],
        );
        assert!(!found.text().contains("README.md"));
        shows(&page(visitor, &find).await.expect(200), &["Type words"]);
        shows(&page(visitor, &format!("{find}?q=none")).await.expect(200), &["No file"]);
        page(visitor, &format!("{path}/find/main?q=main")).await.expect(200);
        page(visitor, &format!("{path}/find/branch/none")).await.expect(404);
    }
}

async fn branches_and_tags_are_changed_by_forms(cluster: &Cluster) {
    let (ada, path) = repository(cluster, &[("a.txt", "one\n")]).await;
    let branches = format!("{path}/branches");
    let made = send(&ada, &branches, &[("new_branch_name", "feature/one"), ("old_ref_name", "main")]).await;
    leads(&made, &format!("{path}/src/branch/feature/one"));
    for (name, from) in [("feature/one", "main"), ("a..b", ""), ("two", "none")] {
        let refused = send(&ada, &branches, &[("new_branch_name", name), ("old_ref_name", from)]).await.expect(422);
        shows(&refused, &["<details class=\"box\" open>", &format!("value=\"{name}\"")]);
    }
    let rename = format!("{branches}/rename?name=feature%2Fone");
    shows(&page(&ada, &branches).await.expect(200), &[&rename]);
    let fields = [("name", "feature/one"), ("new_name", "a..b")];
    shows(&send(&ada, &rename, &fields).await.expect(422), &["value=\"a..b\"", "flash bad"]);
    leads(&send(&ada, &rename, &[("name", "feature/one"), ("new_name", "feature/two")]).await, &branches);
    ada.get(&ada.repo("demo", "/branches/feature/two")).await.expect(200);

    let tags = format!("{path}/tags");
    let fields = [("tag_name", "v1"), ("target", "feature/two"), ("message", "First <b>")];
    leads(&send(&ada, &tags, &fields).await, &tags);
    let delete = format!("{tags}/delete?name=v1");
    shows(&page(&ada, &tags).await.expect(200), &["First &#60;b&#62;", &delete]);
    shows(&send(&ada, &tags, &fields).await.expect(422), &["value=\"v1\"", "First &#60;b&#62;</textarea>"]);
    let eve = cluster.outsider().await;
    for (list, question) in [(&branches, &rename), (&tags, &delete)] {
        assert!(!page(&eve, list).await.expect(200).text().contains("<details class=\"box\""));
        page(&eve, question).await.expect(404);
    }
    leads(&send(&ada, &delete, &[("name", "v1")]).await, &tags);
    ada.get(&ada.repo("demo", "/tags/v1")).await.expect(404);
}

async fn only_writers_change_files(cluster: &Cluster) {
    let (ada, path) = repository(cluster, &[("a.txt", "one\n")]).await;
    ada.post(&ada.repo("demo", "/tags"), &json!({"tag_name": "v1"})).await.expect(201);
    let (eve, nobody) = (cluster.outsider().await, cluster.anonymous());
    let file = format!("{path}/src/branch/main/a.txt");
    shows(&page(&eve, &file).await.expect(200), &["Fork to edit", &format!("{path}/fork")]);
    for (visitor, shown) in [(&ada, format!("{path}/src/tag/v1/a.txt")), (&eve, file.clone()), (&nobody, file)] {
        let html = page(visitor, &shown).await.expect(200).text();
        assert!(!html.contains("/_edit/") && !html.contains("/_delete/"), "{shown}");
    }
    for form in ["_edit/main/a.txt", "_new/main", "_delete/main/a.txt", "_upload/main"] {
        let form = format!("{path}/{form}");
        let token = field(&page(&ada, &form).await.expect(200).text(), "form_token");
        page(&eve, &form).await.expect(403);
        assert!(page(&nobody, &form).await.expect(303).header("location").contains("/user/login"));
        let own = field(&page(&eve, &format!("{path}/fork")).await.expect(200).text(), "form_token");
        let fields = |token| [("form_token", token), ("path", "x"), ("content", "typed")];
        for (user, token) in [(&eve, &own), (&eve, &token), (&ada, &own)] {
            send_parts(user, &form, &fields(token.as_str()), &[]).await.expect(403);
        }
    }
    assert_eq!(commits(&ada).await, 1);
    ada.patch(&ada.repo("demo", ""), &json!({"private": true})).await.expect(200);
    for hidden in ["_edit/main/a.txt", "_new/main", "find/branch/main"] {
        page(&eve, &format!("{path}/{hidden}")).await.expect(404);
    }
}
