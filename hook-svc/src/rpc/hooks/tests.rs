//! Tests of the webhook RPCs over a real socket.

mod conditional;
mod decode;
mod limits;
mod options;

use std::collections::BTreeMap;

use ferrite_db::args;
use ferrite_events::event;
use ferrite_proto::Permission;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{HookAction, RefUpdate, RefsUpdated};
use ferrite_proto::grant::Subject;
use ferrite_proto::hook::{Hook, HookOwner};
use ferrite_proto::id::{HookId, RepositoryId};
use ferrite_proto::operation::{CREATE_HOOK, DELETE_HOOK, GET_HOOK, LIST_HOOKS, UPDATE_HOOK};
use tonic::{Code, Status};

use super::*;
use crate::store::{HookTable, StoredHook};
use crate::testing::{
    ADMINISTRATOR_TOKEN, ORGANIZATION, ORGANIZATION_ID, OUTSIDER_TOKEN, OWNER_TOKEN, REPOSITORY, Service, TestCaller,
    on_each_url, organization_owner, reason, repository_owner, sealer, site_owner, with_token,
};

const CONFIG: [(&str, &str); 3] =
    [("url", "https://ada:hunter1@example.com/x?y"), ("content_type", "form"), ("secret", "hunter2")];
const SHOWN_URL: &str = "https://ada:***@example.com/x?y";

