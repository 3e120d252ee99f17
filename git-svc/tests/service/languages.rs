//! Languages, counted by the running service.

use ferrite_core::testing::eventually;
use ferrite_proto::{
    events::event::Fact,
    git::{DeleteRepositoryRequest, GetLanguagesRequest, GetLanguagesResponse, SetDefaultBranchRequest},
};

use crate::harness::{Service, put_request, reason};

async fn languages(service: &Service, id: i64) -> GetLanguagesResponse {
    let request = GetLanguagesRequest { repository_id: id };
    service.data().get_languages(service.with_grant(id, request)).await.unwrap().into_inner()
}

/// Returns the languages once those of `commit` are counted.
async fn of_commit(service: &Service, id: i64, commit: &str) -> Vec<(String, i64)> {
    eventually("the commit is counted", async || languages(service, id).await.commit_id == commit).await;
    let found = languages(service, id).await.languages;
    found.into_iter().map(|language| (language.name, language.size_bytes)).collect()
}

fn told(service: &Service, id: i64) -> Vec<String> {
    let facts = service.facts(id).into_iter();
    facts.filter_map(|fact| if let Fact::LanguageChanged(told) = fact { Some(told.language) } else { None }).collect()
}

#[tokio::test]
async fn languages_follow_the_default_branch_and_repo_svc_is_told_the_largest() {
    let mut service = Service::start().await;
    let id = service.create().await;
    assert_eq!(languages(&service, id).await, GetLanguagesResponse::default());
    let first = service.put(id, "src/a.rs", b"12345").await;
    let rust = |bytes| ("Rust".to_owned(), bytes);
    assert_eq!(of_commit(&service, id, &first).await, [rust(5)]);
    let mut script = put_request(id, "a.py", b"1234567");
    script.branch = "topic".into();
    let topic = service.git().put_contents(service.with_grant(id, script)).await.unwrap().into_inner();
    let second = service.put(id, "b.c", b"1").await;
    assert_eq!(of_commit(&service, id, &second).await, [rust(5), ("C".to_owned(), 1)]);
    let request = SetDefaultBranchRequest {
        repository_id: id,
        default_branch: "topic".into(),
        ..SetDefaultBranchRequest::default()
    };
    service.storage().set_default_branch(request).await.unwrap();
    let topic = topic.commit.unwrap().id;
    assert_eq!(of_commit(&service, id, &topic).await, [("Python".to_owned(), 7), rust(5)]);
    eventually("the event for repo-svc", async || told(&service, id) == ["Rust", "Python"]).await;

    // Nothing is counted again after a restart.
    service.stop().await;
    service.launch().await;
    assert_eq!(languages(&service, id).await.commit_id, topic);
    service.storage().delete_repository(DeleteRepositoryRequest { repository_id: id }).await.unwrap();
    let gone = service.data().get_languages(service.with_grant(id, GetLanguagesRequest { repository_id: id })).await;
    assert_eq!(reason(&gone.unwrap_err()), "REPOSITORY_NOT_FOUND");
}
