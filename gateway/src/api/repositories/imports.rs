//! Imports of repositories from other hosts. A request to import waits for the end, unless its client prefers not to (RFC 7240).

use std::time::Duration;

use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use ferrite_proto::error::reason;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    GetMigrationRequest, GetMigrationResponse, ListMigrationsRequest, MigrateRepositoryRequest, MigrationPhase,
};
use ferrite_rpc::grpc::with_timeout;
use tokio::time::Instant;
use tonic::Code;

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{Import, require};
use crate::http::body::JsonBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::upstream::clients::LONG_CALL_DEADLINE;

/// Longest wait of one call to repo-svc: less than the deadline of a call.
const MAX_CALL_WAIT_SECONDS: u64 = 10;
/// Time for which repo-svc may not respond while a request waits, and the pause between two attempts.
const MAX_OUTAGE: Duration = Duration::from_secs(60);
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
const PREFER: &str = "prefer";
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: &str = "respond-async";

routes! {
    "/api/v1/repos/migrate" => post import as operation::MIGRATE_REPOSITORY;
    "/api/v1/repos/migrations/{id}" => get get as operation::GET_MIGRATION;
    "/api/v1/user/migrations" => get list as operation::LIST_MIGRATIONS;
}

/// The preferences of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Preferences {
    /// True if the client wants a response before the end.
    is_async: bool,
    /// The time for which it wants to wait all the same.
    wait: Option<Duration>,
}

impl Preferences {
    fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
        let mut preferences = Self::default();
        for preference in values.flat_map(|value| value.split(',')) {
            // Parameters behind a semicolon mean nothing here.
            let preference = preference.split(';').next().unwrap_or_default().trim();
            match preference.split_once('=').map(|(name, value)| (name.trim(), value.trim().trim_matches('"'))) {
                None if preference.eq_ignore_ascii_case(RESPOND_ASYNC) => preferences.is_async = true,
                Some((name, value)) if name.eq_ignore_ascii_case("wait") => {
                    preferences.wait = preferences.wait.or(value.parse().ok().map(Duration::from_secs));
                }
                _ => {}
            }
        }
        preferences
    }

    /// Returns the time for which the request waits, at most `max`.
    fn wait(self, max: Duration) -> Duration {
        match (self.is_async, self.wait) {
            (true, wait) => wait.unwrap_or(Duration::ZERO).min(max),
            (false, _) => max,
        }
    }
}

async fn import(Authenticated(call): Authenticated, headers: HeaderMap, body: JsonBody) -> ApiResult {
    let check = PermissionCheck::of(operation::MIGRATE_REPOSITORY);
    let decoded = call.decode_body(check, body, decode).await?;
    let request = with_timeout(call.request(decoded), LONG_CALL_DEADLINE);
    let started = call.clients.imports().migrate_repository(request).await?.into_inner();
    let started = require(started.migration, "migration")?;
    let preferences = Preferences::of(&headers);
    let wait = preferences.wait(call.import_wait);
    let ended = if wait.is_zero() { None } else { call.import_end(started.id, wait).await? };
    let Some(GetMigrationResponse { migration: import, repository }) = ended else {
        return accepted(&call, Import::new(started)?, preferences);
    };
    let import = require(import, "migration")?;
    match (import.phase(), repository) {
        (MigrationPhase::Done, Some(repository)) => Ok(json::created(call.repository(Some(repository))?)),
        (MigrationPhase::Done, None) => Err(ApiError::repository_not_found()),
        _ => Err(ApiError::invalid_field("clone_addr", "invalid", import.error)),
    }
}

/// Returns 202 with the address of an import that goes on.
fn accepted(call: &ApiCall, import: Import, preferences: Preferences) -> ApiResult {
    let location = format!("{}/api/v1/repos/migrations/{}", call.links.root(), import.id);
    let mut response = json::accepted(import);
    response.headers_mut().insert(LOCATION, HeaderValue::try_from(location).map_err(|_| ApiError::internal())?);
    if preferences.is_async {
        response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static(RESPOND_ASYNC));
    }
    Ok(response)
}

