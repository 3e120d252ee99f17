//! Tests of webhook versions and conditional changes.

use ferrite_proto::metadata::{PRECONDITION, VERSION};

use super::*;

/// A webhook with a caller who may change it.
struct Owned {
    caller: TestCaller,
    owner: Option<HookOwner>,
    hook_id: i64,
}

impl Owned {
    async fn new(service: &Service, caller: TestCaller, owner: Option<HookOwner>) -> Self {
        let request = CreateHookRequest { owner: owner.clone(), ..request("native", &CONFIG) };
        let hook_id = service.create(&caller, request).await.unwrap().id;
        Self { caller, owner, hook_id }
    }

    async fn of_repository(service: &Service) -> Self {
        Self::new(service, admin(), repository_owner(REPOSITORY)).await
    }

    /// Returns the webhook and a precondition with its version.
    async fn read(&self, service: &Service) -> (Hook, String) {
        let message = GetHookRequest { owner: self.owner.clone(), hook_id: self.hook_id };
        let mut request = self.caller.request(GET_HOOK, message);
        request.metadata_mut().insert(VERSION, "?".parse().unwrap());
        let response = service.hooks().get_hook(request).await.unwrap();
        let version = response.metadata().get(VERSION).expect("the version").to_str().unwrap();
        let precondition = format!("version={version}");
        (response.into_inner().hook.unwrap(), precondition)
    }

    async fn version(&self, service: &Service) -> String {
        self.read(service).await.1
    }

    async fn update(&self, service: &Service, precondition: &str, options: &[(&str, &str)]) -> Result<Hook, Status> {
        let (owner, hook_id) = (self.owner.clone(), self.hook_id);
        let message = UpdateHookRequest { owner, hook_id, config: config(options), ..UpdateHookRequest::default() };
        let mut request = self.caller.request(UPDATE_HOOK, message);
        request.metadata_mut().insert(PRECONDITION, precondition.parse().unwrap());
        Ok(service.hooks().update_hook(request).await?.into_inner().hook.unwrap())
    }

    async fn delete(&self, service: &Service, precondition: &str) -> Result<(), Status> {
        let message = DeleteHookRequest { owner: self.owner.clone(), hook_id: self.hook_id };
        let mut request = self.caller.request(DELETE_HOOK, message);
        request.metadata_mut().insert(PRECONDITION, precondition.parse().unwrap());
        service.hooks().delete_hook(request).await.map(drop)
    }
}

fn is_refused<T>(outcome: Result<T, Status>) -> bool {
    outcome.is_err_and(|status| (status.code(), reason(&status).as_str()) == (Code::Aborted, "PRECONDITION_FAILED"))
}

#[tokio::test]
async fn a_hook_of_any_owner_is_changed_and_deleted_only_in_the_version_that_was_read() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let acme = Subject::Organization { id: ORGANIZATION_ID, name: ORGANIZATION.to_owned() };
        for (caller, owner) in [
            (admin(), repository_owner(REPOSITORY)),
            (admin().of_subject(acme), organization_owner(ORGANIZATION)),
            (admin().of_subject(Subject::Site), site_owner()),
        ] {
            let hook = Owned::new(&service, caller, owner).await;
            let first = hook.version(&service).await;
            hook.update(&service, &first, &[("content_type", "json")]).await.unwrap();
            assert!(is_refused(hook.update(&service, &first, &[("content_type", "form")]).await));
            let (shown, second) = hook.read(&service).await;
            assert_eq!(shown.content_type, "json");
            for refused in [first.as_str(), "absent", "never", "malformed"] {
                assert!(is_refused(hook.delete(&service, refused).await), "{refused}");
            }
            hook.delete(&service, &second).await.unwrap();
            assert_eq!(reason(&hook.delete(&service, "exists").await.unwrap_err()), "HOOK_NOT_FOUND");
            assert_eq!(reason(&hook.update(&service, &second, &[]).await.unwrap_err()), "HOOK_NOT_FOUND");
        }
        let actions: Vec<_> = service.repo.changes().into_iter().map(|(_, change)| change.action()).collect();
        assert_eq!(actions, [HookAction::Created, HookAction::Updated, HookAction::Deleted].repeat(3));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_secret_is_part_of_the_version_although_no_read_shows_it() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let hook = Owned::of_repository(&service).await;
        // The bytes written here cannot be unsealed, and no read tries to.
        let changes = [
            "UPDATE hooks SET previous_secret = url WHERE id = $1",
            "UPDATE hooks SET url = secret WHERE id = $1",
            "UPDATE hooks SET secret = previous_secret WHERE id = $1",
            "UPDATE hooks SET previous_secret = NULL WHERE id = $1",
            "UPDATE hooks SET authorization_header = url WHERE id = $1",
        ];
        let (shown, mut last) = hook.read(&service).await;
        for change in changes {
            service.db().execute(change, &args![hook.hook_id]).await.unwrap();
            let (now, version) = hook.read(&service).await;
            assert_eq!(now, shown, "{change}");
            assert_ne!(version, last, "{change}");
            assert!(is_refused(hook.delete(&service, &last).await), "{change}");
            last = version;
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_change_of_a_secret_alone_makes_the_version_stale() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let hook = Owned::of_repository(&service).await;
        let first = hook.version(&service).await;
        // A change without effect keeps the version.
        hook.update(&service, &first, &[("secret", "hunter2")]).await.unwrap();
        hook.update(&service, &first, &[("secret", "hunter3")]).await.unwrap();
        assert!(is_refused(hook.update(&service, &first, &[("secret", "hunter4")]).await));
        let stored = HookTable::new(service.db().clone(), sealer()).hook(HookId(hook.hook_id)).await.unwrap().unwrap();
        assert_eq!(secret_of(&stored).as_deref(), Some("hunter3"));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn permission_and_fields_come_before_the_version_and_a_repeat_does_not_look_at_it() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let mut hook = Owned::of_repository(&service).await;
        let wrong = hook.update(&service, "never", &[("url", "")]).await.unwrap_err();
        assert_eq!(violations(&wrong)[0].0, "config.url");
        let first = hook.version(&service).await;
        hook.caller = admin().granted(GET_HOOK);
        assert_eq!(reason(&hook.update(&service, "never", &[]).await.unwrap_err()), "BAD_GRANT");
        assert_eq!(reason(&hook.delete(&service, "never").await.unwrap_err()), "BAD_GRANT");
        hook.caller = admin().with_key("once");
        let options = [("content_type", "json")];
        let changed = hook.update(&service, &first, &options).await.unwrap();
        assert_eq!(hook.update(&service, &first, &options).await.unwrap(), changed);
        hook.caller = admin();
        let second = hook.version(&service).await;
        hook.caller = admin().with_key("gone");
        assert!(is_refused(hook.delete(&service, &first).await));
        hook.delete(&service, &second).await.unwrap();
        hook.delete(&service, &second).await.unwrap();
        service.stop().await;
    })
    .await;
}
