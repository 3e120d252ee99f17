//! Comments on issues.

mod create_comment;
mod delete_comment;
mod get_comment;
mod list_comments;
mod update_comment;

use ferrite_kit::service;
use ferrite_proto::issue::comment_service_server::CommentService;
use ferrite_proto::issue::*;

use super::IssueRpc;

use self::create_comment::create_comment;
use self::delete_comment::delete_comment;
use self::get_comment::get_comment;
use self::list_comments::list_comments;
use self::update_comment::update_comment;

service!(CommentService for IssueRpc {
    list_comments(ListCommentsRequest) -> ListCommentsResponse;
    get_comment(GetCommentRequest) -> GetCommentResponse;
    create_comment(CreateCommentRequest) -> CreateCommentResponse;
    update_comment(UpdateCommentRequest) -> UpdateCommentResponse;
    delete_comment(DeleteCommentRequest) -> DeleteCommentResponse;
});
