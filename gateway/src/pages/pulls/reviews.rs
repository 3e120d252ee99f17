//! Reviews with their comments on lines, as parts of other pages and as a page.

use std::collections::HashMap;

use askama::Template;
use futures_util::future::try_join_all;

use super::view::{Review, ReviewComment, ReviewState};
use super::{Head, PullTab, PullVisit};
use crate::pages::components::filters;
use crate::pages::error::{self, PageError, PageResult};
use crate::pages::form::FormToken;
use crate::pages::layout::Content;
use crate::pages::markdown::render_many;
use crate::pages::view::Account;

/// Reviews that are read.
const MAX_REVIEWS: u64 = 1_000;
/// Reviews that a page shows with their texts.
const MAX_SHOWN: usize = 100;
/// Comments on lines that one call reads.
const COMMENTS_PER_CALL: u64 = 100;
/// Calls for the newest comments of a pull request; others are on the pages of their reviews.
const MAX_COMMENT_CALLS: u64 = 3;
/// Comments that the page of a review shows.
const MAX_COMMENTS_OF_REVIEW: u64 = 500;

/// Comments by the ids of their reviews, oldest first.
pub(super) type Comments = HashMap<i64, Vec<ReviewComment>>;

/// A comment on lines, with the forms below it.
#[derive(Template)]
#[template(path = "pulls/line_comment.html")]
pub(super) struct LineComment<'a> {
    comment: &'a ReviewComment,
    html: String,
    /// The path of the pull request, and of its tab to return to.
    path: &'a str,
    tab: &'static str,
    token: &'a FormToken,
    /// Whether the lines are shown above the comment.
    with_hunk: bool,
    /// Whether its review is not submitted.
    is_pending: bool,
    can_resolve: bool,
    can_delete: bool,
}

/// A review with its comments.
#[derive(Template)]
#[template(path = "pulls/review.html")]
struct ShownReview<'a> {
    review: &'a Review,
    html: String,
    comments: Vec<String>,
    /// The page of the review, if not all comments are shown.
    rest: Option<String>,
    path: &'a str,
    token: &'a FormToken,
    can_dismiss: bool,
    can_delete: bool,
}

#[derive(Template)]
#[template(path = "pulls/review_page.html")]
struct ReviewPage<'a> {
    head: Head<'a>,
    title: String,
    review: String,
}

impl Content for ReviewPage<'_> {
    fn title(&self) -> String {
        self.title.clone()
    }
}

/// Lines of the diff that a comment is on.
struct HunkLine<'a> {
    class: &'static str,
    text: &'a str,
}

impl LineComment<'_> {
    fn hunk(&self) -> impl Iterator<Item = HunkLine<'_>> {
        self.comment.diff_hunk.lines().map(|text| {
            let class = match text.as_bytes().first() {
                Some(b'+') => "added",
                Some(b'-') => "removed",
                Some(b'@') => "hunk",
                _ => "",
            };
            HunkLine { class, text }
        })
    }
}

/// Reads the reviews of a pull request, without requests for reviews, oldest first.
pub(super) async fn list(on: &PullVisit) -> PageResult<Vec<Review>> {
    let path = format!("{}/reviews?limit={MAX_REVIEWS}", on.api());
    let mut reviews = on.visit().api.list::<Review>(&path).await?.items;
    reviews.retain(|review| review.state != ReviewState::RequestReview);
    Ok(reviews)
}

/// Returns the pending review of the visitor, which nobody else sees.
pub(super) fn pending(reviews: &[Review]) -> Option<&Review> {
    reviews.iter().find(|review| review.state == ReviewState::Pending)
}

/// Reads the newest comments on lines of a pull request.
pub(super) async fn comments(on: &PullVisit) -> PageResult<Comments> {
    if on.pull.review_comments == 0 && on.viewer().is_none() {
        return Ok(Comments::new());
    }
    // The number is without those of the visitor's pending review.
    let calls = (on.pull.review_comments / COMMENTS_PER_CALL + 1).min(MAX_COMMENT_CALLS);
    let lists = (1..=calls).map(|page| async move {
        let path = format!("{}/comments?direction=desc&limit={COMMENTS_PER_CALL}&page={page}", on.api());
        Ok::<_, PageError>(on.visit().api.list::<ReviewComment>(&path).await?.items)
    });
    let mut found: Vec<_> = try_join_all(lists).await?.into_iter().flatten().collect();
    // A new comment moves another one to the next page.
    found.sort_by_key(|comment| comment.id);
    found.dedup_by_key(|comment| comment.id);
    let mut comments = Comments::new();
    for comment in found {
        comments.entry(comment.pull_request_review_id).or_default().push(comment);
    }
    Ok(comments)
}

