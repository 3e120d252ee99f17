//! The page of a pull request: its text, what happened, its reviews, and the merge.

use askama::Template;
use axum::http::header::IF_NONE_MATCH;
use axum::http::{HeaderMap, StatusCode};
use ferrite_api_types::links::encode;

use super::merge_box::{self, MergeBox};
use super::view::Review;
use super::{Head, PullTab, PullVisit, Rights, reviews};
use crate::pages::components::{Pager, filters, parameter};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken};
use crate::pages::issues::reply::{Draft, Reply};
use crate::pages::issues::timeline::{Conversation, Timeline, unique};
use crate::pages::issues::view::{Issue, is_writer};
use crate::pages::layout::{Content, with_status};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::view::Account;

/// What a form that was not sent, or was refused, leaves on the page.
#[derive(Default)]
pub(super) struct Left<'a> {
    /// The comment that is being written.
    pub(super) draft: Draft,
    /// Another form that was refused, and why.
    pub(super) refused: Option<(&'a Fields, String)>,
}

#[derive(Template)]
#[template(path = "pulls/conversation.html")]
struct ConversationPage<'a> {
    head: Head<'a>,
    issue: &'a Issue,
    title: String,
    /// The path of the repository.
    repository: String,
    rights: Rights,
    is_writer: bool,
    /// The id of the visitor.
    viewer: Option<i64>,
    body: String,
    participants: Vec<Account>,
    timeline: Timeline,
    pager: Pager,
    reply: Reply,
    pending: Option<&'a Review>,
    merge: MergeBox,
    /// Why a form was refused.
    message: Option<&'a str>,
    token: FormToken,
}

impl ConversationPage<'_> {
    fn is_viewer(&self, user: &Account) -> bool {
        self.viewer == Some(user.id)
    }
}

impl Content for ConversationPage<'_> {
    fn title(&self) -> String {
        self.title.clone()
    }
}

/// The page, or with `.diff` or `.patch` behind the number the changes as text.
pub(super) async fn conversation(at: RepositoryVisit) -> PageResult {
    if at.rest.ends_with(".diff") || at.rest.ends_with(".patch") {
        let binary =
            parameter(&at.visit.shell.here, "binary").map(|value| format!("?binary={}", encode(value.as_bytes())));
        let path = format!("{}/pulls/{}{}", at.repository.api(), at.rest, binary.unwrap_or_default());
        let conditions = at.visit.headers.get(IF_NONE_MATCH).map(|value| (IF_NONE_MATCH, value.clone()));
        return at.visit.api.pass(&path, &HeaderMap::from_iter(conditions)).await;
    }
    page(&PullVisit::of(at).await?, Left::default()).await
}

pub(super) async fn page(on: &PullVisit, left: Left<'_>) -> PageResult {
    let Left { draft, refused } = left;
    let mut texts = vec![on.issue.body.clone()];
    texts.extend(draft.is_preview.then(|| draft.body.clone()));
    let reviews = async {
        let (reviews, comments) = tokio::try_join!(reviews::list(on), reviews::comments(on))?;
        let html = reviews::render(on, &reviews, &comments).await?;
        Ok((reviews, html))
    };
    let (conversation, (reviews, html_of_reviews), loaded, commit_count) = tokio::try_join!(
        Conversation::read(&on.at, on.pull.number, on.issue.comments, texts),
        reviews,
        merge_box::load(on),
        on.commit_count()
    )?;
    let Conversation { mut timeline, pager, html, authors } = conversation;
    timeline.add_reviews(html_of_reviews);
    let mut html = html.into_iter();
    let (body, preview) = (html.next().unwrap_or_default(), html.next());
    let reviewers = reviews.iter().filter_map(|review| review.user.clone());
    let people = std::iter::once(on.issue.user.clone()).chain(on.issue.assignees.iter().cloned());
    let (fields, message) = refused.as_ref().map(|(fields, message)| (*fields, message.as_str())).unzip();
    let content = ConversationPage {
        head: on.head(PullTab::Conversation, commit_count),
        issue: &on.issue,
        title: on.title(),
        repository: on.at.repository.path(),
        rights: on.rights(),
        is_writer: is_writer(&on.at),
        viewer: on.viewer().map(|viewer| viewer.id),
        body,
        participants: unique(people.chain(authors).chain(reviewers)),
        timeline,
        pager,
        reply: Reply::new(&on.at, &on.issue, draft, preview),
        pending: reviews::pending(&reviews),
        merge: MergeBox::new(on, loaded, &reviews, fields),
        message,
        token: FormToken::of(on.visit()),
    };
    let status = if message.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok(with_status(status, on.page(&content)?))
}
