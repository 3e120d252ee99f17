use ferrite_db::testing::on_each_url;
use ferrite_proto::Scope;
use ferrite_proto::repo::GetRepositoriesRequest;
use tonic::{Code, Status};

use super::organizations::narrow;
use crate::testing::{Harness, with_token};

async fn get(harness: &Harness, token: &str, repository_ids: Vec<i64>) -> Result<Vec<String>, Status> {
    let request = with_token(GetRepositoriesRequest { repository_ids }, token);
    let found = harness.repository().get_repositories(request).await?.into_inner().repositories;
    Ok(found.into_iter().map(|repository| repository.name).collect())
}

#[tokio::test]
async fn of_many_repositories_the_caller_gets_those_to_read() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let open = harness.create(&ada, "open", false).await.unwrap().id;
        let closed = harness.create(&ada, "closed", true).await.unwrap().id;
        let ids = vec![closed, 999, open, open, 0, -1];
        assert_eq!(get(&harness, &ada, ids.clone()).await.unwrap(), ["open", "closed"]);
        assert_eq!(get(&harness, &bob, ids.clone()).await.unwrap(), ["open"]);
        assert_eq!(get(&harness, &bob, Vec::new()).await.unwrap(), [""; 0]);
        assert_eq!(get(&harness, "", ids.clone()).await.unwrap(), ["open"]);
        let too_many = get(&harness, &bob, (0..101).collect()).await.unwrap_err();
        assert_eq!(too_many.code(), Code::InvalidArgument);
        narrow(&harness, "test", &[Scope::Issue]).await;
        assert_eq!(get(&harness, &ada, ids).await.unwrap(), ["open"], "without the scope `repo:read`");
    })
    .await;
}
