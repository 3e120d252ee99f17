mod access;
mod authority;
mod cache;
mod layer;
