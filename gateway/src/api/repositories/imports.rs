//! Imports of repositories from other hosts. A request waits for the import to finish, unless the
//! client prefers not to (RFC 7240).

use std::time::Duration;

use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::schema::{Schema, Schemas, Shape};
use ferrite_api_types::{Repository, Time, shape, word_shape};
use ferrite_proto::MAX_MIRROR_INTERVAL_SECS;
use ferrite_proto::error::reason;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    GetMigrationRequest, GetMigrationResponse, ListMigrationsRequest, MigrateRepositoryRequest, Migration,
    MigrationPhase,
};
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tonic::Code;

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::describe::{Description, Output, Success};
use crate::http::error::{ApiError, ApiResult};
use crate::http::headers::{HeaderNames, Headers};
use crate::http::page::ExtensionList;
use crate::http::path::Params;
use crate::http::request::{
    AccountName, Fields, Flag, Integer, JsonObject, Mistakes, NonEmpty, Optional, OrDefault, RequestBody, Required,
    Seconds, Text, Word, fields,
};
use crate::http::response::{Accepted, Created, Either, Json, List};
use crate::http::words::words;
use crate::upstream::clients::LONG_CALL_DEADLINE;

/// Longest wait of one call to repo-svc, below the deadline of a call.
const MAX_CALL_WAIT_SECONDS: u64 = 10;
/// How long a waiting request tolerates an outage of repo-svc, and the pause between attempts.
const MAX_OUTAGE: Duration = Duration::from_secs(60);
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
const PREFER: &str = "prefer";
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: &str = "respond-async";

operations! {
    "/api/v1/repos/migrate" => post import as operation::MIGRATE_REPOSITORY;
    "/api/v1/repos/migrations/{id}" => get get as operation::GET_MIGRATION;
    "/api/v1/user/migrations" => get list as operation::LIST_MIGRATIONS;
}

words! {
    /// Programs at the remote, each with whether Gitea imports more than git data from it.
    enum RemoteProgram: bool {
        "git" = false,
        "github" = true,
        "gitea" = true,
        "gitlab" = true,
        "gogs" = true,
        "forgejo" = true,
        "onedev" = true,
        "gitbucket" = true,
        "codebase" = true,
        "codecommit" = true,
    }
}

fields! {
    /// What clients of Gitea ask for besides the code, and what is not imported here. As there,
    /// `true` has no effect for a mirror and for `git`. Otherwise it is an error.
    struct OtherParts {
        /// Not supported: must be false.
        lfs: OrDefault<Flag> = false,
        /// Not imported.
        issues: OrDefault<Flag> = false,
        /// Not imported.
        labels: OrDefault<Flag> = false,
        /// Not imported.
        milestones: OrDefault<Flag> = false,
        /// Not imported.
        pull_requests: OrDefault<Flag> = false,
        /// Not imported.
        releases: OrDefault<Flag> = false,
    }
}

fields! {
    /// A repository to import: its git data, and that of its wiki.
    struct NewImport {
        ..parts: OtherParts,
        clone_addr: Required<Text<2048>> = "https://example.com/bob/demo.git",
        /// The id of the owner. Either this or `repo_owner` is required.
        uid: NonEmpty<Integer> = 3,
        /// The name of the owner, which counts before `uid`.
        repo_owner: NonEmpty<AccountName> = "bob",
        repo_name: Required<Text<100>> = "demo",
        auth_username: OrDefault<Text<1024>> = "bob",
        auth_password: OrDefault<Text<1024>> = "correct horse battery staple",
        auth_token: OrDefault<Text<1024>> = "0123456789abcdef",
        /// The program at the remote. Only git data is imported from every one.
        service: NonEmpty<Word<RemoteProgram>> = "git",
        /// Whether to keep the repository in sync with the remote as a mirror.
        mirror: OrDefault<Flag> = true,
        /// The interval between two syncs of a mirror, from 10 minutes to 365 days: a Go duration or
        /// a number of seconds. The default, also for 0, is 8 hours.
        mirror_interval: NonEmpty<Seconds<MAX_MIRROR_INTERVAL_SECS>> = "8h0m0s",
        /// Whether only callers with access can see the repository.
        private: OrDefault<Flag> = true,
        description: OrDefault<Text<512>> = "A demonstration.",
        /// Whether to import the wiki too, if there is one. The default is true.
        wiki: Optional<Flag> = true,
    }
}

