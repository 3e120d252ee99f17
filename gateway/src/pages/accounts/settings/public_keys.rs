//! The visitor's SSH keys.

use super::Section;
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form};
use crate::pages::public_keys::{self, KeyOwner, PublicKeys};
use crate::pages::visit::Visit;

/// Their path in the API.
const KEYS: &str = "user/keys";

pub(super) async fn show(visit: Visit) -> PageResult {
    visit.signed_in()?;
    page(&visit, None, "").await
}

/// `sent` is a form that was refused, and `error` says why.
async fn page(visit: &Visit, sent: Option<&Fields>, error: &str) -> PageResult {
    let keys = PublicKeys::read(visit, KeyOwner::Visitor, KEYS, sent).await?;
    Section::PublicKeys.page(visit, &keys, error)
}

/// Adds or removes a key.
pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    match public_keys::change(&visit, KeyOwner::Visitor, KEYS, &fields).await {
        Ok(_) => Ok(visit.redirect(Section::PublicKeys.path())),
        Err(error) => {
            let message = error.mistake()?;
            page(&visit, Some(&fields), &message).await
        }
    }
}
