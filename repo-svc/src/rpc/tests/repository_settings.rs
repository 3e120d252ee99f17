//! Settings of repositories, archived repositories, and former names. On both databases.

use std::time::Duration;

use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::ServiceRole;
use ferrite_proto::error::{detail, violations};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{RepositoryAction, RepositoryUpdated};
use ferrite_proto::operation::{CREATE_ISSUE, LIST_ISSUES, PUT_CONTENTS, RECEIVE_PACK, UPLOAD_PACK};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::resolve_issue_access_request::Account;
use ferrite_proto::repo::{
    DeleteRepositoryRequest, GetRepositoryRequest, Repository, RepositoryRef, ResolveAccessRequest,
    ResolveIssueAccessRequest, SearchRepositoriesRequest, UpdateRepositoryRequest,
};
use tonic::{Code, Request, Status};

use super::{by_name, refusal, refused};
use crate::testing::{Harness, StoreMode, with_token};

fn of(owner: &str, name: &str) -> UpdateRepositoryRequest {
    UpdateRepositoryRequest { repository: by_name(owner, name), ..UpdateRepositoryRequest::default() }
}

fn renamed(owner: &str, name: &str, new: &str) -> UpdateRepositoryRequest {
    UpdateRepositoryRequest { name: Some(new.to_owned()), ..of(owner, name) }
}

async fn update(harness: &Harness, token: &str, request: UpdateRepositoryRequest) -> Result<Repository, Status> {
    let response = harness.repository().update_repository(with_token(request, token)).await?;
    Ok(response.into_inner().repository.unwrap())
}

pub(super) async fn get(harness: &Harness, token: &str, owner: &str, name: &str) -> Result<Repository, Status> {
    let request = GetRepositoryRequest { repository: by_name(owner, name) };
    Ok(harness.repository().get_repository(with_token(request, token)).await?.into_inner().repository.unwrap())
}

/// The `owner/name` that a former name redirects to.
#[track_caller]
pub(super) fn moved_to(outcome: Result<Repository, Status>) -> String {
    let status = outcome.unwrap_err();
    assert_eq!(refusal::<()>(Err(status.clone())), refused(Code::NotFound, "REPOSITORY_MOVED"));
    format!("{}/{}", detail(&status, "owner").unwrap(), detail(&status, "name").unwrap())
}

