use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{AddEmailsRequest, DeleteEmailsRequest, ListEmailsRequest};

use super::access::Attempt;
use super::operation;
use crate::auth::Signed;
use crate::dto::Email;
use crate::http::body::{JSON_BYTES, Payload};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::routes::routes;
use crate::state::Gateway;

/// The field of the bodies here; a bare list is taken for it.
const EMAILS: &str = "emails";

routes! { Gateway:
    "/api/v1/user/emails" =>
        get list as operation::LIST_EMAILS,
        post add as operation::ADD_EMAILS,
        delete remove as operation::DELETE_EMAILS;
}

async fn list(State(gateway): State<Gateway>, Signed(call): Signed, query: Query) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = call.request(ListEmailsRequest { page: page.number, page_size: page.size });
    let answer = gateway.clients.profiles().list_emails(request).await?.into_inner();
    let emails: Vec<_> = answer.emails.into_iter().map(Email::from).collect();
    Ok(json::page(emails, query.headers(page, answer.total_count, &gateway.links)))
}

async fn add(State(gateway): State<Gateway>, Signed(call): Signed, payload: Payload) -> Result<Response, ApiError> {
    let fields = payload.fields_or_list(&gateway, JSON_BYTES, EMAILS).await;
    let attempt = Attempt::of(operation::ADD_EMAILS);
    let decode =
        gateway.checked(&call, attempt, fields, |fields| AddEmailsRequest { emails: fields.required_texts(EMAILS) });
    let request = call.request(decode.await?);
    let answer = gateway.clients.profiles().add_emails(request).await?.into_inner();
    Ok(json::created(answer.emails.into_iter().map(Email::from).collect::<Vec<_>>()))
}

async fn remove(State(gateway): State<Gateway>, Signed(call): Signed, payload: Payload) -> Result<Response, ApiError> {
    let fields = payload.fields_or_list(&gateway, JSON_BYTES, EMAILS).await;
    let attempt = Attempt::of(operation::DELETE_EMAILS);
    let decode = gateway.checked(&call, attempt, fields, |fields| DeleteEmailsRequest { emails: fields.texts(EMAILS) });
    let request = call.request(decode.await?);
    gateway.clients.profiles().delete_emails(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