impl ApiCall {
    /// Waits for the end of an import; `None` if it goes on after `wait`, or this process stops.
    async fn import_end(&self, migration_id: i64, wait: Duration) -> Result<Option<GetMigrationResponse>, ApiError> {
        let deadline = Instant::now() + wait;
        let (mut heard, mut client) = (Instant::now(), self.clients.imports());
        while Instant::now() < deadline && !self.life.is_stopping() {
            let left = (deadline - Instant::now()).as_millis().div_ceil(1000);
            let left = u64::try_from(left).unwrap_or(MAX_CALL_WAIT_SECONDS).min(MAX_CALL_WAIT_SECONDS);
            let wait_seconds = i32::try_from(left).unwrap_or(0);
            let request = self.request(GetMigrationRequest { migration_id, wait_seconds });
            let response = tokio::select! {
                () = self.life.stopping() => return Ok(None),
                response = client.get_migration(request) => response,
            };
            match response {
                Ok(response) if response.get_ref().migration.as_ref().is_some_and(|one| one.finish_time.is_some()) => {
                    return Ok(Some(response.into_inner()));
                }
                Ok(_) => heard = Instant::now(),
                // The import goes on while repo-svc starts again.
                Err(status) if is_outage(&status) && heard.elapsed() < MAX_OUTAGE => {
                    tokio::time::sleep(OUTAGE_PAUSE).await;
                }
                Err(status) => return Err(status.into()),
            }
        }
        Ok(None)
    }
}

/// Returns whether the service could not be asked.
fn is_outage(status: &tonic::Status) -> bool {
    reason(status).is_none()
        || matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Internal)
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(GetMigrationRequest { migration_id: path.id("id"), wait_seconds: 0 });
    let response = call.clients.imports().get_migration(request).await?.into_inner();
    Ok(json::ok(Import::new(require(response.migration, "migration")?)?))
}

async fn list(Authenticated(call): Authenticated, query: Query) -> ApiResult {
    let page = query.page(PageLimits::EXTENSION_LIST);
    let request = call.request(ListMigrationsRequest { page: page.number, page_size: page.size });
    let response = call.clients.imports().list_migrations(request).await?.into_inner();
    let imports = response.migrations.into_iter().map(Import::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(imports, query.headers(page, response.total_count, &call.links)))
}

fn decode(fields: &mut FieldReader) -> MigrateRepositoryRequest {
    MigrateRepositoryRequest {
        clone_addr: fields.required_non_empty("clone_addr"),
        uid: fields.required_number("uid"),
        repo_name: fields.required_non_empty("repo_name"),
        auth_username: fields.text_or_empty("auth_username"),
        auth_password: fields.text_or_empty("auth_password"),
        is_mirror: fields.flag("mirror"),
        mirror_interval_seconds: fields.optional_duration("mirror_interval").unwrap_or_default(),
        is_private: fields.flag("private"),
        description: fields.text_or_empty("description"),
        includes_wiki: fields.optional_flag("wiki").unwrap_or(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferences(values: &[&'static str]) -> Preferences {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PREFER, HeaderValue::from_static(value));
        }
        Preferences::of(&headers)
    }

    #[test]
    fn a_client_waits_unless_it_prefers_not_to() {
        let seconds = Duration::from_secs;
        let max = seconds(3600);
        for (values, expected) in [
            (&[][..], max),
            (&["return=minimal"], max),
            (&["wait=5"], max),
            (&["respond-async"], Duration::ZERO),
            (&["Respond-Async; x=y"], Duration::ZERO),
            (&["return=minimal, respond-async, wait=5"], seconds(5)),
            (&["wait=5", "respond-async"], seconds(5)),
            (&["respond-async, wait=\"7\""], seconds(7)),
            (&["respond-async, wait=x"], Duration::ZERO),
            (&["respond-async, wait=99999999999"], max),
        ] {
            assert_eq!(preferences(values).wait(max), expected, "{values:?}");
        }
    }
}
