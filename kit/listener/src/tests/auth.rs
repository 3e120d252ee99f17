mod access;
mod authority;
mod layer;
mod token_cache;
