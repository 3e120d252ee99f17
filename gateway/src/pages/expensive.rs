//! Makes a page within the bounds of expensive ones. A route opts in by its handler:
//! `get(expensive(Group::Diff, handler))`.
//!
//! Visitors who ask for the same page at the same time share it: those without an account with each
//! other, and one with an account with the same session alone, because a page shows who sees it and
//! its forms belong to the session. Each asks again whether the repository is visible, so that a
//! page begun before it was hidden reaches nobody who came later.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use blake3::Hash;
use ferrite_core::{Secret, contain_panic};
use ferrite_listener::Client;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::de::IgnoredAny;

use super::error::{PageError, PageResult};
use super::layout::Rendered;
use super::pool::{Group, Refusal};
use super::single_flight::SingleFlight;
use super::visit::{PagesState, Visitor};
use crate::http::client_address::counted_client;
use crate::http::embedded_file::accepts_gzip;
use crate::http::error::ApiError;

/// How often a visitor joins the work of others, of which each can be refused.
const MAX_ATTEMPTS: usize = 2;
const TOO_MANY: &str = "too many visitors wait for this page, try again later";

/// A handler of expensive pages.
#[derive(Clone)]
pub(super) struct Expensive<H> {
    group: Group,
    handler: H,
    single_flight: Arc<SingleFlight<Key, Outcome>>,
}

/// Everything that a page depends on, apart from what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    here: String,
    /// `None` for visitors without an account, who see the same.
    session: Option<Hash>,
    accepts_gzip: bool,
}

/// What came of the work for a page.
#[derive(Clone, Debug)]
enum Outcome {
    Page(Arc<SharedPage>),
    /// A stream, a redirect or a failure, for the first visitor alone.
    Other(Arc<Mutex<Option<Response>>>),
    /// The first visitor got no place; others may.
    Busy(ApiError),
    Failed(ApiError),
}

#[derive(Debug)]
struct SharedPage {
    headers: HeaderMap,
    rendered: Rendered,
}

/// A request for an expensive page.
#[derive(Clone)]
struct Work {
    state: PagesState,
    group: Group,
    client: Client,
    make: Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>,
}

pub(super) fn expensive<H>(group: Group, handler: H) -> Expensive<H> {
    Expensive { group, handler, single_flight: Arc::default() }
}

impl<H, T> Handler<T, PagesState> for Expensive<H>
where
    H: Handler<T, PagesState>,
    T: 'static,
{
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, state: PagesState) -> Self::Future {
        let Self { group, handler, single_flight } = self;
        let handler_state = state.clone();
        let make = Arc::new(move |request: Request| -> BoxFuture<'static, Response> {
            Box::pin(handler.clone().call(request, handler_state.clone()))
        });
        Box::pin(async move {
            let work = Work { state, group, client: Client::default(), make };
            let mut response = work.respond(&single_flight, request).await.unwrap_or_else(PageError::into_response);
            response.extensions_mut().insert(group);
            response
        })
    }
}

