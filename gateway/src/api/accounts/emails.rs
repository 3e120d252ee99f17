use ferrite_api_types::convert::require;
use ferrite_api_types::schema::{Schema, Schemas};
use ferrite_api_types::shape;
use ferrite_proto::operation;
use ferrite_proto::repo::{self, AddEmailsRequest, DeleteEmailsRequest, ListEmailsRequest, SetPrimaryEmailRequest};
use serde::Serialize;
use serde_json::Value;

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::request::{self, Kind, Mistakes, OrDefault, RequestBody, Required, Texts, fields};
use crate::http::response::{Created, Json, List, NoContent};

operations! {
    "/api/v1/user/emails" =>
        get list as operation::LIST_EMAILS,
        post add as operation::ADD_EMAILS,
        patch set_primary as operation::SET_PRIMARY_EMAIL,
        delete remove as operation::DELETE_EMAILS;
}

/// At most 100 addresses, validated by the service.
enum Addresses {}

impl Kind for Addresses {
    type Value = Vec<String>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<String>> {
        Texts::<100>::read(name, value, mistakes)
    }

    fn is_empty(value: &Value) -> bool {
        Texts::<100>::is_empty(value)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        let mut schema = Texts::<100>::schema(schemas);
        schema["items"] = request::Email::schema(schemas);
        schema
    }
}

fields! {
    /// E-mail addresses to add.
    struct NewEmails | emails {
        emails: Required<Addresses> = ["ada@example.com"],
    }
}

fields! {
    /// E-mail addresses to remove.
    struct RemovedEmails | emails {
        emails: OrDefault<Texts<100>> = ["ada@example.com"],
    }
}

fields! {
    /// The primary e-mail address.
    struct PrimaryEmail {
        /// A verified address of the account.
        email: Required<request::Email> = "ada@example.com",
    }
}

shape! {
    /// An e-mail address.
    #[derive(Clone, Debug, Serialize)]
    struct Email {
        email: String,
        /// Whether an administrator has set or verified the address. A verified address links
        /// commits to the account.
        verified: bool,
        /// Whether commits made through the API use this address.
        primary: bool,
    }
}

impl From<repo::Email> for Email {
    fn from(email: repo::Email) -> Self {
        Self { email: email.email, verified: email.is_verified, primary: email.is_primary }
    }
}

async fn list(Authenticated(call): Authenticated, query: WholeList) -> ApiResult<List<Email>> {
    let request = call.request(ListEmailsRequest { page: query.page.number, page_size: query.page.size });
    let response = call.clients.profiles().list_emails(request).await?.into_inner();
    let emails = response.emails.into_iter().map(Email::from).collect();
    Ok(query.list(emails, response.total_count, &call.links))
}

async fn add(Authenticated(call): Authenticated, body: RequestBody<NewEmails>) -> ApiResult<Created<Vec<Email>>> {
    let NewEmails { emails } = call.checked_body(PermissionCheck::of(operation::ADD_EMAILS), body).await?;
    let request = call.request(AddEmailsRequest { emails });
    let response = call.clients.profiles().add_emails(request).await?.into_inner();
    let emails = response.emails.into_iter().map(Email::from).collect();
    Ok(Created::at(call.links.api("/user/emails"), emails))
}

async fn set_primary(Authenticated(call): Authenticated, body: RequestBody<PrimaryEmail>) -> ApiResult<Json<Email>> {
    let PrimaryEmail { email } = call.checked_body(PermissionCheck::of(operation::SET_PRIMARY_EMAIL), body).await?;
    let request = call.request(SetPrimaryEmailRequest { email });
    let response = call.clients.profiles().set_primary_email(request).await?.into_inner();
    Ok(Json(require(response.email, "email")?.into()))
}

async fn remove(Authenticated(call): Authenticated, body: RequestBody<RemovedEmails>) -> ApiResult<NoContent> {
    let RemovedEmails { emails } = call.checked_body(PermissionCheck::of(operation::DELETE_EMAILS), body).await?;
    let request = call.request(DeleteEmailsRequest { emails });
    call.clients.profiles().delete_emails(request).await?;
    Ok(NoContent)
}