/// [`NewImport`] with the rules between its fields.
struct CheckedImport(NewImport);

impl Fields for CheckedImport {
    fn read(object: &mut JsonObject, mistakes: &mut Mistakes) -> Option<Self> {
        let is_empty = |value: &Value| value.is_null() || *value == json!(0) || *value == json!("");
        let has_owner =
            ["uid", "repo_owner"].iter().any(|name| object.get(*name).is_some_and(|value| !is_empty(value)));
        let new = NewImport::read(object, mistakes);
        if !has_owner {
            mistakes.note("uid", "required", "this or `repo_owner` is required");
        }
        let new = new?;
        for name in new.unavailable_parts() {
            mistakes.note(name, "invalid", "is not imported");
        }
        Some(Self(new))
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        NewImport::schema(schemas)
    }
}

impl NewImport {
    fn unavailable_parts(&self) -> impl Iterator<Item = &'static str> {
        let OtherParts { lfs, issues, labels, milestones, pull_requests, releases } = self.parts;
        let is_import_of_all = !self.mirror && self.service.unwrap_or_default();
        let asked = [
            ("issues", issues),
            ("labels", labels),
            ("milestones", milestones),
            ("pull_requests", pull_requests),
            ("releases", releases),
        ];
        let asked = asked.into_iter().filter(move |(_, is_asked)| is_import_of_all && *is_asked);
        lfs.then_some("lfs").into_iter().chain(asked.map(|(name, _)| name))
    }
}

impl From<NewImport> for MigrateRepositoryRequest {
    fn from(new: NewImport) -> Self {
        Self {
            clone_addr: new.clone_addr,
            uid: new.uid.unwrap_or_default(),
            repo_owner: new.repo_owner.unwrap_or_default(),
            repo_name: new.repo_name,
            auth_username: new.auth_username,
            auth_password: new.auth_password,
            auth_token: new.auth_token,
            is_mirror: new.mirror,
            mirror_interval_seconds: new.mirror_interval.unwrap_or_default(),
            is_private: new.private,
            description: new.description,
            includes_wiki: new.wiki.unwrap_or(true),
        }
    }
}

word_shape! {
    /// The phase of an import.
    #[derive(Clone, Copy, Debug)]
    enum Phase {
        Queued = "queued",
        Fetching = "fetching",
        Indexing = "indexing",
        Done = "done",
        Failed = "failed",
    }
}

impl Phase {
    fn new(phase: MigrationPhase) -> Result<Self, MissingField> {
        match phase {
            MigrationPhase::Queued => Ok(Self::Queued),
            MigrationPhase::Fetching => Ok(Self::Fetching),
            MigrationPhase::Indexing => Ok(Self::Indexing),
            MigrationPhase::Done => Ok(Self::Done),
            MigrationPhase::Failed => Ok(Self::Failed),
            MigrationPhase::Unspecified => Err(MissingField("phase")),
        }
    }
}

shape! {
    /// An import of a repository from another host.
    #[derive(Clone, Debug, Serialize)]
    struct Import {
        id: i64,
        /// The repository, `owner/name`, as it was called when the import started.
        repository: String,
        phase: Phase,
        /// The number of received objects.
        objects: i64,
        /// The number of received bytes.
        bytes: i64,
        /// Why the import failed; empty if it did not.
        error: String,
        created_at: Time,
        finished_at: Option<Time>,
    }
}

impl Import {
    fn new(import: Migration) -> Result<Self, MissingField> {
        Ok(Self {
            id: import.id,
            phase: Phase::new(import.phase())?,
            repository: import.full_name,
            objects: import.object_count,
            bytes: import.received_bytes,
            error: import.error,
            created_at: Time::new(import.create_time, "create_time")?,
            finished_at: Time::optional(import.finish_time, "finish_time")?,
        })
    }
}

enum Preferring {}

impl HeaderNames for Preferring {
    const HEADERS: &'static [(&'static str, &'static str)] = &[(
        "Prefer",
        "`respond-async` requests a response before the import finishes, `respond-async, wait=10` after at most 10 seconds.",
    )];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Preferences {
    /// Whether the client wants a response before the import finishes.
    is_async: bool,
    /// How long the client wants to wait nevertheless.
    wait: Option<Duration>,
}

