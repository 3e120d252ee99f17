/// Limit for the users on a page of followers or followed users.
pub(super) const MAX_FOLLOWS_PAGE_SIZE: i32 = 40;
/// Limit for the e-mail addresses in one request.
pub(super) const MAX_EMAILS_PER_REQUEST: usize = 100;
