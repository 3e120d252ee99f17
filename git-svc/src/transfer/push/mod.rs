//! Pushes. git's `receive-pack` takes the objects into quarantine, and runs our hooks: `pre-receive` accepts or rejects
//! the push as a whole, and `proc-receive` lets git-svc update the refs.

mod delta_depth;
pub mod hook;
mod inspect;
mod receive;
mod serve;
mod sessions;

pub(crate) use self::{
    delta_depth::has_deep_chains,
    inspect::PushInspector,
    serve::{Hooks, install_hooks, serve_hooks},
    sessions::{HookSession, HookSessions, HookSocket, Push},
};