/// Waits for `count` `RepositoryUpdated` events.
pub(super) async fn told(harness: &Harness, count: usize) -> Vec<RepositoryUpdated> {
    for _ in 0..2000 {
        let facts = harness.events().into_iter().filter_map(|event| match event.fact {
            Some(Fact::RepositoryUpdated(fact)) => Some(fact),
            _ => None,
        });
        let facts: Vec<_> = facts.collect();
        if facts.len() >= count {
            return facts;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{count} events did not arrive");
}

pub(super) async fn log(harness: &Harness, action: &str) -> Vec<String> {
    let sql = "SELECT actor || ' ' || target || ' ' || details FROM audit_log WHERE action = $1 ORDER BY id";
    let rows: Vec<(String,)> = harness.db().await.all(sql, &args![action]).await.unwrap();
    rows.into_iter().map(|(row,)| row).collect()
}

#[tokio::test]
async fn what_is_set_is_changed_and_told_and_recorded_once() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        harness.create(&ada, "Demo", false).await.unwrap();
        let before = get(&harness, &ada, "ada", "demo").await.unwrap();
        assert_eq!(update(&harness, &ada, of("ada", "demo")).await.unwrap(), before);
        let same = UpdateRepositoryRequest { is_private: Some(false), ..renamed("ada", "demo", "Demo") };
        assert_eq!(update(&harness, &ada, same).await.unwrap(), before);
        assert_eq!(log(&harness, "repository.update").await, [""; 0]);

        let all = UpdateRepositoryRequest {
            description: Some("Some Words".to_owned()),
            website: Some("https://example.com".to_owned()),
            is_private: Some(true),
            is_archived: Some(true),
            default_branch: Some("dev".to_owned()),
            ..renamed("ada", "demo", "Other")
        };
        let changed = update(&harness, &ada, all).await.unwrap();
        assert_eq!((changed.name.as_str(), changed.description.as_str()), ("Other", "Some Words"));
        assert_eq!((changed.website.as_str(), changed.default_branch.as_str()), ("https://example.com", "dev"));
        assert_eq!((changed.is_private, changed.is_archived, changed.size_bytes), (true, true, 4_711));
        assert_eq!(get(&harness, &ada, "ADA", "OTHER").await.unwrap(), changed);

        let facts = told(&harness, 3).await;
        let actions: Vec<_> = facts.iter().map(|fact| (fact.action(), fact.old_name.as_str())).collect();
        assert_eq!(
            actions,
            [
                (RepositoryAction::Renamed, "Demo"),
                (RepositoryAction::Visibility, ""),
                (RepositoryAction::Archived, "")
            ]
        );
        assert!(facts.iter().all(|fact| fact.repository.as_ref().unwrap().name == "Other" && fact.user_id > 0));
        assert_eq!(
            log(&harness, "repository.update").await,
            ["ada ada/Other {\"archived\":\"true\",\"fields\":\"name,description,website,private,archived,default_branch\",\
              \"old_name\":\"Demo\",\"private\":\"true\"}"]
        );
        // Search finds the new text and not the old name.
        for (query, expected) in [("other", 1), ("some word", 1), ("demo", 0)] {
            let request = SearchRepositoriesRequest {
                query: query.to_owned(),
                page: 1,
                page_size: 10,
                ..SearchRepositoriesRequest::default()
            };
            let found = harness.repository().search_repositories(with_token(request, &ada)).await.unwrap();
            assert_eq!(found.into_inner().total_count, expected, "{query}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_that_is_taken_and_a_branch_that_does_not_exist_change_nothing() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        for name in ["one", "two"] {
            harness.create(&ada, name, false).await.unwrap();
        }
        let before = get(&harness, &ada, "ada", "one").await.unwrap();
        let taken = UpdateRepositoryRequest { is_private: Some(true), ..renamed("ada", "one", "TWO") };
        for default_branch in [None, Some("dev".to_owned())] {
            let request = UpdateRepositoryRequest { default_branch, ..taken.clone() };
            let refusal = refusal(update(&harness, &ada, request).await);
            assert_eq!(refusal, refused(Code::AlreadyExists, "REPOSITORY_ALREADY_EXISTS"));
        }
        let absent = UpdateRepositoryRequest {
            default_branch: Some("absent".to_owned()),
            description: Some("new".to_owned()),
            ..of("ada", "one")
        };
        let status = update(&harness, &ada, absent).await.unwrap_err();
        assert_eq!((status.code(), violations(&status)[0].0.as_str()), (Code::InvalidArgument, "default_branch"));
        harness.set_store(StoreMode::Down);
        let unreachable = UpdateRepositoryRequest { default_branch: Some("dev".to_owned()), ..of("ada", "one") };
        let refusal = refusal(update(&harness, &ada, unreachable).await);
        assert_eq!(refusal, refused(Code::Unavailable, "STORE_UNAVAILABLE"));
        assert_eq!(get(&harness, &ada, "ada", "one").await.unwrap(), before);
        assert_eq!(log(&harness, "repository.update").await, [""; 0]);
        // A change of case alone creates no redirect.
        assert_eq!(update(&harness, &ada, renamed("ada", "one", "ONE")).await.unwrap().name, "ONE");
        let (count,): (i64,) = harness.db().await.one("SELECT COUNT(*) FROM repository_redirects", &[]).await.unwrap();
        assert_eq!(count, 0);
    })
    .await;
}

#[tokio::test]
async fn of_simultaneous_renames_to_one_name_one_wins() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        for number in 0..4 {
            harness.create(&ada, &format!("n{number}"), false).await.unwrap();
        }
        let rename = async |number: i32| update(&harness, &ada, renamed("ada", &format!("n{number}"), "same")).await;
        let outcomes = tokio::join!(rename(0), rename(1), rename(2), rename(3));
        let outcomes: [_; 4] = outcomes.into();
        let (mut losers, mut winner) = (0, None);
        for (number, outcome) in (0..).zip(outcomes) {
            match outcome {
                Ok(repository) => winner = Some((number, repository)),
                Err(status) => {
                    let refusal = refusal::<()>(Err(status));
                    assert_eq!(refusal, refused(Code::AlreadyExists, "REPOSITORY_ALREADY_EXISTS"));
                    losers += 1;
                }
            }
        }
        assert_eq!(losers, 3);
        let (number, repository) = winner.unwrap();
        assert_eq!(get(&harness, &ada, "ada", "same").await.unwrap(), repository);
        assert_eq!(moved_to(get(&harness, &ada, "ada", &format!("n{number}")).await), "ada/same");
    })
    .await;
}