/// Renders submitted reviews, by their ids. Those that say nothing more than the timeline are left
/// out, unless somebody can dismiss or delete them.
pub(super) async fn render(
    on: &PullVisit,
    reviews: &[Review],
    comments: &Comments,
) -> PageResult<HashMap<i64, String>> {
    let shown: Vec<_> = reviews.iter().rev().filter(|review| is_shown(review)).take(MAX_SHOWN).collect();
    let texts = shown.iter().flat_map(|review| {
        let comments = comments.get(&review.id).into_iter().flatten();
        std::iter::once(review.body.clone()).chain(comments.map(|comment| comment.body.clone()))
    });
    let texts = texts.collect();
    let mut html = render_many(on.visit(), texts, &on.at.repository.full_name()).await?.into_iter();
    let (path, token) = (on.issue.path(), FormToken::of(on.visit()));
    let mut rendered = HashMap::new();
    for review in shown {
        let mut next = || html.next().unwrap_or_default();
        let body = next();
        let own = comments.get(&review.id).map(Vec::as_slice).unwrap_or_default();
        let parts = own.iter().map(|comment| {
            let shown = line_comment(on, comment, next(), (&path, &token));
            error::render(&LineComment { with_hunk: true, ..shown })
        });
        let parts = parts.collect::<PageResult<Vec<_>>>()?;
        let (rights, has_rest) = (on.rights(), (parts.len() as u64) < review.comments_count);
        let content = ShownReview {
            review,
            html: body,
            comments: parts,
            rest: has_rest.then(|| format!("{path}/reviews/{}", review.id)),
            path: &path,
            token: &token,
            can_dismiss: rights.admin && review.is_verdict() && on.pull.is_open(),
            can_delete: rights.admin || (rights.comment && is_by(review.user.as_ref(), on.viewer())),
        };
        rendered.insert(review.id, error::render(&content)?);
    }
    Ok(rendered)
}

fn is_shown(review: &Review) -> bool {
    review.is_submitted() && (review.is_verdict() || !review.body.is_empty() || review.comments_count > 0)
}

/// Returns a comment for the tab of files. `texts` are the path of the pull request and the token
/// of forms.
pub(super) fn line_comment<'a>(
    on: &PullVisit,
    comment: &'a ReviewComment,
    html: String,
    (path, token): (&'a str, &'a FormToken),
) -> LineComment<'a> {
    let (rights, is_own) = (on.rights(), is_by(Some(&comment.user), on.viewer()));
    LineComment {
        comment,
        html,
        path,
        tab: "",
        token,
        with_hunk: false,
        is_pending: false,
        can_resolve: rights.write || (rights.comment && (is_own || on.is_author())),
        can_delete: rights.admin || (rights.comment && is_own),
    }
}

fn is_by(author: Option<&Account>, viewer: Option<&Account>) -> bool {
    author.is_some_and(|author| viewer.is_some_and(|viewer| viewer.id == author.id))
}

/// Renders the comments that the present diff shows, by path, side and line.
pub(super) async fn on_lines(
    on: &PullVisit,
    reviews: &[Review],
    comments: &Comments,
) -> PageResult<HashMap<String, HashMap<(bool, u64), String>>> {
    let placed: Vec<_> = reviews
        .iter()
        .flat_map(|review| comments.get(&review.id).into_iter().flatten())
        .filter_map(|comment| Some((comment, comment.line()?)))
        .collect();
    let texts = placed.iter().map(|(comment, _)| comment.body.clone()).collect();
    let html = render_many(on.visit(), texts, &on.at.repository.full_name()).await?;
    let (path, token) = (on.issue.path(), FormToken::of(on.visit()));
    let is_pending = |id| pending(reviews).is_some_and(|review| review.id == id);
    let mut found: HashMap<String, HashMap<_, String>> = HashMap::new();
    for ((comment, line), html) in placed.into_iter().zip(html) {
        let shown = line_comment(on, comment, html, (&path, &token));
        let is_pending = is_pending(comment.pull_request_review_id);
        let can_resolve = shown.can_resolve && !is_pending;
        let html = error::render(&LineComment { tab: "files", is_pending, can_resolve, ..shown })?;
        let lines = found.entry(comment.path.clone()).or_default();
        lines.entry((comment.is_old_side(), line)).or_default().push_str(&html);
    }
    Ok(found)
}

/// The page of one review.
pub(super) async fn review(on: PullVisit) -> PageResult {
    let id = on.at.rest.split('/').nth(2).and_then(|id| id.parse::<i64>().ok()).ok_or_else(PageError::not_found)?;
    let (api, path) = (&on.visit().api, format!("{}/reviews/{id}", on.api()));
    let comments_path = format!("{path}/comments?limit={MAX_COMMENTS_OF_REVIEW}");
    let (review, comments, commit_count) =
        tokio::try_join!(api.get::<Review>(&path), api.list::<ReviewComment>(&comments_path), on.commit_count())?;
    let (reviews, comments) = ([review], Comments::from([(id, comments.items)]));
    let review = render(&on, &reviews, &comments).await?.remove(&id).ok_or_else(PageError::not_found)?;
    let content = ReviewPage {
        head: on.head(PullTab::Conversation, commit_count),
        title: format!("Review of {}", on.title()),
        review,
    };
    on.page(&content)
}
