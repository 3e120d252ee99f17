use ferrite_kit::Secret;
use ferrite_proto::id::{HookId, RepositoryId};

use super::event::HookEvents;
use super::kind::{ContentType, HookType};
use super::url::HookUrl;

/// Display options of deliveries to chat services. An option that the hook's type does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChatOptions {
    pub(crate) channel: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) icon_url: Option<String>,
    pub(crate) color: Option<String>,
}

/// A webhook, without its secret, which is never read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(crate) id: HookId,
    pub(crate) repository: RepositoryId,
    pub(crate) kind: HookType,
    pub(crate) url: String,
    pub(crate) content_type: ContentType,
    pub(crate) options: ChatOptions,
    pub(crate) events: HookEvents,
    pub(crate) is_active: bool,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
}

/// A webhook that has no id yet.
#[derive(Clone, Debug)]
pub(crate) struct NewHook {
    pub(crate) repository: RepositoryId,
    pub(crate) kind: HookType,
    pub(crate) url: HookUrl,
    pub(crate) content_type: ContentType,
    pub(crate) secret: Option<Secret>,
    pub(crate) options: ChatOptions,
    pub(crate) events: HookEvents,
    pub(crate) is_active: bool,
}