#[tokio::test]
async fn a_former_name_leads_those_who_may_see_it_to_the_repository() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        harness.create(&ada, "one", true).await.unwrap();
        update(&harness, &ada, renamed("ada", "one", "two")).await.unwrap();
        update(&harness, &ada, renamed("ada", "two", "three")).await.unwrap();
        for name in ["one", "ONE", "two"] {
            assert_eq!(moved_to(get(&harness, &ada, "ada", name).await), "ada/three");
            for token in [bob.as_str(), ""] {
                let hidden = get(&harness, token, "ada", name).await.unwrap_err();
                let missing = get(&harness, token, "ada", "never").await.unwrap_err();
                assert_eq!((hidden.message(), hidden.details()), (missing.message(), missing.details()));
            }
        }
        // git follows the redirect, and the grant is for the repository.
        let mut request = ResolveAccessRequest {
            repository: by_name("ada", "one"),
            operation: UPLOAD_PACK.to_owned(),
            follow_redirect: true,
            ..ResolveAccessRequest::default()
        };
        let response = harness.access().resolve_access(with_token(request.clone(), &ada)).await.unwrap().into_inner();
        assert_eq!(response.repository.unwrap().name, "three");
        let hidden = harness.access().resolve_access(with_token(request.clone(), &bob)).await;
        assert_eq!(refusal(hidden), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
        request.follow_redirect = false;
        let refused_here = harness.access().resolve_access(with_token(request, &ada)).await;
        assert_eq!(refusal(refused_here), refused(Code::NotFound, "REPOSITORY_MOVED"));
        // Renamed back to a former name: its redirect is gone.
        update(&harness, &ada, renamed("ada", "three", "one")).await.unwrap();
        assert_eq!(get(&harness, &ada, "ada", "one").await.unwrap().name, "one");
        assert_eq!(moved_to(get(&harness, &ada, "ada", "three").await), "ada/one");
    })
    .await;
}

#[tokio::test]
async fn a_repository_takes_a_former_name_over_for_good() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        harness.create(&ada, "old", false).await.unwrap();
        update(&harness, &ada, renamed("ada", "old", "new")).await.unwrap();
        let second = harness.create(&ada, "old", false).await.unwrap();
        assert_eq!(get(&harness, &ada, "ada", "old").await.unwrap().id, second.id);
        let delete = DeleteRepositoryRequest { repository: by_name("ada", "old") };
        harness.repository().delete_repository(with_token(delete, &ada)).await.unwrap();
        let outcome = get(&harness, &ada, "ada", "old").await;
        assert_eq!(refusal(outcome), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
        // Former names of a deleted repository do not redirect.
        update(&harness, &ada, renamed("ada", "new", "newer")).await.unwrap();
        let delete = DeleteRepositoryRequest { repository: by_name("ada", "newer") };
        harness.repository().delete_repository(with_token(delete, &ada)).await.unwrap();
        assert_eq!(refusal(get(&harness, &ada, "ada", "new").await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    })
    .await;
}

#[tokio::test]
async fn the_newest_hundred_former_names_are_kept() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        harness.create(&ada, "n0", false).await.unwrap();
        for number in 1..=102 {
            let request = renamed("ada", &format!("n{}", number - 1), &format!("n{number}"));
            update(&harness, &ada, request).await.unwrap();
        }
        for (number, is_kept) in [(0, false), (1, false), (2, true), (101, true)] {
            let outcome = get(&harness, &ada, "ada", &format!("n{number}")).await;
            let reason = if is_kept { "REPOSITORY_MOVED" } else { "REPOSITORY_NOT_FOUND" };
            assert_eq!(refusal(outcome), refused(Code::NotFound, reason), "{number}");
        }
    })
    .await;
}

