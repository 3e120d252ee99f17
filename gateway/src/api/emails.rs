//! The caller's e-mail addresses.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{AddEmailsRequest, DeleteEmailsRequest, ListEmailsRequest};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::Email;
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::query::Query;
use crate::http::routes::routes;

/// Name of the field of the bodies. A body that is a list counts as that field.
const EMAILS_FIELD: &str = "emails";

routes! { ApiState:
    "/api/v1/user/emails" =>
        get list as operation::LIST_EMAILS,
        post add as operation::ADD_EMAILS,
        delete remove as operation::DELETE_EMAILS;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = context.request(ListEmailsRequest { page: page.number, page_size: page.size });
    let answer = api.clients.profiles().list_emails(request).await?.into_inner();
    let emails: Vec<_> = answer.emails.into_iter().map(Email::from).collect();
    Ok(json::page(emails, query.headers(page, answer.total_count, &api.links)))
}

async fn add(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields_or_list(&api.body_limits, MAX_JSON_BYTES, EMAILS_FIELD).await;
    let check = PermissionCheck::of(operation::ADD_EMAILS);
    let decode = api.decode_fields(&context, check, fields, |fields| AddEmailsRequest {
        emails: fields.required_texts(EMAILS_FIELD),
    });
    let request = context.request(decode.await?);
    let answer = api.clients.profiles().add_emails(request).await?.into_inner();
    Ok(json::created(answer.emails.into_iter().map(Email::from).collect::<Vec<_>>()))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields_or_list(&api.body_limits, MAX_JSON_BYTES, EMAILS_FIELD).await;
    let check = PermissionCheck::of(operation::DELETE_EMAILS);
    let decode =
        api.decode_fields(&context, check, fields, |fields| DeleteEmailsRequest { emails: fields.texts(EMAILS_FIELD) });
    let request = context.request(decode.await?);
    api.clients.profiles().delete_emails(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
