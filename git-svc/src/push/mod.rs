//! Pushes: git takes the objects, asks our `pre-receive` hook whether to keep them, and then, through its `proc-receive` hook, us
//! what becomes of the refs.

mod depth;
mod options;
mod receive;
mod serve;
mod sessions;
mod watch;

pub(crate) use self::{
    depth::has_deep_chains,
    options::PushOptions,
    serve::{Hooks, install_hooks, serve_hooks},
    sessions::{HookSocket, Push, Session, Sessions},
    watch::Watch,
};
