//! API commits whose branch moves while they are made. To make that certain, a git program moves
//! the branch before it runs `update-ref`, and a lock file of the ref makes the service run git
//! instead of writing the ref itself.

use std::path::PathBuf;

use ferrite_core::testing::script;
use ferrite_proto::git::{GetContentsRequest, PutContentsRequest, get_contents_response::Contents};
use tonic::Code;

use crate::harness::{Service, put_request, reason};

/// A service whose git program moves `main` before each change of refs.
pub(crate) struct Race {
    pub(crate) service: Service,
    pub(crate) id: i64,
    /// The commits that `main` moves to, one per line: one before each change of refs.
    moves: PathBuf,
}

/// Shell script of the git program. `$moves` and `$lock` are set before.
const GIT: &str = r#"
case "$*" in *' update-ref '*) ;; *) exec git "$@";; esac
rm -f "$lock"
if [ -s "$moves" ]; then
  git --git-dir=. update-ref refs/heads/main "$(head -n 1 "$moves")"
  sed -i 1d "$moves"
fi
git "$@"
status=$?
if [ -s "$moves" ]; then : > "$lock"; fi
exit $status
"#;

impl Race {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (program, moves) = (folder.path().join("git"), folder.path().join("moves"));
        script(&program, &format!("moves='{}' lock=refs/heads/main.lock\n{GIT}", moves.display()));
        let program = format!("--git-program={}", program.display());
        let service = Service::start_with(folder, &[&program]).await;
        let id = service.create().await;
        Self { service, id, moves }
    }

    /// Makes `main` move to these commits, one before each of the next ref changes.
    pub(crate) fn before_each(&self, commits: &[String]) {
        std::fs::write(&self.moves, commits.join("\n") + "\n").unwrap();
        // Without this lock file the service would write the ref without git.
        std::fs::write(self.service.on_disk(self.id).path().join("refs/heads/main.lock"), "").unwrap();
    }
}

/// Makes commits on top of `tip`, each with another file. Returns their ids.
pub(crate) fn others(service: &Service, id: i64, tip: &str, names: &[&str]) -> Vec<String> {
    let repo = service.on_disk(id);
    let mut parent = repo.find_commit(tip.parse().unwrap()).unwrap();
    let mut made = Vec::new();
    for name in names {
        let mut tree = repo.treebuilder(Some(&parent.tree().unwrap())).unwrap();
        tree.insert(name, repo.blob(b"other").unwrap(), 0o100_644).unwrap();
        let tree = repo.find_tree(tree.write().unwrap()).unwrap();
        let who = git2::Signature::new("Eve", "eve@example.com", &git2::Time::new(0, 0)).unwrap();
        let id = repo.commit(None, &who, &who, name, &tree, &[&parent]).unwrap();
        parent = repo.find_commit(id).unwrap();
        made.push(id.to_string());
    }
    made
}

async fn names(service: &Service, id: i64) -> Vec<String> {
    let request = GetContentsRequest { repository_id: id, ..GetContentsRequest::default() };
    let found = service.git().get_contents(service.with_grant(id, request)).await.unwrap().into_inner();
    let Some(Contents::Directory(directory)) = found.contents else { panic!("{found:?}") };
    directory.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
}

fn blob(content: &[u8]) -> String {
    git2::Oid::hash_object(git2::ObjectType::Blob, content).unwrap().to_string()
}

#[tokio::test]
async fn a_commit_whose_branch_moved_is_made_again_on_top() {
    let race = Race::start().await;
    let (service, id) = (&race.service, race.id);
    let tip = service.put(id, "a", b"a").await;
    let moved = others(service, id, &tip, &["x", "y"]);
    race.before_each(&moved);
    let put = service.with_grant(id, put_request(id, "b", b"b"));
    let made = service.git().put_contents(put).await.unwrap().into_inner().commit.unwrap();
    assert_eq!(made.parent_ids, [moved[1].clone()]);
    assert_eq!(names(service, id).await, ["a", "b", "x", "y"]);
    service.updates(id, 2).await;
}

#[tokio::test]
async fn the_expected_blob_must_still_be_there_when_the_branch_moved() {
    let race = Race::start().await;
    let (service, id) = (&race.service, race.id);
    let tip = service.put(id, "a", b"a").await;
    let named = PutContentsRequest { expected_blob_id: blob(b"a"), ..put_request(id, "a", b"new") };
    // Another file changed, so the commit is made again.
    race.before_each(&others(service, id, &tip, &["x"]));
    let made = service.git().put_contents(service.with_grant(id, named.clone())).await.unwrap().into_inner();
    let tip = made.commit.unwrap().id;
    // The same file changed, so the commit is rejected.
    race.before_each(&others(service, id, &tip, &["a"]));
    let again = PutContentsRequest { expected_blob_id: blob(b"new"), content: Some(b"newer".to_vec().into()), ..named };
    let error = service.git().put_contents(service.with_grant(id, again.clone())).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::Aborted, "STALE_BLOB"));
    let now = PutContentsRequest { expected_blob_id: blob(b"other"), ..again };
    service.git().put_contents(service.with_grant(id, now)).await.unwrap();
    assert_eq!(names(service, id).await, ["a", "x"]);
    service.updates(id, 3).await;
}

#[tokio::test]
async fn a_commit_to_a_branch_that_keeps_moving_is_refused() {
    let race = Race::start().await;
    let (service, id) = (&race.service, race.id);
    let tip = service.put(id, "a", b"a").await;
    let moved = others(service, id, &tip, &["1", "2", "3", "4", "5", "6"]);
    race.before_each(&moved);
    let put = put_request(id, "b", b"b");
    let error = service.git().put_contents(service.with_grant(id, put.clone())).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::Aborted, "BRANCH_MOVED"));
    service.git().put_contents(service.with_grant(id, put)).await.unwrap();
    assert_eq!(names(service, id).await.len(), 8);
    service.updates(id, 2).await;
}
