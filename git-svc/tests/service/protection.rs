use ferrite_proto::git::{DeleteRepositoryRequest, SetProtectionRequest};

use crate::{
    push::{Gateway, git, try_git},
    writes::{protect, rule},
};

#[tokio::test]
async fn a_protected_branch_cannot_be_forced_or_deleted() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let service = &gateway.service;
    let remote = gateway.remote(id);
    git(&work, &["push", &remote, "main", "main:release/1", "main:topic"]).await;
    protect(service, rule(id, "release/*")).await;
    git(&work, &["commit", "-q", "--allow-empty", "-m", "more"]).await;
    git(&work, &["push", &remote, "main:release/1", "main:release/2"]).await;
    for push in [["push", "--force", &remote, "main~2:release/1"], ["push", "-q", &remote, ":release/1"]] {
        let (succeeded, text) = try_git(&work, &push).await;
        assert!(!succeeded && text.contains("protected branch: "), "{text}");
    }
    // The rule binds owners too. A rejected ref does not stop the others, except in an atomic push.
    let owner = gateway.remote_as(id, 9, "owner");
    let both = ["push", "--force", &owner, "main~2:release/1", "main~1:topic"];
    let (succeeded, text) = try_git(&work, &both).await;
    assert!(!succeeded && text.contains("force pushes are not allowed"), "{text}");
    let atomic = ["push", "--force", "--atomic", &owner, "main~2:release/1", "main:topic"];
    assert!(!try_git(&work, &atomic).await.0);
    let ids = [git(&work, &["rev-parse", "main"]).await, git(&work, &["rev-parse", "main~1"]).await];
    let listed = git(&work, &["ls-remote", &remote]).await;
    assert!(listed.contains(&format!("{}\trefs/heads/release/1", ids[0])), "{listed}");
    assert!(listed.contains(&format!("{}\trefs/heads/topic", ids[1])), "{listed}");
    let open = SetProtectionRequest { allow_force: true, allow_delete: true, ..rule(id, "release/*") };
    protect(service, open).await;
    git(&work, &["push", "--force", &remote, "main~2:release/1", ":release/2"]).await;
}

#[tokio::test]
async fn only_listed_users_and_owners_push() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let service = &gateway.service;
    git(&work, &["push", &gateway.remote(id), "main~2:refs/heads/main"]).await;
    protect(service, SetProtectionRequest { push_user_ids: vec![8], ..rule(id, "*") }).await;
    for refs in ["main", "main:new", "main:refs/heads/other"] {
        let (succeeded, text) = try_git(&work, &["push", &gateway.remote(id), refs]).await;
        assert!(!succeeded && text.contains("you are not allowed to push to it"), "{text}");
    }
    git(&work, &["push", &gateway.remote(id), "main:refs/tags/v1"]).await;
    git(&work, &["push", &gateway.remote_as(id, 8, "write"), "main~1:refs/heads/main"]).await;
    git(&work, &["push", &gateway.remote_as(id, 9, "owner"), "main"]).await;
    assert_eq!(git(&work, &["ls-remote", "--heads", &gateway.remote(id)]).await.lines().count(), 1);
    service.storage().delete_repository(DeleteRepositoryRequest { repository_id: id }).await.unwrap();
}
