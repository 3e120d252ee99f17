use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::{Time, User, shape};
use ferrite_proto::operation;
use ferrite_proto::repo::{self, GetAuthenticatedUserRequest, GetUserRequest, SearchUsersRequest};
use serde::Serialize;

use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::filters::{QueryOf, Search, filters};
use crate::http::page::SearchList;
use crate::http::path::Params;
use crate::http::request::Integer;
use crate::http::response::{Json, Paged, SearchResults};

operations! {
    "/api/v1/user" => get me as operation::GET_AUTHENTICATED_USER;
    "/api/v1/users/search" => get search as operation::SEARCH_USERS;
    "/api/v1/users/{username}" => get get as operation::GET_USER;
}

filters! {
    /// Filters of a user search.
    struct UserFilters {
        /// A part of the user name or full name, ignoring case and without wildcards. An empty text
        /// matches nothing.
        q: Search = "ada",
        /// Only the user with this id, whatever `q` is. 0 counts as absent.
        uid: Integer = 7,
    }
}

shape! {
    /// A user or an organization. Administrators of the site see more of users.
    #[derive(Clone, Debug, Serialize)]
    pub(crate) struct Account {
        #[serde(flatten)]
        user: User,
        /// Whether the account is an administrator of the site. Only administrators and the user
        /// see it.
        #[serde(skip_serializing_if = "Option::is_none")]
        is_admin: Option<bool>,
        #[serde(flatten)]
        profile: Option<Profile>,
        #[serde(flatten)]
        details: Option<AccountDetails>,
    }
}

shape! {
    /// The profile that a user wrote. Only administrators see it in lists.
    #[derive(Clone, Debug, Serialize)]
    struct Profile {
        website: String,
        location: String,
        description: String,
    }
}

shape! {
    /// What only administrators of the site see of a user.
    #[derive(Clone, Debug, Serialize)]
    struct AccountDetails {
        /// Whether the account can sign in.
        active: bool,
        /// Whether the account is disabled, the opposite of `active`.
        prohibit_login: bool,
        /// The name to sign in with: that of the user.
        login_name: String,
        created: Time,
    }
}

impl Account {
    pub(crate) fn new(mut user: repo::User, call: &ApiCall) -> Result<Self, MissingField> {
        let details = user.details.take().map(|details| AccountDetails::new(&details, &user.username)).transpose()?;
        let is_admin = details.as_ref().map(|_| user.is_admin);
        let profile = user.profile.take().map(Profile::from);
        Ok(Self { user: call.user(user), is_admin, profile, details })
    }

    pub(crate) fn list(users: Vec<repo::User>, call: &ApiCall) -> Result<Vec<Self>, MissingField> {
        users.into_iter().map(|user| Self::new(user, call)).collect()
    }

    pub(crate) fn username(&self) -> &str {
        &self.user.username
    }
}

impl From<repo::UserProfile> for Profile {
    fn from(profile: repo::UserProfile) -> Self {
        Self { website: profile.website, location: profile.location, description: profile.description }
    }
}

impl AccountDetails {
    fn new(details: &repo::AccountDetails, username: &str) -> Result<Self, MissingField> {
        Ok(Self {
            active: details.is_active,
            prohibit_login: !details.is_active,
            login_name: username.to_owned(),
            created: Time::new(details.create_time, "create_time")?,
        })
    }
}

async fn me(Authenticated(call): Authenticated) -> ApiResult<Json<Account>> {
    let request = call.request(GetAuthenticatedUserRequest {});
    let response = call.clients.accounts().get_authenticated_user(request).await?.into_inner();
    let user = require(response.user, "user")?;
    let is_admin = Some(user.is_admin);
    Ok(Json(Account { is_admin, ..Account::new(user, &call)? }))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: Params) -> ApiResult<Json<Account>> {
    let request = call.request(GetUserRequest { username: path.name("username") });
    let response = call.clients.accounts().get_user(request).await?.into_inner();
    Ok(Json(Account::new(require(response.user, "user")?, &call)?))
}

async fn search(
    MaybeAuthenticated(call): MaybeAuthenticated,
    query: SearchList,
    filters: QueryOf<UserFilters>,
) -> ApiResult<Paged<SearchResults<Account>>> {
    let UserFilters { q, uid } = filters.read()?;
    let (page, page_size) = (query.page.number, query.page.size);
    let request = SearchUsersRequest { query: q, page, page_size, user_id: uid.unwrap_or_default() };
    let response = call.clients.accounts().search_users(call.request(request)).await?.into_inner();
    let found = SearchResults { data: Account::list(response.users, &call)?, ok: true };
    Ok(query.paged(found, response.total_count, &call.links))
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use serde_json::{Value, json};

    use super::*;

    fn shown(
        details: Option<repo::AccountDetails>,
        profile: Option<repo::UserProfile>,
        is_admin: Option<bool>,
    ) -> Value {
        let links = Links::new("http://h", "h:22");
        let user = repo::User { id: 3, username: "bob".into(), ..repo::User::default() };
        let details = details.map(|details| AccountDetails::new(&details, "bob").unwrap());
        let profile = profile.map(Profile::from);
        serde_json::to_value(Account { user: User::new(user, &links), is_admin, profile, details }).unwrap()
    }

    #[test]
    fn an_account_is_a_user_with_what_the_caller_sees_of_it() {
        let mut expected = json!({
            "id": 3, "username": "bob", "login": "bob", "full_name": "", "email": "bob@noreply.h",
            "avatar_url": "http://h/avatars/3", "visibility": "public",
        });
        assert_eq!(shown(None, None, None), expected);
        expected["is_admin"] = json!(true);
        assert_eq!(shown(None, None, Some(true)), expected);
        let more = json!({
            "active": true, "prohibit_login": false, "login_name": "bob", "website": "", "location": "Here",
            "description": "", "created": "1970-01-01T00:00:01Z",
        });
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let create_time = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
        let details = repo::AccountDetails { is_active: true, create_time, ..Default::default() };
        let profile = repo::UserProfile { location: "Here".into(), ..Default::default() };
        assert_eq!(shown(Some(details), Some(profile), Some(true)), expected);
    }
}
