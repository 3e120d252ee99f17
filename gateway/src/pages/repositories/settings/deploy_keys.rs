//! SSH keys that open one repository.

use super::{Section, administered};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form};
use crate::pages::public_keys::{self, KeyOwner, PublicKeys};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::visit::Visit;

pub(super) async fn show(visit: Visit) -> PageResult {
    let at = administered(visit).await?;
    page(&at, None, "").await
}

async fn page(at: &RepositoryVisit, sent: Option<&Fields>, error: &str) -> PageResult {
    let keys = PublicKeys::read(&at.visit, KeyOwner::Repository, &api_path(at), sent).await?;
    Section::DeployKeys.page(at, &keys, error)
}

/// Adds or removes a key.
pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let at = administered(visit).await?;
    match public_keys::change(&at.visit, KeyOwner::Repository, &api_path(&at), &fields).await {
        Ok(_) => Ok(Section::DeployKeys.saved(&at)),
        Err(error) => page(&at, Some(&fields), &error.refusal()?).await,
    }
}

fn api_path(at: &RepositoryVisit) -> String {
    format!("{}/keys", at.repository.api())
}
