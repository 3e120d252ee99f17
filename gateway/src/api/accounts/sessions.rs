//! Sessions of the caller in the web pages.

use ferrite_api_types::convert::MissingField;
use ferrite_api_types::shape;
use ferrite_proto::operation;
use ferrite_proto::repo::{self, DeleteSessionRequest, ListSessionsRequest};
use serde::Serialize;

use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::Params;
use crate::http::request::Time;
use crate::http::response::{List, NoContent};

operations! {
    "/api/v1/user/sessions" => get list as operation::LIST_SESSIONS;
    "/api/v1/user/sessions/{id}" => delete remove as operation::DELETE_SESSION;
}

shape! {
    /// A session in the web pages.
    #[derive(Clone, Debug, Serialize)]
    struct Session {
        id: i64,
        /// The time of the sign-in.
        created_at: Time,
        /// The approximate time of the last use.
        last_used_at: Time,
        /// When the session ends at the latest.
        expires_at: Time,
        /// The address of the client that signed in; empty if unknown.
        address: String,
        /// What the browser called itself at the sign-in.
        user_agent: String,
        /// Whether this request was made with the session.
        is_current: bool,
    }
}

impl Session {
    fn new(session: repo::Session) -> Result<Self, MissingField> {
        Ok(Self {
            id: session.id,
            created_at: Time::new(session.create_time, "create_time")?,
            last_used_at: Time::new(session.last_use_time, "last_use_time")?,
            expires_at: Time::new(session.expire_time, "expire_time")?,
            address: session.address,
            user_agent: session.user_agent,
            is_current: session.is_current,
        })
    }
}

async fn list(Authenticated(call): Authenticated, query: WholeList) -> ApiResult<List<Session>> {
    let request = call.request(ListSessionsRequest { page: query.page.number, page_size: query.page.size });
    let response = call.clients.sessions().list_sessions(request).await?.into_inner();
    let sessions = response.sessions.into_iter().map(Session::new).collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(sessions, response.total_count, &call.links))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(DeleteSessionRequest { session_id: path.id("id") });
    call.clients.sessions().delete_session(request).await?;
    Ok(NoContent)
}
