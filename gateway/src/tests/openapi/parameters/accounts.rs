//! Accounts, their tokens, addresses, keys and pictures.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("DeleteAccessToken", "name", "string", "The name of the token, or its id."),
    (
        "GetAvatar",
        "file",
        "string",
        "The id of the account, with `.png` or `.svg` behind it for one form of a drawn picture.",
    ),
    ("IsFollowing", "target", "string", "The name of the user who may be followed."),
    ("FollowUser", "target", "string", "The name of the user to follow."),
    ("UnfollowUser", "target", "string", "The name of the user to follow no longer."),
];