impl Preferences {
    fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
        let mut preferences = Self::default();
        for preference in values.flat_map(|value| value.split(',')) {
            // Ignore parameters after a semicolon.
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

    fn wait(self, max: Duration) -> Duration {
        match (self.is_async, self.wait) {
            (true, wait) => wait.unwrap_or(Duration::ZERO).min(max),
            (false, _) => max,
        }
    }
}

/// 202 with an import that is still running, and its URL.
struct Continued {
    import: Import,
    location: HeaderValue,
    /// Whether the client asked for this response.
    is_async: bool,
}

impl IntoResponse for Continued {
    fn into_response(self) -> Response {
        let mut response = Accepted(self.import).into_response();
        response.headers_mut().insert(LOCATION, self.location);
        if self.is_async {
            response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static(RESPOND_ASYNC));
        }
        response
    }
}

impl Output for Continued {
    fn describe(about: &mut Description) {
        about.responses.push(Success::json(202, Import::schema).with_headers(&["Location", "Preference-Applied"]));
    }
}

/// Imports a repository. Responds with the repository, or with the import if it is still running
/// after the wait.
async fn import(
    Authenticated(call): Authenticated,
    headers: Headers<Preferring>,
    body: RequestBody<CheckedImport>,
) -> ApiResult<Either<Created<Repository>, Continued>> {
    let check = PermissionCheck::of(operation::MIGRATE_REPOSITORY);
    let CheckedImport(new) = call.checked_body(check, body).await?;
    let request = with_timeout(call.request(MigrateRepositoryRequest::from(new)), LONG_CALL_DEADLINE);
    let started = call.clients.imports().migrate_repository(request).await?.into_inner();
    let started = require(started.migration, "migration")?;
    let preferences = Preferences::of(&headers.map);
    let wait = preferences.wait(call.import_wait);
    let ended = if wait.is_zero() { None } else { call.import_end(started.id, wait).await? };
    let Some(GetMigrationResponse { migration: import, repository }) = ended else {
        return Ok(Either::Second(continued(&call, Import::new(started)?, preferences)?));
    };
    let import = require(import, "migration")?;
    match (import.phase(), repository) {
        (MigrationPhase::Done, Some(repository)) => Ok(Either::First(call.created_repository(Some(repository))?)),
        (MigrationPhase::Done, None) => Err(ApiError::repository_not_found()),
        _ => Err(ApiError::invalid_field("clone_addr", "invalid", import.error)),
    }
}

fn continued(call: &ApiCall, import: Import, preferences: Preferences) -> ApiResult<Continued> {
    let location = call.links.api(&format!("/repos/migrations/{}", import.id));
    let location = HeaderValue::try_from(location).map_err(|_| ApiError::internal())?;
    Ok(Continued { import, location, is_async: preferences.is_async })
}

impl ApiCall {
    /// Waits for an import to finish; `None` if it is still running after `wait`, or if this
    /// process stops.
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
                // The import continues while repo-svc restarts.
                Err(status) if is_outage(&status) && heard.elapsed() < MAX_OUTAGE => {
                    tokio::time::sleep(OUTAGE_PAUSE).await;
                }
                Err(status) => return Err(status.into()),
            }
        }
        Ok(None)
    }
}

fn is_outage(status: &tonic::Status) -> bool {
    reason(status).is_none()
        || matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Internal)
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<Import>> {
    let request = call.request(GetMigrationRequest { migration_id: path.id("id"), wait_seconds: 0 });
    let response = call.clients.imports().get_migration(request).await?.into_inner();
    Ok(Json(Import::new(require(response.migration, "migration")?)?))
}

async fn list(Authenticated(call): Authenticated, query: ExtensionList) -> ApiResult<List<Import>> {
    let request = ListMigrationsRequest { page: query.page.number, page_size: query.page.size };
    let request = call.request(request);
    let response = call.clients.imports().list_migrations(request).await?.into_inner();
    let imports = response.migrations.into_iter().map(Import::new).collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(imports, response.total_count, &call.links))
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
