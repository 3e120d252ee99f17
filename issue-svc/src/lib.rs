//! issue-svc
