//! Settings of the caller's own account, as Gitea has them, and the password, which Gitea's API
//! does not change.

use axum::http::StatusCode;
use ferrite_api_types::convert::require;
use ferrite_api_types::shape;
use ferrite_proto::operation;
use ferrite_proto::repo::{self, ChangePasswordRequest, GetUserSettingsRequest, UpdateUserSettingsRequest};
use serde::Serialize;

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, BasicAuth, operations};
use crate::http::body_limits::MAX_UNVERIFIED_BODY_BYTES;
use crate::http::error::{ApiError, ApiResult};
use crate::http::request::{Checked, Flag, Optional, RequestBody, Text, Unsupported, fields};
use crate::http::response::{Json, NoContent};

operations! {
    "/api/v1/user/settings" =>
        get get as operation::GET_USER_SETTINGS,
        patch update as operation::UPDATE_USER_SETTINGS;
    "/api/v1/user/password" => put change_password as operation::CHANGE_PASSWORD;
}

fields! {
    /// Changed settings.
    struct ChangedUserSettings {
        full_name: Optional<Text<100>> = "Ada Lovelace",
        website: Optional<Text<50>> = "https://example.com",
        location: Optional<Text<50>> = "London",
        description: Optional<Text<255>> = "Writes programs.",
        /// True if only the user and administrators of the site see the user's activities.
        hide_activity: Optional<Flag> = false,
        /// Must be false: signed-in users see the addresses of others.
        hide_email: Unsupported<Flag> = false,
        /// Must be empty, because there is one language.
        language: Unsupported<Text<50>> = "",
        /// Must be empty: pages follow the colors of the browser.
        theme: Unsupported<Text<50>> = "",
        /// Must be empty, because there is one style.
        diff_view_style: Unsupported<Text<50>> = "",
    }
}

fields! {
    /// The new password. The old one is checked together with the request.
    #[max_bytes = MAX_UNVERIFIED_BODY_BYTES]
    struct NewPassword {
        /// 8 to 255 characters.
        password: Checked<Text<255>> = "correct horse battery staple",
    }
}

shape! {
    /// The settings of a user.
    #[derive(Clone, Debug, Serialize)]
    struct UserSettings {
        full_name: String,
        website: String,
        location: String,
        description: String,
        /// True if only the user and administrators of the site see the user's activities.
        hide_activity: bool,
    }
}

impl From<repo::UserSettings> for UserSettings {
    fn from(settings: repo::UserSettings) -> Self {
        Self {
            full_name: settings.full_name,
            website: settings.website,
            location: settings.location,
            description: settings.description,
            hide_activity: settings.hides_activity,
        }
    }
}

async fn get(Authenticated(call): Authenticated) -> ApiResult<Json<UserSettings>> {
    let request = call.request(GetUserSettingsRequest {});
    let response = call.clients.user_settings().get_user_settings(request).await?.into_inner();
    Ok(Json(require(response.settings, "settings")?.into()))
}

async fn update(
    Authenticated(call): Authenticated,
    body: RequestBody<ChangedUserSettings>,
) -> ApiResult<Json<UserSettings>> {
    let check = PermissionCheck::of(operation::UPDATE_USER_SETTINGS);
    let ChangedUserSettings {
        full_name,
        website,
        location,
        description,
        hide_activity,
        hide_email: (),
        language: (),
        theme: (),
        diff_view_style: (),
    } = call.checked_body(check, body).await?;
    let request =
        UpdateUserSettingsRequest { full_name, website, location, description, hides_activity: hide_activity };
    let response = call.clients.user_settings().update_user_settings(call.request(request)).await?.into_inner();
    Ok(Json(require(response.settings, "settings")?.into()))
}

async fn change_password(
    BasicAuth(call, credential): BasicAuth,
    body: RequestBody<NewPassword>,
) -> ApiResult<NoContent> {
    let (new_password, mistake) = match body.read(&call.body_limits).await {
        Ok((NewPassword { password }, _permit)) => (password, None),
        // A wrong old password is reported first. No account can have an empty new one.
        Err(error) => (String::new(), Some(error)),
    };
    let request = ChangePasswordRequest { credential: Some(credential), new_password };
    let request = call.request_without_token(request);
    let changed = call.clients.user_settings().change_password(request).await;
    match (changed.map_err(|status| ApiError::from(status).asking_for_password()), mistake) {
        (Err(error), Some(mistake)) if error.status == StatusCode::UNPROCESSABLE_ENTITY => Err(mistake),
        (Err(error), _) => Err(error),
        (Ok(_), _) => Ok(NoContent),
    }
}
