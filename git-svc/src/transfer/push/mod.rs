//! Pushes: git takes the objects, asks our `pre-receive` hook whether to keep them, and then, through its `proc-receive` hook, us
//! what becomes of the refs.

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
