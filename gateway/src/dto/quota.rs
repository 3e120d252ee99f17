use ferrite_api_types::convert::MissingField;
use ferrite_proto::repo;
use serde::Serialize;

use super::require;

/// Use and limits of an account.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Quota {
    repositories: QuotaUsage,
    /// Missing from a repo-svc of the version before.
    #[serde(skip_serializing_if = "Option::is_none")]
    organizations: Option<QuotaUsage>,
    bytes: QuotaUsage,
    /// Null if none is set for the account, -1 for no limits.
    rate_percent: Option<i64>,
}

/// One part of a quota.
#[derive(Clone, Copy, Debug, Serialize)]
struct QuotaUsage {
    used: i64,
    /// Null for no limit.
    limit: Option<i64>,
    /// True for the limit of the site.
    is_default: bool,
}

impl Quota {
    pub(crate) fn new(quota: repo::Quota) -> Result<Self, MissingField> {
        Ok(Self {
            repositories: usage(require(quota.repositories, "repositories")?),
            organizations: quota.organizations.map(usage),
            bytes: usage(require(quota.bytes, "bytes")?),
            rate_percent: quota.rate_percent,
        })
    }
}

fn usage(usage: repo::QuotaUsage) -> QuotaUsage {
    QuotaUsage { used: usage.used, limit: usage.limit, is_default: !usage.is_own }
}
