//! Pushes: git takes the objects, and asks us through its `proc-receive` hook what becomes of the refs.

mod depth;
mod receive;
mod serve;
mod sessions;
mod watch;

pub(crate) use self::{
    serve::{install_hook, serve_hooks},
    sessions::{HookSocket, Push, Session, Sessions},
    watch::Watch,
};
