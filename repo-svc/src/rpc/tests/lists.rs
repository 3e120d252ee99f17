use ferrite_proto::repo::{ListRepositoriesRequest, SearchRepositoriesRequest, SearchUsersRequest};
use tonic::Code;

use super::{refusal, refused};
use crate::testing::{Harness, with_token};

#[tokio::test]
async fn an_organization_is_listed_as_one_and_a_user_is_not() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", false).await.unwrap();
    let sql = "UPDATE users SET kind = 'organization' WHERE id IN (SELECT id FROM users WHERE name = 'guild')";
    harness.user("guild", false).await;
    harness.db().await.execute(sql, &[]).await.unwrap();
    let list = async |owner: &str, is_organization: bool| {
        let request = ListRepositoriesRequest { owner: owner.into(), page: 1, page_size: 10, is_organization };
        harness.repository().list_repositories(with_token(request, &ada)).await
    };
    assert_eq!(list("ada", false).await.unwrap().into_inner().total_count, 1);
    assert_eq!(list("guild", true).await.unwrap().into_inner().total_count, 0);
    assert_eq!(list("guild", false).await.unwrap().into_inner().total_count, 0);
    for owner in ["ada", "unknown", "../x"] {
        assert_eq!(refusal(list(owner, true).await), refused(Code::NotFound, "ORGANIZATION_NOT_FOUND"), "{owner}");
    }
    assert_eq!(refusal(list("unknown", false).await), refused(Code::NotFound, "USER_NOT_FOUND"));
}

#[tokio::test]
async fn characters_special_to_an_index_are_literal_in_a_search() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "near-miss", false).await.unwrap();
    let search = async |query: &str| {
        let request = SearchRepositoriesRequest { query: query.into(), page: 1, page_size: 10, ..Default::default() };
        let response = harness.repository().search_repositories(with_token(request, "")).await.unwrap();
        let request = SearchUsersRequest { query: query.into(), page: 1, page_size: 10, user_id: 0 };
        let users = harness.account().search_users(with_token(request, "")).await.unwrap();
        (response.into_inner().total_count, users.into_inner().total_count)
    };
    assert_eq!(search("near").await, (1, 0));
    assert_eq!(search("-mi").await, (1, 0));
    assert_eq!(search("ada").await, (0, 1));
    for odd in
        ["near OR miss", "near*", "\"near\"", "name_key:near", "^near", "near\" OR \"a", "NEAR(near miss)", "(", "'"]
    {
        assert_eq!(search(odd).await, (0, 0), "{odd}");
    }
}
