mod calls;
mod replicas;
mod service;
mod stores;
