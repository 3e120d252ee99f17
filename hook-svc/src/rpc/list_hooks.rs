//! RPC `ListHooks`.

use ferrite_kit::page::Page;
use ferrite_proto::hook::{ListHooksRequest, ListHooksResponse};
use ferrite_proto::id::RepositoryId;
use tonic::{Request, Status};

use super::encode::encode;
use super::service::HookRpc;
use crate::error::HookError;

const MAX_PAGE_SIZE: i32 = 1000;

pub(super) async fn list_hooks(
    service: &HookRpc,
    request: Request<ListHooksRequest>,
) -> Result<ListHooksResponse, Status> {
    service.authorize(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(HookError::Invalid)?;
    let (hooks, total_count) = service.store.list(RepositoryId(request.repository_id), page).await?;
    Ok(ListHooksResponse { hooks: hooks.into_iter().map(encode).collect(), total_count })
}

#[cfg(test)]
mod tests {
    use ferrite_proto::Permission;
    use ferrite_proto::error::violations;
    use ferrite_proto::hook::CreateHookRequest;
    use ferrite_proto::operation::CREATE_HOOK;

    use super::*;
    use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

    fn page(page: i32, page_size: i32) -> ListHooksRequest {
        ListHooksRequest { repository_id: REPOSITORY, page, page_size }
    }

    #[tokio::test]
    async fn hooks_are_listed_by_id_as_they_were_created() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Admin);
            let mut made = Vec::new();
            for kind in ["native", "discord", "dingtalk"] {
                let config = [("url", "http://a/"), ("content_type", "json"), ("username", "bot"), ("secret", "s")];
                let config = config.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
                let request = CreateHookRequest {
                    repository_id: REPOSITORY,
                    r#type: kind.to_owned(),
                    config,
                    ..Default::default()
                };
                made.push(service.create(&caller, request).await.unwrap());
            }
            assert_eq!(made[1].options["username"], "bot");
            let all = service.list(&caller, page(1, 1000)).await.unwrap();
            assert_eq!((&all.hooks, all.total_count), (&made, 3));
            let second = service.list(&caller, page(2, 2)).await.unwrap();
            assert_eq!((second.hooks.as_slice(), second.total_count), (&made[2..], 3));
            let elsewhere = ListHooksRequest { repository_id: REPOSITORY + 1, ..page(1, 10) };
            let elsewhere = service.list(&caller.of_repository(REPOSITORY + 1), elsewhere).await.unwrap();
            assert_eq!((elsewhere.hooks.len(), elsewhere.total_count), (0, 0));
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_list_refuses_pages_out_of_range_and_grants_for_other_operations() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let status = service.list(&TestCaller::user(7, Permission::Admin), page(0, 1001)).await.unwrap_err();
            let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
            assert_eq!(fields, ["page", "page_size"]);
            let other = TestCaller::user(7, Permission::Owner).granted(CREATE_HOOK);
            assert_eq!(reason(&service.list(&other, page(1, 10)).await.unwrap_err()), "BAD_GRANT");
            service.stop().await;
        })
        .await;
    }
}
