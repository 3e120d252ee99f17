use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("DeleteAccessToken", "name", "string", "The name of the token, or its id."),
    ("DeleteSession", "id", "integer", "The id of the session."),
    (
        "GetAvatar",
        "file",
        "string",
        "The id of the account, optionally followed by `.png` or `.svg` for the format of a generated picture.",
    ),
    ("IsFollowing", "target", "string", "The name of the other user."),
    ("FollowUser", "target", "string", "The name of the user to follow."),
    ("UnfollowUser", "target", "string", "The name of the user to unfollow."),
];