impl Work {
    async fn respond(mut self, single_flight: &SingleFlight<Key, Outcome>, request: Request) -> PageResult {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::of(&parts.headers, &self.state).await?;
        if visitor.viewer.is_none() && self.state.sign_in.is_for_expensive_pages() {
            return Err(PageError::SignIn);
        }
        self.client = counted_client(&parts.headers, visitor.viewer.as_ref().map(|viewer| viewer.id));
        let here = parts.uri.path_and_query().map_or("/", |here| here.as_str()).to_owned();
        let session = visitor.session.as_ref().map(|session| blake3::hash(session.expose().as_bytes()));
        let key = Key { here, session, accepts_gzip: accepts_gzip(&parts.headers) };
        let headers = parts.headers.clone();
        parts.extensions.insert(visitor.clone().at_expensive_page());
        let mut request = Some(Request::from_parts(parts, body));
        let attempts = if self.group.is_shared() { MAX_ATTEMPTS } else { 0 };
        for _ in 0..attempts {
            let begin = || self.clone().begin(request.take());
            let Some(call) = single_flight.join(key.clone(), begin) else {
                return Err(ApiError::busy(TOO_MANY).into());
            };
            let is_first = call.is_first;
            match call.outcome().await {
                Outcome::Page(page) if is_first => return Ok(page.response()),
                Outcome::Page(page) => {
                    metrics::counter!("ferrite_expensive_pages_shared_total").increment(1);
                    self.check_repository(visitor.session, &headers, &key.here).await?;
                    return Ok(page.response());
                }
                Outcome::Other(response) if is_first => {
                    return response.lock().take().ok_or_else(|| ApiError::internal().into());
                }
                Outcome::Other(_) => break,
                Outcome::Busy(error) if is_first => return Err(error.into()),
                Outcome::Busy(_) => {}
                Outcome::Failed(error) => return Err(error.into()),
            }
        }
        match self.alone(request).await {
            Ok(response) => Ok(response),
            Err(Refusal::Busy(error) | Refusal::Slow(error)) => Err(error.into()),
        }
    }

    /// Makes the page in a place of the pool.
    async fn alone(&self, request: Option<Request>) -> Result<Response, Refusal> {
        let request = request.ok_or_else(|| Refusal::Slow(ApiError::internal()))?;
        self.state.pool.run(self.group, self.client, (self.make)(request)).await
    }

    fn begin(self, request: Option<Request>) -> BoxFuture<'static, Outcome> {
        let work = async move {
            match self.alone(request).await {
                Ok(response) => Outcome::of(response),
                Err(Refusal::Busy(error)) => Outcome::Busy(error),
                Err(Refusal::Slow(error)) => Outcome::Failed(error),
            }
        };
        Box::pin(contain_panic(work, || Outcome::Failed(ApiError::internal())))
    }

    /// Fails unless the visitor may still see the repository of a page.
    async fn check_repository(&self, session: Option<Secret>, headers: &HeaderMap, here: &str) -> PageResult<()> {
        let mut path = here.split(['/', '?']).skip(1);
        let (owner, name) = (path.next().unwrap_or_default(), path.next().unwrap_or_default());
        let api = self.state.client(session, headers);
        api.get::<IgnoredAny>(&format!("repos/{owner}/{name}")).await.map(drop)
    }
}

impl Outcome {
    fn of(response: Response) -> Self {
        let is_plain = response.status() == StatusCode::OK && !response.headers().contains_key(SET_COOKIE);
        match response.extensions().get::<Rendered>() {
            Some(rendered) if is_plain => {
                let page = SharedPage { headers: response.headers().clone(), rendered: rendered.clone() };
                Self::Page(Arc::new(page))
            }
            _ => Self::Other(Arc::new(Mutex::new(Some(response)))),
        }
    }
}

