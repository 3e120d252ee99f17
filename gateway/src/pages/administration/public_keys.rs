//! The SSH keys of a user.

use askama::Template;

use super::users::{UserHead, UserTab, find};
use super::{AdministratorForm, AdministratorVisit, Part};
use crate::pages::error::{PageResult, render};
use crate::pages::form::Fields;
use crate::pages::layout::Content;
use crate::pages::public_keys::{self, KeyOwner, PublicKeys};
use crate::pages::visit::Visit;

#[derive(Template)]
#[template(path = "administration/public_keys.html")]
struct KeysPage {
    head: UserHead,
    keys: String,
}

impl Content for KeysPage {
    fn title(&self) -> String {
        format!("SSH keys of {}", self.head.name)
    }
}

pub(super) async fn show(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    page(&visit, None, "").await
}

async fn page(visit: &Visit, sent: Option<&Fields>, error: &str) -> PageResult {
    let path = format!("users/{}/keys", visit.segment(3));
    let (user, keys) = tokio::try_join!(find(visit), PublicKeys::read(visit, KeyOwner::User, &path, sent))?;
    let head = UserHead::new(&user.account.login, UserTab::PublicKeys);
    Part::Users.page(visit, &KeysPage { head, keys: render(&keys)? }, error)
}

/// Adds or removes a key.
pub(super) async fn change(AdministratorForm { visit, fields }: AdministratorForm) -> PageResult {
    let path = format!("admin/users/{}/keys", visit.segment(3));
    match public_keys::change(&visit, KeyOwner::User, &path, &fields).await {
        Ok(_) => Ok(visit.redirect(&UserHead::new(&visit.name(3), UserTab::PublicKeys).path())),
        Err(error) => page(&visit, Some(&fields), &error.mistake()?).await,
    }
}
