//! Pushes. git's `receive-pack` receives the objects into quarantine and runs our hooks.
//! `pre-receive` accepts or rejects the push as a whole, by its objects and by git-svc's answer
//! about its refs. `proc-receive` lets git-svc update the refs.

mod credential;
mod decision;
mod delta_depth;
pub mod hook;
mod inspect;
mod inspection;
mod pack_check;
mod push;
mod receive;
mod sent_output;
mod serve;
mod service;
mod sessions;
mod status_report;

pub(crate) use self::{
    credential::{RemoteLogin, RemoteLogins},
    inspect::{PushInspector, count_refusal},
    inspection::PushInspection,
    pack_check::{PackFlaw, UnreadPacks, find_flaw},
    push::Push,
    sent_output::SentOutput,
    serve::{HookServer, Hooks, install_hooks},
    service::PushService,
    sessions::{HookSession, HookSessions, HookSocket},
    status_report::StatusReport,
};
