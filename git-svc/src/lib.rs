//! git-svc