impl SharedPage {
    fn response(&self) -> Response {
        let mut response = Response::new(Body::from(self.rendered.body.clone()));
        *response.headers_mut() = self.headers.clone();
        response.extensions_mut().insert(self.rendered.clone());
        response
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use axum::Router;
    use axum::body::to_bytes;
    use axum::routing::get;
    use futures_util::future::join_all;
    use futures_util::poll;
    use tokio::sync::Semaphore;
    use tower::ServiceExt;

    use super::*;
    use crate::pages::layout::{Content, Site};
    use crate::pages::options::{PageLimits, SignInScope};
    use crate::pages::pool::{ExpensiveLimits, ExpensivePool};
    use crate::pages::visit::{PagesParts, Visit};

    #[derive(askama::Template)]
    #[template(source = "<p>shown</p>", ext = "html")]
    struct Shown;

    impl Content for Shown {
        fn title(&self) -> String {
            "Shown".to_owned()
        }
    }

    fn state(api: Router) -> PagesState {
        let services = crate::tests::unreachable_services();
        PagesState::new(PagesParts {
            site: Arc::new(Site::new("http://127.0.0.1:3000", String::new())),
            api,
            clients: services.clients,
            markdown: services.blocking.markdown,
            limits: PageLimits {
                bodies: services.body_limits,
                max_response_bytes: 1 << 20,
                max_asset_bytes: services.max_asset_bytes,
            },
            sign_in: SignInScope::None,
            pool: ExpensivePool::new(ExpensiveLimits::default()),
        })
    }

    #[tokio::test]
    async fn visitors_at_the_same_time_share_a_page_if_they_may_see_it_in_the_end() {
        let is_public = Arc::new(AtomicBool::new(true));
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (seen, counted, waited) = (is_public.clone(), begun.clone(), ended.clone());
        let repository = move || {
            let is_public = seen.load(Ordering::SeqCst);
            async move { if is_public { "{}".into_response() } else { ApiError::repository_not_found().into_response() } }
        };
        let handler = move |visit: Visit| {
            let (counted, waited) = (counted.clone(), waited.clone());
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                waited.acquire().await.unwrap().forget();
                visit.page(&Shown)
            }
        };
        let router = Router::new()
            .route("/{owner}/{repo}/blame", get(expensive(Group::Blame, handler)))
            .with_state(state(Router::new().route("/api/v1/repos/{owner}/{repo}", get(repository))));
        let ask = |path: &'static str| {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            let router = router.clone();
            Box::pin(async move { router.oneshot(request).await.unwrap_or_else(|never| match never {}) })
        };
        let mut visits = join_all([ask("/ada/demo/blame"), ask("/ada/demo/blame"), ask("/ada/demo/blame")]);
        assert!(poll!(&mut visits).is_pending());
        let mut other = ask("/ada/demo/blame?page=2");
        assert!(poll!(&mut other).is_pending());
        assert_eq!(begun.load(Ordering::SeqCst), 2, "one for each page");
        ended.add_permits(2);
        for response in visits.await.into_iter().chain([other.await]) {
            assert_eq!(response.status(), StatusCode::OK);
            let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
            assert!(String::from_utf8(body.to_vec()).unwrap().contains("<p>shown</p>"));
        }
        let mut visits = join_all([ask("/ada/demo/blame"), ask("/ada/demo/blame")]);
        assert!(poll!(&mut visits).is_pending());
        is_public.store(false, Ordering::SeqCst);
        ended.add_permits(1);
        let statuses: Vec<_> = visits.await.iter().map(|response| response.status().as_u16()).collect();
        assert_eq!((statuses.as_slice(), begun.load(Ordering::SeqCst)), (&[200, 404][..], 3));
    }

    #[test]
    fn only_whole_pages_are_shared() {
        let rendered = Rendered { body: "<p>".into(), hash: blake3::hash(b"<p>") };
        let response = |status: StatusCode, is_rendered: bool, has_cookie: bool| {
            let mut response = (status, "<p>").into_response();
            if is_rendered {
                response.extensions_mut().insert(rendered.clone());
            }
            if has_cookie {
                response.headers_mut().insert(SET_COOKIE, "a=b".parse().unwrap());
            }
            Outcome::of(response)
        };
        let Outcome::Page(page) = response(StatusCode::OK, true, false) else { panic!("a page is shared") };
        let copy = page.response();
        assert!(copy.headers().contains_key("content-type") && copy.extensions().get::<Rendered>().is_some());
        for (status, is_rendered, has_cookie) in [(200, false, false), (404, true, false), (200, true, true)] {
            let outcome = response(StatusCode::from_u16(status).unwrap(), is_rendered, has_cookie);
            let Outcome::Other(kept) = outcome else { panic!("{status} {is_rendered}") };
            assert_eq!(kept.lock().take().unwrap().status().as_u16(), status);
            assert!(kept.lock().is_none(), "for one visitor");
        }
    }
}
