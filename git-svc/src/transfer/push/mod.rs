//! Pushes. git's `receive-pack` takes the objects into quarantine, and runs our hooks: `pre-receive` accepts or rejects
//! the push as a whole, and `proc-receive` lets git-svc update the refs.

mod credential;
mod delta_depth;
pub mod hook;
mod inspect;
mod receive;
mod serve;
mod service;
mod sessions;

pub(crate) use self::{
    credential::{RemoteLogin, RemoteLogins},
    delta_depth::has_deep_chains,
    inspect::PushInspector,
    serve::{HookServer, Hooks, install_hooks},
    service::PushService,
    sessions::{HookSession, HookSessions, HookSocket, Push},
};