#[tokio::test]
async fn features_are_switched_with_the_other_settings_and_the_time_of_archiving_is_kept() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        harness.create(&ada, "demo", false).await.unwrap();
        let features = |repository: &Repository| (repository.has_issues, repository.has_wiki);
        let set = async |has_issues, has_wiki| {
            let request = UpdateRepositoryRequest { has_issues, has_wiki, ..of("ada", "demo") };
            update(&harness, &ada, request).await.unwrap()
        };
        assert_eq!(features(&set(None, None).await), (true, true));
        assert_eq!(features(&set(Some(false), None).await), (false, true));
        assert_eq!(features(&set(Some(false), Some(false)).await), (false, false));
        let sql = "UPDATE repositories SET is_external_tracker = $1, external_tracker_url = $2";
        harness.db().await.execute(sql, &args![true, "https://bugs.example.com"]).await.unwrap();
        let external = set(Some(false), Some(true)).await;
        assert_eq!((features(&external), external.external_tracker.is_some()), ((false, true), true));
        let own = set(Some(true), None).await;
        assert_eq!((features(&own), own.external_tracker.is_some()), ((true, true), false));
        let fields = ["has_issues", "has_wiki", "has_wiki", "has_issues"];
        let expected = fields.map(|field| format!("ada ada/demo {{\"fields\":\"{field}\"}}"));
        assert_eq!(log(&harness, "repository.update").await, expected);

        let archive = async |is_archived, description: &str| {
            let description = Some(description.to_owned());
            let request = UpdateRepositoryRequest { is_archived: Some(is_archived), description, ..of("ada", "demo") };
            update(&harness, &ada, request).await.unwrap().archive_time
        };
        let first = archive(true, "one").await;
        assert!(first.is_some());
        harness.db().await.execute("UPDATE repositories SET archived_us = archived_us - 5000000", &[]).await.unwrap();
        let earlier = first.map(|time| time.seconds - 5);
        assert_eq!(archive(true, "two").await.map(|time| time.seconds), earlier);
        assert_eq!(archive(false, "two").await, None);
        assert!(archive(true, "two").await.map(|time| time.seconds) > earlier);
    })
    .await;
}

#[tokio::test]
async fn an_archived_repository_is_read_and_set_and_nothing_else() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        let id = harness.create(&ada, "demo", false).await.unwrap().id;
        let archive = |is_archived| UpdateRepositoryRequest { is_archived: Some(is_archived), ..of("ada", "demo") };
        let may = async |token: &str, operation: &str| {
            let request = ResolveAccessRequest {
                repository: by_name("ada", "demo"),
                operation: operation.to_owned(),
                ..ResolveAccessRequest::default()
            };
            let outcome = harness.access().resolve_access(with_token(request, token)).await;
            outcome.map(drop).map_err(|status| refusal::<()>(Err(status)))
        };
        let issues = async |to_change: bool| {
            let request = ResolveIssueAccessRequest {
                repositories: vec![RepositoryRef::by_id(id)],
                account: Some(Account::Username("ada".to_owned())),
                to_change,
                with_pulls: false,
            };
            let mut client = AccessServiceClient::new(harness.channel_of(ServiceRole::IssueSvc));
            client.resolve_issue_access(Request::new(request)).await.unwrap().into_inner().accesses.len()
        };
        update(&harness, &ada, archive(true)).await.unwrap();
        for token in [&ada, &root] {
            for operation in [LIST_ISSUES, UPLOAD_PACK] {
                assert_eq!(may(token, operation).await, Ok(()), "{operation}");
            }
            for operation in [CREATE_ISSUE, PUT_CONTENTS, RECEIVE_PACK] {
                let expected = Err(refused(Code::PermissionDenied, "REPOSITORY_ARCHIVED"));
                assert_eq!(may(token, operation).await, expected, "{operation}");
            }
        }
        assert_eq!((issues(false).await, issues(true).await), (1, 0));
        update(&harness, &ada, archive(false)).await.unwrap();
        assert_eq!((may(&ada, RECEIVE_PACK).await, issues(true).await), (Ok(()), 1));
        let actions: Vec<_> = told(&harness, 2).await.iter().map(RepositoryUpdated::action).collect();
        assert_eq!(actions, [RepositoryAction::Archived, RepositoryAction::Unarchived]);
    })
    .await;
}
