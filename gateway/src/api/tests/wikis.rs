//! Requests about pages of wikis.

use ferrite_proto::git::{self, WikiPage, WikiPageContent};
use ferrite_proto::repo;
use serde_json::{Value, json};

use super::git_data::{ACCESS, Case, commit, not_found};

const WIKIS: &str = "ferrite.git.v1.WikiService";

fn page() -> WikiPage {
    let last_commit = Some(commit('c'));
    WikiPage {
        title: "a-b".into(),
        name: "a-b.-".into(),
        path: b"a-b.-.md".to_vec(),
        last_commit,
        ..Default::default()
    }
}

fn content() -> Option<WikiPageContent> {
    Some(WikiPageContent { page: Some(page()), content: Some(b"one".to_vec()), commit_count: 2, ..Default::default() })
}

#[tokio::test]
async fn a_page_is_named_as_it_was_sent() {
    let case = Case::new().await;
    let rpc = format!("{WIKIS}/GetWikiPage");
    case.script.respond(&rpc, &git::GetWikiPageResponse { page: content() });
    for sent in ["a-b.-", "a%2Fb", "100%25+x"] {
        let (status, shown, _) = case.send("GET", &format!("/wiki/page/{sent}"), &Value::Null).await;
        assert_eq!((status, &shown["content_base64"], &shown["commit_count"]), (200, &json!("b25l"), &json!(2)));
        assert!(shown.get("truncated").is_none());
        case.check_request(&rpc, git::GetWikiPageRequest { repository_id: 7, name: sent.into() });
    }
    let long = WikiPageContent { page: Some(page()), ..Default::default() };
    case.script.respond(&rpc, &git::GetWikiPageResponse { page: Some(long) });
    let (_, shown, _) = case.send("GET", "/wiki/page/a", &Value::Null).await;
    assert_eq!((&shown["content_base64"], &shown["truncated"]), (&json!(""), &json!(true)));
    case.script.fail(&rpc, not_found("WIKI_PAGE_NOT_FOUND"));
    assert_eq!(case.send("GET", "/wiki/page/a", &Value::Null).await.0, 404);
}

#[tokio::test]
async fn pages_and_revisions_are_counted() {
    let case = Case::new().await;
    let (pages, revisions) = (format!("{WIKIS}/ListWikiPages"), format!("{WIKIS}/ListWikiRevisions"));
    case.script.respond(&pages, &git::ListWikiPagesResponse { pages: vec![page()], total_count: 9 });
    let (_, shown, link) = case.send("GET", "/wiki/pages?limit=1&page=2", &Value::Null).await;
    assert_eq!((&shown[0]["sub_url"], &shown[0]["last_commit"]["sha"]), (&json!("a-b.-"), &json!("c".repeat(40))));
    assert!(link.contains("page=3") && shown[0].get("content_base64").is_none(), "{link}");
    case.check_request(&pages, git::ListWikiPagesRequest { repository_id: 7, page: 2, page_size: 1 });
    let found = git::ListWikiRevisionsResponse { commits: vec![commit('a')], total_count: 3 };
    case.script.respond(&revisions, &found);
    let (_, shown, _) = case.send("GET", "/wiki/revisions/a-b.-", &Value::Null).await;
    assert_eq!((&shown["count"], &shown["commits"][0]["sha"]), (&json!(3), &json!("a".repeat(40))));
    let expected = git::ListWikiRevisionsRequest { repository_id: 7, name: "a-b.-".into(), page: 1, page_size: 30 };
    case.check_request(&revisions, expected);
}

#[tokio::test]
async fn a_page_is_written_as_the_body_says() {
    let case = Case::new().await;
    let rpc = |name: &str| format!("{WIKIS}/{name}WikiPage");
    case.script.respond(&rpc("Create"), &git::CreateWikiPageResponse { page: content() });
    case.script.respond(&rpc("Update"), &git::UpdateWikiPageResponse { page: content() });
    case.script.respond(&rpc("Delete"), &git::DeleteWikiPageResponse {});
    let new = json!({"title": "a-b", "content_base64": "b25l", "message": "m"});
    assert_eq!(case.send("POST", "/wiki/new", &new).await.0, 201);
    let (title, content, message) = ("a-b".into(), "one".into(), "m".into());
    case.check_request(&rpc("Create"), git::CreateWikiPageRequest { repository_id: 7, title, content, message });
    let unchanged = git::UpdateWikiPageRequest { repository_id: 7, name: "a".into(), ..Default::default() };
    for (body, expected) in [
        (json!({"title": "b"}), git::UpdateWikiPageRequest { title: "b".into(), ..unchanged.clone() }),
        (json!({"content_base64": ""}), git::UpdateWikiPageRequest { content: Some("".into()), ..unchanged.clone() }),
        (json!({"sha": "s", "content_base64": null}), {
            git::UpdateWikiPageRequest { expected_blob_id: "s".into(), ..unchanged }
        }),
    ] {
        assert_eq!(case.send("PATCH", "/wiki/page/a", &body).await.0, 200, "{body}");
        case.check_request(&rpc("Update"), expected);
    }
    assert_eq!(case.send("DELETE", "/wiki/page/a", &Value::Null).await.0, 204);
    case.check_request(&rpc("Delete"), git::DeleteWikiPageRequest { repository_id: 7, name: "a".into() });
}

#[tokio::test]
async fn a_raw_file_is_asked_for_on_the_wiki() {
    let case = Case::new().await;
    case.script.fail(ACCESS, not_found("WIKI_NOT_FOUND"));
    assert_eq!(case.send("GET", "/wiki/raw/a.png", &Value::Null).await.0, 404);
    assert!(case.script.take_request::<repo::ResolveAccessRequest>(ACCESS).unwrap().is_wiki);
}
