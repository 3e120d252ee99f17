mod calls;
mod service;
