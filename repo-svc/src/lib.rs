//! repo-svc
