//! The caller's e-mail addresses.

use ferrite_proto::operation;
use ferrite_proto::repo::{AddEmailsRequest, DeleteEmailsRequest, ListEmailsRequest};

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, routes};
use crate::dto::Email;
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::query::Query;

/// Name of the field of the bodies. A body that is a list counts as that field.
const EMAILS_FIELD: &str = "emails";

routes! {
    "/api/v1/user/emails" =>
        get list as operation::LIST_EMAILS,
        post add as operation::ADD_EMAILS,
        delete remove as operation::DELETE_EMAILS;
}

async fn list(Authenticated(call): Authenticated, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = call.request(ListEmailsRequest { page: page.number, page_size: page.size });
    let response = call.clients.profiles().list_emails(request).await?.into_inner();
    let emails: Vec<_> = response.emails.into_iter().map(Email::from).collect();
    Ok(json::page(emails, query.headers(page, response.total_count, &call.links)))
}

async fn add(Authenticated(call): Authenticated, body: JsonBody) -> ApiResult {
    let fields = body.fields_or_list(&call.body_limits, MAX_JSON_BYTES, EMAILS_FIELD).await;
    let check = PermissionCheck::of(operation::ADD_EMAILS);
    let decode =
        call.decode_fields(check, fields, |fields| AddEmailsRequest { emails: fields.required_texts(EMAILS_FIELD) });
    let request = call.request(decode.await?);
    let response = call.clients.profiles().add_emails(request).await?.into_inner();
    Ok(json::created(response.emails.into_iter().map(Email::from).collect::<Vec<_>>()))
}

async fn remove(Authenticated(call): Authenticated, body: JsonBody) -> ApiResult {
    let fields = body.fields_or_list(&call.body_limits, MAX_JSON_BYTES, EMAILS_FIELD).await;
    let check = PermissionCheck::of(operation::DELETE_EMAILS);
    let decode = call.decode_fields(check, fields, |fields| DeleteEmailsRequest { emails: fields.texts(EMAILS_FIELD) });
    let request = call.request(decode.await?);
    call.clients.profiles().delete_emails(request).await?;
    Ok(json::no_content())
}
