use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::{RepositoryLinks, encode_path};
use ferrite_api_types::{Accounts, LongTexts, shape};
use ferrite_proto::git::{
    self, CreateBranchRequest, DeleteBranchRequest, GetBranchRequest, ListBranchesRequest, RenameBranchRequest,
};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;

use super::commits::PayloadCommit;
use super::response::read_error;
use crate::api::access::Emails;
use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::RepoPath;
use crate::http::request::{OrDefault, RequestBody, Required, Text, fields};
use crate::http::response::{Created, Json, NoContent, TextList};
use crate::upstream::clients::LONG_CALL_DEADLINE;

operations! {
    "/api/v1/repos/{owner}/{repo}/branches" =>
        get list as operation::LIST_BRANCHES,
        post create as operation::CREATE_BRANCH;
    "/api/v1/repos/{owner}/{repo}/branches/{*branch}" =>
        get get as operation::GET_BRANCH,
        patch rename as operation::RENAME_BRANCH,
        delete remove as operation::DELETE_BRANCH;
}

fields! {
    /// A branch to create.
    struct NewBranch {
        /// The name of the new branch.
        new_branch_name: Required<Text<1000>> = "feature/one",
        /// The branch, tag or commit where it starts. The default is `old_branch_name`.
        old_ref_name: OrDefault<Text<1000>> = "v1.0",
        /// The branch where it starts. The default is the default branch.
        old_branch_name: OrDefault<Text<1000>> = "main",
    }
}

fields! {
    /// A new name of a branch.
    struct ChangedBranch {
        /// The new name of the branch.
        name: Required<Text<1000>> = "feature/two",
    }
}

shape! {
    /// A branch.
    #[derive(Clone, Debug, Serialize)]
    struct Branch {
        name: String,
        commit: PayloadCommit,
        /// Whether a protection rule matches the name.
        protected: bool,
    }
}

impl Branch {
    fn new(branch: git::Branch, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let commit = PayloadCommit::new(branch.commit, accounts, urls)?;
        Ok(Self { name: text(&branch.name), commit, protected: branch.is_protected })
    }
}

impl LongTexts for Branch {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        self.commit.for_each_text(visit);
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
) -> ApiResult<TextList<Branch>> {
    let access = call.access(&path, operation::LIST_BRANCHES).await?;
    let request = ListBranchesRequest { repository_id: access.id, page: query.page.number, page_size: query.page.size };
    let response =
        call.clients.git().list_branches(call.request_with_grant(&access.grant, request)).await?.into_inner();
    let emails = Emails::of(response.branches.iter().filter_map(|branch| branch.commit.as_ref()));
    let accounts = call.accounts_by_email(emails).await?;
    let branches = response.branches.into_iter().map(|branch| Branch::new(branch, &accounts, &access.urls));
    let branches = branches.collect::<Result<Vec<_>, _>>()?;
    Ok(query.text_list(branches, response.total_count, &call.links))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult<Json<Branch>> {
    let access = call.access(&path, operation::GET_BRANCH).await?;
    let request = GetBranchRequest { repository_id: access.id, name: path.rest };
    let response = call.clients.git().get_branch(call.request_with_grant(&access.grant, request)).await;
    let branch = require(response.map_err(read_error)?.into_inner().branch, "branch")?;
    let accounts = call.accounts_by_email(Emails::of(&branch.commit)).await?;
    Ok(Json(Branch::new(branch, &accounts, &access.urls)?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewBranch>,
) -> ApiResult<Created<Branch>> {
    let (access, new, _permit) = call.access_and_body(&path, operation::CREATE_BRANCH, body).await?;
    let revision = match (new.old_ref_name, new.old_branch_name) {
        (revision, branch) if revision.is_empty() && !branch.is_empty() => format!("refs/heads/{branch}"),
        (revision, _) => revision,
    };
    let request =
        CreateBranchRequest { repository_id: access.id, name: new.new_branch_name, revision: revision.into_bytes() };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().create_branch(request).await.map_err(read_error)?.into_inner();
    let branch = require(response.branch, "branch")?;
    let location = format!("{}/branches/{}", access.urls.api(), encode_path(&branch.name));
    let accounts = call.accounts_by_email_beside_caller(&access, Emails::of(&branch.commit)).await?;
    Ok(Created::at(location, Branch::new(branch, &accounts, &access.urls)?))
}

async fn rename(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<ChangedBranch>,
) -> ApiResult<NoContent> {
    let (access, changed, _permit) = call.access_and_body(&path, operation::RENAME_BRANCH, body).await?;
    let request = RenameBranchRequest { repository_id: access.id, name: path.rest, new_name: changed.name };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    call.clients.git().rename_branch(request).await.map_err(read_error)?;
    Ok(NoContent)
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::DELETE_BRANCH).await?;
    let request = DeleteBranchRequest { repository_id: access.id, name: path.rest, commit_id: String::new() };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    call.clients.git().delete_branch(request).await.map_err(read_error)?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use ferrite_proto::repo;

    use super::*;

    #[test]
    fn a_branch_has_empty_lists_and_the_author_date() {
        let links = Links::new("http://h", "h:22");
        let signature = |email: &[u8], seconds| {
            let time = Some(prost_types::Timestamp { seconds, nanos: 0 });
            Some(git::CommitSignature { name: b"Bob".to_vec(), email: email.to_vec(), time })
        };
        let commit = git::Commit {
            id: "c".repeat(40),
            author: signature(b"Bob@example.com", 1_767_315_845),
            committer: signature(b"unknown@example.com", 1_767_315_846),
            ..git::Commit::default()
        };
        let user = repo::User { id: 2, username: "bob".into(), ..Default::default() };
        let mut accounts = Accounts::default();
        let user_id_by_email = [("Bob@example.com".to_owned(), 2)].into();
        accounts.add(repo::GetUsersResponse { users: vec![user], user_id_by_email }, &links);
        let branch = git::Branch { name: b"feature/one".to_vec(), commit: Some(commit), is_protected: true };
        let branch = Branch::new(branch, &accounts, &links.repository("bob", "demo")).unwrap();
        let value = serde_json::to_value(branch).unwrap();
        assert_eq!(value["name"], "feature/one");
        assert_eq!(value["protected"], true);
        assert_eq!(value["commit"]["added"], serde_json::json!([]));
        assert_eq!(value["commit"]["timestamp"], "2026-01-02T01:04:05Z");
        assert_eq!(value["commit"]["author"]["username"], "bob");
        assert_eq!(value["commit"]["committer"]["username"], "");
        // Gitea's field names.
        assert_eq!(value["commit"]["id"], "c".repeat(40));
        assert_eq!(value["commit"]["sha"], value["commit"]["id"]);
        assert_eq!(value["commit"]["created"], "2026-01-02T01:04:06Z");
    }
}
