mod auth;
mod grpc;