fn config(options: &[(&str, &str)]) -> BTreeMap<String, String> {
    options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn request(kind: &str, options: &[(&str, &str)]) -> CreateHookRequest {
    let events = vec!["release".to_owned(), "create".to_owned()];
    let owner = repository_owner(REPOSITORY);
    CreateHookRequest {
        owner,
        r#type: kind.to_owned(),
        config: config(options),
        events,
        is_active: true,
        ..Default::default()
    }
}

fn admin() -> TestCaller {
    TestCaller::user(7, Permission::Admin)
}

fn page(owner: Option<HookOwner>, page: i32, page_size: i32) -> ListHooksRequest {
    ListHooksRequest { owner, page, page_size }
}

async fn get(service: &Service, caller: &TestCaller, owner: Option<HookOwner>, hook_id: i64) -> Result<Hook, Status> {
    let request = caller.request(GET_HOOK, GetHookRequest { owner, hook_id });
    Ok(service.hooks().get_hook(request).await?.into_inner().hook.unwrap())
}

fn change(hook: &Hook, options: &[(&str, &str)]) -> UpdateHookRequest {
    let owner = repository_owner(REPOSITORY);
    UpdateHookRequest { owner, hook_id: hook.id, config: config(options), ..UpdateHookRequest::default() }
}

async fn update(service: &Service, request: UpdateHookRequest) -> Result<Hook, Status> {
    let request = admin().request(UPDATE_HOOK, request);
    Ok(service.hooks().update_hook(request).await?.into_inner().hook.unwrap())
}

async fn stored(service: &Service, hook: &Hook) -> StoredHook {
    HookTable::new(service.db().clone(), sealer()).hook(HookId(hook.id)).await.unwrap().unwrap()
}

fn secret_of(hook: &StoredHook) -> Option<String> {
    hook.secret(&sealer()).unwrap().map(|secret| secret.expose().to_owned())
}

fn previous_of(hook: &StoredHook, now_us: i64) -> Option<String> {
    hook.previous_secret(&sealer(), now_us).unwrap().map(|secret| secret.expose().to_owned())
}

#[tokio::test]
async fn an_administrator_registers_a_hook_and_never_sees_its_secrets_again() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let hook = service.create(&admin(), request("gitea", &CONFIG)).await.unwrap();
        let expected = Hook {
            id: hook.id,
            repository_id: REPOSITORY,
            r#type: "gitea".to_owned(),
            url: SHOWN_URL.to_owned(),
            content_type: "form".to_owned(),
            events: vec!["create".to_owned(), "release".to_owned()],
            is_active: true,
            has_secret: true,
            create_time: hook.create_time,
            update_time: hook.create_time,
            ..Hook::default()
        };
        assert_eq!(hook, expected);
        assert!(hook.create_time.unwrap().seconds > 1_700_000_000);
        let stored = stored(&service, &hook).await;
        assert_eq!(stored.url(&sealer()).unwrap().expose(), CONFIG[0].1);
        assert_eq!(secret_of(&stored).as_deref(), Some("hunter2"));
        assert_eq!(get(&service, &admin(), repository_owner(REPOSITORY), hook.id).await.unwrap(), hook);

        let mut slack = CONFIG.to_vec();
        slack.push(("channel", "#ops"));
        let slack = service.create(&admin(), request("chat_a", &slack)).await.unwrap();
        assert_eq!(slack.options, config(&[("channel", "#ops"), ("color", ""), ("icon_url", ""), ("username", "")]));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn one_key_registers_one_hook_and_keeps_no_secret() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let caller = admin().with_key("k1");
        let first = service.create(&caller, request("gogs", &CONFIG)).await.unwrap();
        for _ in 0..8 {
            assert_eq!(service.create(&caller, request("gogs", &CONFIG)).await.unwrap(), first);
        }
        let other_secret = [CONFIG[0], CONFIG[1], ("secret", "hunter3")];
        for other in [request("native", &CONFIG), request("gogs", &other_secret)] {
            let refused = service.create(&caller, other).await.unwrap_err();
            assert_eq!(reason(&refused), "IDEMPOTENCY_KEY_REUSED");
        }
        assert_eq!(service.secrets().await.len(), 1);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn violations_reach_the_caller_with_their_fields() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let status = service.create(&admin(), request("slack", &[])).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
        assert_eq!(fields, ["config.url", "config.content_type", "config.channel"]);
        assert!(service.secrets().await.is_empty());
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn only_a_valid_grant_for_this_call_and_repository_registers_a_hook() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let refusals = [
            (TestCaller::without_credentials(), "CREDENTIALS_REQUIRED"),
            (TestCaller::anonymous(Permission::Read), "CREDENTIALS_REQUIRED"),
            (TestCaller::user(7, Permission::Owner).with_other_key(), "BAD_GRANT"),
            (TestCaller::user(7, Permission::Owner).expired(), "BAD_GRANT"),
            (TestCaller::user(7, Permission::Owner).of_repository(REPOSITORY + 1), "BAD_GRANT"),
            (TestCaller::user(7, Permission::Owner).granted(LIST_HOOKS), "BAD_GRANT"),
            (TestCaller::user(7, Permission::Owner).granted(""), "BAD_GRANT"),
        ];
        for (caller, expected) in refusals {
            let status = service.create(&caller, request("gogs", &CONFIG)).await.unwrap_err();
            assert_eq!((status.code(), reason(&status).as_str()), (Code::Unauthenticated, expected), "{caller:?}");
        }
        // A grant for a repository does not open the hooks of other owners.
        for owner in [organization_owner(ORGANIZATION), site_owner()] {
            let status = service.create(&admin(), CreateHookRequest { owner, ..request("gogs", &CONFIG) }).await;
            assert_eq!(reason(&status.unwrap_err()), "BAD_GRANT");
        }
        let nobody = service.create(&admin(), CreateHookRequest { owner: None, ..request("gogs", &CONFIG) }).await;
        assert_eq!(violations(&nobody.unwrap_err())[0].0, "owner");
        assert!(service.secrets().await.is_empty());
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn hooks_are_listed_by_id_as_they_were_created_up_to_the_limit() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let mut made = Vec::new();
        for kind in ["native", "discord", "dingtalk", "chat_c"] {
            made.push(service.create(&admin(), request(kind, &CONFIG)).await.unwrap());
        }
        let fifth = service.create(&admin(), request("native", &CONFIG)).await.unwrap_err();
        assert_eq!((fifth.code(), reason(&fifth).as_str()), (Code::FailedPrecondition, "TOO_MANY_HOOKS"));
        let owner = repository_owner(REPOSITORY);
        let all = service.list(&admin(), page(owner.clone(), 1, 1000)).await.unwrap();
        assert_eq!((&all.hooks, all.total_count), (&made, 4));
        let second = service.list(&admin(), page(owner.clone(), 2, 3)).await.unwrap();
        assert_eq!((second.hooks.as_slice(), second.total_count), (&made[3..], 4));
        let elsewhere = page(repository_owner(REPOSITORY + 1), 1, 10);
        let elsewhere = service.list(&admin().of_repository(REPOSITORY + 1), elsewhere).await.unwrap();
        assert_eq!((elsewhere.hooks.len(), elsewhere.total_count), (0, 0));

        let status = service.list(&admin(), page(owner.clone(), 0, 1001)).await.unwrap_err();
        let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
        assert_eq!(fields, ["page", "page_size"]);
        let other = TestCaller::user(7, Permission::Owner).granted(CREATE_HOOK);
        assert_eq!(reason(&service.list(&other, page(owner, 1, 10)).await.unwrap_err()), "BAD_GRANT");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_change_changes_what_it_names() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let slack = [CONFIG[0], CONFIG[1], CONFIG[2], ("channel", "#a"), ("color", "red")];
        let hook = service.create(&admin(), request("slack", &slack)).await.unwrap();
        assert_eq!(update(&service, change(&hook, &[])).await.unwrap(), hook);
        // Sending back the shown URL keeps the password.
        assert_eq!(update(&service, change(&hook, &[("url", SHOWN_URL), ("other", "x")])).await.unwrap(), hook);
        assert_eq!(stored(&service, &hook).await.url(&sealer()).unwrap().expose(), CONFIG[0].1);

        let renamed = update(&service, change(&hook, &[("username", "bot")])).await.unwrap();
        let options = config(&[("channel", "#a"), ("color", "red"), ("icon_url", ""), ("username", "bot")]);
        assert_eq!((&renamed.options, &renamed.events), (&options, &hook.events));
        let pushes = UpdateHookRequest { has_events: true, is_active: Some(false), ..change(&hook, &[]) };
        let pushes = update(&service, pushes).await.unwrap();
        assert_eq!((pushes.events.as_slice(), pushes.is_active), (&["push".to_owned()][..], false));
        let moved = [("url", "http://example.org/"), ("content_type", "json")];
        let moved = update(&service, change(&hook, &moved)).await.unwrap();
        assert_eq!((moved.url.as_str(), moved.content_type.as_str()), ("http://example.org/", "json"));
        assert!(!moved.is_active && moved.has_secret);

        for (name, value, field) in [
            ("url", "", "config.url"),
            ("url", "http://127.0.0.1/", "config.url"),
            ("content_type", "xml", "config.content_type"),
            ("channel", " ", "config.channel"),
            ("secret", "whsec_!", "config.secret"),
        ] {
            let status = update(&service, change(&hook, &[(name, value)])).await.unwrap_err();
            assert_eq!(violations(&status)[0].0, field);
        }
        let unknown = UpdateHookRequest { has_events: true, events: vec!["x".to_owned()], ..change(&hook, &[]) };
        assert_eq!(violations(&update(&service, unknown).await.unwrap_err())[0].0, "events");
        assert_eq!(get(&service, &admin(), repository_owner(REPOSITORY), hook.id).await.unwrap(), moved);
        // Rejected changes and changes without effect are not reported.
        let actions: Vec<_> = service.repo.changes().into_iter().map(|(_, change)| change.action()).collect();
        assert_eq!(actions, [HookAction::Created, HookAction::Updated, HookAction::Updated, HookAction::Updated]);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_new_secret_signs_at_once_and_the_one_before_it_for_a_day() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let hook = service.create(&admin(), request("gogs", &CONFIG)).await.unwrap();
        let set = async |secret: &str, drops: bool| {
            let request = UpdateHookRequest { drop_previous_secret: drops, ..change(&hook, &[("secret", secret)]) };
            let shown = update(&service, request).await.unwrap();
            let hook = stored(&service, &hook).await;
            (shown.has_secret, secret_of(&hook), previous_of(&hook, hook.updated_us))
        };
        let some = |secret: &str| Some(secret.to_owned());
        assert_eq!(set("hunter2", false).await, (true, some("hunter2"), None));
        assert_eq!(set("hunter3", false).await, (true, some("hunter3"), some("hunter2")));
        let day_us = 24 * 3600 * 1_000_000;
        let now = stored(&service, &hook).await;
        assert_eq!(previous_of(&now, now.updated_us + day_us - 1), some("hunter2"));
        assert_eq!(previous_of(&now, now.updated_us + day_us), None);
        assert_eq!(set("hunter4", true).await, (true, some("hunter4"), None));
        assert_eq!(set("hunter5", false).await, (true, some("hunter5"), some("hunter4")));
        let drop = UpdateHookRequest { drop_previous_secret: true, ..change(&hook, &[]) };
        update(&service, drop).await.unwrap();
        let now = stored(&service, &hook).await;
        assert_eq!((secret_of(&now), previous_of(&now, 0)), (some("hunter5"), None));
        assert_eq!(set("hunter6", false).await.2, some("hunter5"));
        assert_eq!(set("", false).await, (false, None, None));
        assert_eq!(set("hunter7", false).await, (true, some("hunter7"), None));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_change_resumes_a_paused_hook() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let hook = service.create(&admin(), request("gogs", &CONFIG)).await.unwrap();
        let pause = "UPDATE hooks SET paused_reason = 'answered 410', failing_since_us = 5 WHERE id = $1";
        service.db().execute(pause, &args![hook.id]).await.unwrap();
        let paused = get(&service, &admin(), repository_owner(REPOSITORY), hook.id).await.unwrap();
        assert_eq!(paused.paused_reason, "answered 410");
        assert_eq!(update(&service, change(&hook, &[])).await.unwrap().paused_reason, "");
        let resumed = stored(&service, &hook).await;
        assert_eq!((resumed.paused_reason, resumed.failing_since_us), (None, None));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_hook_is_found_by_its_owner_alone_and_deleted_once() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let hook = service.create(&admin(), request("gogs", &CONFIG)).await.unwrap();
        let (owner, other) = (repository_owner(REPOSITORY), repository_owner(REPOSITORY + 1));
        let stranger = admin().of_repository(REPOSITORY + 1);
        let mut clients = service.hooks();
        let delete = |caller: &TestCaller, owner: Option<HookOwner>| {
            caller.request(DELETE_HOOK, DeleteHookRequest { owner, hook_id: hook.id })
        };
        let refusals = [
            get(&service, &stranger, other.clone(), hook.id).await.unwrap_err(),
            get(&service, &admin(), owner.clone(), hook.id + 1).await.unwrap_err(),
            clients.delete_hook(delete(&stranger, other.clone())).await.unwrap_err(),
            {
                let request = UpdateHookRequest { owner: other, ..change(&hook, &[]) };
                clients.update_hook(stranger.request(UPDATE_HOOK, request)).await.unwrap_err()
            },
        ];
        for status in refusals {
            assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, "HOOK_NOT_FOUND"));
        }
        let keyed = admin().with_key("d1");
        clients.delete_hook(delete(&keyed, owner.clone())).await.unwrap();
        clients.delete_hook(delete(&keyed, owner.clone())).await.unwrap();
        let gone = clients.delete_hook(delete(&admin(), owner.clone())).await.unwrap_err();
        assert_eq!(reason(&gone), "HOOK_NOT_FOUND");
        let last = service.repo.changes().pop().unwrap();
        assert_eq!((last.0, last.1.action(), last.1.hook_id), (REPOSITORY, HookAction::Deleted, hook.id));
        assert_eq!((last.1.url.as_str(), last.1.user_id), ("https://example.com/x", 7));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn hooks_of_organizations_and_of_the_site_are_for_those_whom_repo_svc_lets() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let create = async |token: &str, owner: Option<HookOwner>| {
            let request = with_token(token, CreateHookRequest { owner, ..request("native", &CONFIG) });
            service.hooks().create_hook(request).await.map(|response| response.into_inner().hook.unwrap())
        };
        let acme = || organization_owner(ORGANIZATION);
        for (token, owner, code, expected) in [
            (OUTSIDER_TOKEN, acme(), Code::PermissionDenied, "PERMISSION_REQUIRED"),
            (OUTSIDER_TOKEN, site_owner(), Code::PermissionDenied, "ADMIN_REQUIRED"),
            (OWNER_TOKEN, site_owner(), Code::PermissionDenied, "ADMIN_REQUIRED"),
            (OWNER_TOKEN, organization_owner("never-was"), Code::NotFound, "ORGANIZATION_NOT_FOUND"),
        ] {
            let status = create(token, owner).await.unwrap_err();
            assert_eq!((status.code(), reason(&status).as_str()), (code, expected));
        }
        let of_acme = create(OWNER_TOKEN, acme()).await.unwrap();
        assert_eq!((of_acme.organization.as_str(), of_acme.repository_id, of_acme.is_site), (ORGANIZATION, 0, false));
        let of_site = create(ADMINISTRATOR_TOKEN, site_owner()).await.unwrap();
        assert_eq!((of_site.organization.as_str(), of_site.repository_id, of_site.is_site), ("", 0, true));
        let list = async |token: &str, owner| {
            let response = service.hooks().list_hooks(with_token(token, page(owner, 1, 10))).await.unwrap();
            response.into_inner().hooks
        };
        assert_eq!(list(OWNER_TOKEN, acme()).await, std::slice::from_ref(&of_acme));
        assert_eq!(list(ADMINISTRATOR_TOKEN, site_owner()).await, std::slice::from_ref(&of_site));
        let foreign = GetHookRequest { owner: acme(), hook_id: of_site.id };
        let foreign = service.hooks().get_hook(with_token(OWNER_TOKEN, foreign)).await.unwrap_err();
        assert_eq!(reason(&foreign), "HOOK_NOT_FOUND");
        let told: Vec<_> = service
            .repo
            .changes()
            .into_iter()
            .map(|(repository, change)| (repository, change.organization_id, change.hook_id, change.username))
            .collect();
        let expected = [(0, ORGANIZATION_ID, of_acme.id, "olga".to_owned()), (0, 0, of_site.id, "root".to_owned())];
        assert_eq!(told, expected);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_grant_about_an_organization_or_the_site_opens_its_hooks_without_a_token() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let acme = || Subject::Organization { id: ORGANIZATION_ID, name: ORGANIZATION.to_owned() };
        let create = async |subject: Subject, owner: Option<HookOwner>| {
            let caller = admin().of_subject(subject);
            let made = service.create(&caller, CreateHookRequest { owner, ..request("native", &CONFIG) }).await;
            made.map(|hook| (hook.organization, hook.repository_id, hook.is_site)).map_err(|status| reason(&status))
        };
        let bad_grant = || Err("BAD_GRANT".to_owned());
        let of_acme = create(acme(), organization_owner(ORGANIZATION)).await;
        assert_eq!(of_acme, Ok((ORGANIZATION.to_owned(), 0, false)));
        assert_eq!(create(Subject::Site, site_owner()).await, Ok((String::new(), 0, true)));
        // A grant holds only for its subject, under the name it was requested with, and not for a
        // repository.
        for (subject, owner) in [
            (acme(), organization_owner("other")),
            (acme(), site_owner()),
            (acme(), repository_owner(0)),
            (Subject::Site, organization_owner(ORGANIZATION)),
            (Subject::Site, repository_owner(0)),
            (Subject::User, site_owner()),
            (Subject::User, organization_owner(ORGANIZATION)),
        ] {
            assert_eq!(create(subject.clone(), owner.clone()).await, bad_grant(), "{subject:?} {owner:?}");
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_hook_begins_when_it_is_made_and_when_it_is_switched_on() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let push = async || {
            let update = RefUpdate { name: b"refs/heads/a".to_vec(), old_id: "1".repeat(40), new_id: "2".repeat(40) };
            let fact = Fact::RefsUpdated(RefsUpdated { updates: vec![update], ..Default::default() });
            service.deliver(vec![event(RepositoryId(REPOSITORY), 1, fact)]).await.unwrap();
        };
        let begin = async || -> (i64, i64) {
            service.db().one("SELECT after_event_id, since_us - updated_us FROM hooks", &[]).await.unwrap()
        };
        let last = async || -> i64 {
            let (id,): (i64,) = service.db().one("SELECT MAX(id) FROM events", &[]).await.unwrap();
            id
        };
        push().await;
        let first = last().await;
        let hook = service.create(&admin(), CreateHookRequest { is_active: true, ..request("gogs", &CONFIG) }).await;
        let hook_id = hook.unwrap().id;
        assert_eq!(begin().await, (first, 0));
        let set_active = async |is_active: bool| {
            let owner = repository_owner(REPOSITORY);
            let change = UpdateHookRequest { owner, hook_id, is_active: Some(is_active), ..Default::default() };
            service.hooks().update_hook(admin().request(UPDATE_HOOK, change)).await.unwrap();
        };
        push().await;
        set_active(false).await;
        assert_eq!(begin().await.0, first);
        set_active(true).await;
        assert_eq!(begin().await, (last().await, 0));
        push().await;
        set_active(true).await;
        assert_eq!(begin().await.0, last().await - 1, "it was on before");
        service.stop().await;
    })
    .await;
}
