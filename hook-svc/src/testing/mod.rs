//! Test fixtures of this crate: the service on a real socket, fake repo-svc and git-svc, and
//! recorded deliveries of Gogs.

mod fake_repo;
mod peers;
pub(crate) mod recorded;
mod service;

pub(crate) use fake_repo::{
    ADMINISTRATOR_TOKEN, ORGANIZATION, ORGANIZATION_ID, OUTSIDER_TOKEN, OWNER_TOKEN, PULLS_TOKEN_ID,
};
pub(crate) use ferrite_db::testing::{on_each_schema, on_each_url};
pub(crate) use ferrite_rpc::testing::{REPOSITORY, TestCaller, reason};
pub(crate) use peers::{FakePeers, repository};
pub(crate) use service::{Service, organization_owner, repository_owner, sealer, site_owner, with_token};
