//! hook-svc
