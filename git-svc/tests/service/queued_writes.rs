//! API writes that wait until another write to the repository ends. Its git program waits for a
//! file to go away before it updates refs; a lock file of the ref makes the service run git instead
//! of writing the ref itself.

use std::{path::PathBuf, pin::pin, time::Duration};

use ferrite_core::testing::{eventually, script};
use ferrite_proto::git::{
    AddTagRequest, CreateBranchRequest, DeleteBranchRequest, GetBranchRequest, ListProtectionsRequest, ListTagsRequest,
    MergeStyle, SetProtectionRequest, protection_service_client::ProtectionServiceClient,
};
use tonic::{Request, Status};

use crate::{
    harness::{Service, put_request, reason, with_token},
    merges::{Parted, merge, order},
    operations::Operation,
};

/// Longer than a write may wait without a second question to repo-svc, with time to spare for
/// requests that reach the queue late.
const WAIT: Duration = Duration::from_secs(2);

/// Shell script of the git program. `$hold`, `$held` and `$lock` are set before.
const GIT: &str = r#"
case "$*" in *' update-ref '*) ;; *) exec git "$@";; esac
while [ -e "$hold" ]; do : > "$held"; sleep 0.02; done
rm -f "$lock"
exec git "$@"
"#;

/// A service whose writes wait while the file `hold` is there.
struct Queue {
    service: Service,
    id: i64,
    hold: PathBuf,
    held: PathBuf,
}

impl Queue {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        let (program, hold, held) = (path("git"), path("hold"), path("held"));
        let files = format!("hold='{}' held='{}' lock=refs/heads/main.lock", hold.display(), held.display());
        script(&program, &format!("{files}\n{GIT}"));
        let program = format!("--git-program={}", program.display());
        let service = Service::start_with(folder, &[&program]).await;
        let id = service.create().await;
        service.put(id, "a", b"a").await;
        Self { service, id, hold, held }
    }

    /// Runs `writes` while another write holds the repository for [`WAIT`]. Returns their results.
    async fn behind_another<T>(&self, writes: impl Future<Output = T>) -> T {
        let (service, id) = (&self.service, self.id);
        let _ = std::fs::remove_file(&self.held);
        std::fs::write(&self.hold, "").unwrap();
        std::fs::write(service.on_disk(id).path().join("refs/heads/main.lock"), "").unwrap();
        let held = || eventually("the first write holds the repository", || std::future::ready(self.held.exists()));
        let waiting = async {
            held().await;
            let mut writes = pin!(writes);
            assert!(tokio::time::timeout(WAIT, writes.as_mut()).await.is_err(), "the writes did not wait");
            std::fs::remove_file(&self.hold).unwrap();
            writes.await
        };
        let (_, results) = tokio::join!(service.put(id, "first", b"first"), waiting);
        results
    }

    /// Returns a request of a user with an access token.
    fn request<T: Operation>(&self, message: T) -> Request<T> {
        let mut grant = self.service.grant(self.id, T::OPERATION);
        grant.user.as_mut().unwrap().token_id = 1;
        with_token(message, &self.service.sign(grant))
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> String {
    reason(&result.unwrap_err())
}

#[tokio::test]
async fn a_write_that_waited_has_no_effect_without_permission() {
    let queue = Queue::start().await;
    let (service, id) = (&queue.service, queue.id);
    let branch = CreateBranchRequest { repository_id: id, name: "new".into(), revision: b"main".to_vec() };
    let tag = AddTagRequest { repository_id: id, tag_name: "v1".into(), target: b"main".to_vec(), message: "1".into() };
    let other = CreateBranchRequest { name: "other".into(), ..branch.clone() };
    service.git().create_branch(service.with_grant(id, other)).await.unwrap();
    let deletion = DeleteBranchRequest { repository_id: id, name: b"other".to_vec(), ..DeleteBranchRequest::default() };
    let rule = SetProtectionRequest { repository_id: id, pattern: "main".into(), ..SetProtectionRequest::default() };
    let (mut git, mut more, mut again) = (service.git(), service.git(), service.git());
    let (mut tags, mut protections) = (service.tags(), ProtectionServiceClient::new(service.channel()));
    // repo-svc confirms no access.
    let results = queue.behind_another(async {
        tokio::join!(
            git.put_contents(queue.request(put_request(id, "b", b"b"))),
            more.create_branch(queue.request(branch)),
            again.delete_branch(queue.request(deletion)),
            tags.add_tag(queue.request(tag)),
            protections.set_protection(queue.request(rule)),
        )
    });
    let (put, made, deleted, tagged, protected) = results.await;
    let reasons = [refusal(put), refusal(made), refusal(deleted), refusal(tagged), refusal(protected)];
    assert_eq!(reasons, ["BAD_CREDENTIALS"; 5].map(str::to_owned));
    let get = |name: &str| service.with_grant(id, GetBranchRequest { repository_id: id, name: name.into() });
    let main = service.git().get_branch(get("main")).await.unwrap().into_inner().branch.unwrap();
    assert!(main.commit.unwrap().message.starts_with(b"Write first"));
    assert_eq!(refusal(service.git().get_branch(get("new")).await), "BRANCH_NOT_FOUND");
    service.git().get_branch(get("other")).await.unwrap();
    let listed = service.with_grant(id, ListTagsRequest { repository_id: id, page: 1, page_size: 1 });
    assert!(service.data().list_tags(listed).await.unwrap().into_inner().tags.is_empty());
    let rules = service.with_grant(id, ListProtectionsRequest { repository_id: id });
    assert!(protections.list_protections(rules).await.unwrap().into_inner().protections.is_empty());
}

#[tokio::test]
async fn a_write_that_waited_takes_effect_if_the_permission_stays() {
    let queue = Queue::start().await;
    let (service, id) = (&queue.service, queue.id);
    let mut git = service.git();
    service.confirm_accesses(1);
    queue.behind_another(git.put_contents(queue.request(put_request(id, "b", b"b")))).await.unwrap();
    service.updates(id, 3).await;
}

#[tokio::test]
async fn a_merge_that_waited_has_no_effect_without_permission() {
    let queue = Queue::start().await;
    let (service, id) = (&queue.service, queue.id);
    let parted = Parted::make(service, id).await;
    let permit = parted.permit(MergeStyle::Merge);
    let mut merges = service.merges();
    let waiting = merges.merge_pull(queue.request(order(service, permit.clone())));
    assert_eq!(refusal(queue.behind_another(waiting).await), "BAD_CREDENTIALS");
    // It can be repeated.
    merge(service, permit).await.unwrap();
    service.updates(id, 6).await;
}
