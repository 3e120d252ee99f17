//! Pushes: git takes the objects, asks our `pre-receive` hook whether to keep them, and then, through its `proc-receive` hook, us
//! what becomes of the refs.

mod delta_depth;
pub mod hook;
mod inspect;
mod receive;
mod serve;
mod service;
mod sessions;

pub(crate) use self::{
    inspect::PushInspector,
    serve::{HookServer, Hooks, install_hooks},
    service::PushService,
    sessions::{HookSession, HookSessions, HookSocket, Push},
};
