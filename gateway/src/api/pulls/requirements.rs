//! The requirements of the merge of a pull request, and whether the caller can merge it now. issue-svc and
//! git-svc know it from what they check a merge with.

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::{MergeStyle, User, shape, word_shape};
use ferrite_proto::git::{
    self, GetMergeRequirementsRequest, GetMergeRequirementsResponse, MergeObstacle, MergeRequirementKind, MergeReviews,
    PullEnds,
};
use ferrite_proto::issue::{GetMergeReviewsRequest, IssueState, PullRequest};
use ferrite_proto::operation;
use ferrite_proto::repo::PullSettings;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;

use super::MERGE_TIMEOUT;
use crate::api::call::{ApiCall, MaybeAuthenticated, operations};
use crate::api::git::response::read_error;
use crate::http::error::{ApiError, ApiResult};
use crate::http::path::{Params, RepoPath};
use crate::http::response::Json;

const STYLES: [git::MergeStyle; 5] = [
    git::MergeStyle::Merge,
    git::MergeStyle::Rebase,
    git::MergeStyle::RebaseMerge,
    git::MergeStyle::Squash,
    git::MergeStyle::FastForwardOnly,
];

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/merge-requirements" =>
        get requirements as operation::GET_MERGE_REQUIREMENTS;
}

shape! {
    /// The requirements of the merge of a pull request.
    #[derive(Clone, Debug, Serialize)]
    struct MergeRequirements {
        /// True if all requirements are met: the caller can merge now.
        can_merge: bool,
        /// The commit of the head that this is about.
        head_commit_id: String,
        /// True if the base has commits that the head lacks.
        behind: bool,
        /// True if another open pull request has the same head branch: a merge does not delete it
        /// then.
        head_shared: bool,
        /// The styles that the settings of the repository allow.
        merge_styles: Vec<MergeStyle>,
        /// The users whose approvals and rejections count: those who have write permission now. Empty
        /// for one that is not open.
        counted_reviewers: Vec<User>,
        /// In the order in which a merge checks them. One that is not open has only that one.
        requirements: Vec<MergeRequirement>,
    }
}

shape! {
    /// Something that a merge needs.
    #[derive(Clone, Debug, Serialize)]
    struct MergeRequirement {
        kind: RequirementKind,
        met: bool,
        /// The `reason` of the response to a merge without it. Null if it is met.
        reason: Option<String>,
        /// What it is, or what is missing.
        message: String,
        /// The context of a check, in which `*` is any text. Left out for others.
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// The number of approvals that count. Left out for others.
        #[serde(skip_serializing_if = "Option::is_none")]
        approvals: Option<i64>,
        /// The number of approvals that are wanted. Left out for others.
        #[serde(skip_serializing_if = "Option::is_none")]
        required_approvals: Option<i64>,
    }
}

word_shape! {
    /// One requirement of a merge.
    #[derive(Clone, Copy, Debug)]
    enum RequirementKind {
        /// The caller has write permission, and the repository is not archived.
        Permission = "permission",
        /// The pull request is neither closed nor merged.
        Open = "open",
        /// The settings allow a style that is possible.
        Style = "style",
        /// It is no draft.
        Ready = "ready",
        /// The caller is among those whom the protection of the base lets merge.
        Merger = "merger",
        /// The head has all commits of the base.
        UpToDate = "up_to_date",
        /// A status of the head.
        Check = "check",
        /// Enough reviewers approve it.
        Approvals = "approvals",
        /// No reviewer rejects it.
        NoRejection = "no_rejection",
        /// All requested reviews are given.
        RequestedReviews = "requested_reviews",
        /// Head and base fit together.
        Mergeable = "mergeable"
    }
}

impl MergeRequirement {
    fn met(kind: RequirementKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            met: true,
            reason: None,
            message: message.into(),
            context: None,
            approvals: None,
            required_approvals: None,
        }
    }

    fn missing(kind: RequirementKind, reason: &str, message: impl Into<String>) -> Self {
        Self { met: false, reason: Some(reason.to_owned()), ..Self::met(kind, message) }
    }

    /// `met` and `missing` are the messages; the reason of what is missing is `PROTECTED_BRANCH`.
    fn of_rule(kind: RequirementKind, is_met: bool, (met, missing): (&str, &str)) -> Self {
        if is_met { Self::met(kind, met) } else { Self::missing(kind, "PROTECTED_BRANCH", missing) }
    }

    fn of_protection(found: git::MergeRequirement) -> Result<Self, MissingField> {
        use RequirementKind::{Approvals, Check, Merger, NoRejection, RequestedReviews, UpToDate};
        let is_met = found.is_met;
        Ok(match found.kind() {
            MergeRequirementKind::Merger if is_met => Self::met(Merger, "you are allowed to merge into the base"),
            MergeRequirementKind::Merger => {
                Self::missing(Merger, "MERGE_FORBIDDEN", "you are not allowed to merge into the base")
            }
            MergeRequirementKind::CurrentHead => {
                let messages = ("the head has all commits of the base", "the head is behind the base");
                Self::of_rule(UpToDate, is_met, messages)
            }
            MergeRequirementKind::Check => {
                let name = match found.context.as_str() {
                    "*" => "all checks".to_owned(),
                    context => format!("check `{context}`"),
                };
                let missing = if found.is_reported { "not succeeded yet" } else { "not reported" };
                let messages = (format!("{name}: succeeded"), format!("{name}: {missing}"));
                let context = Some(found.context);
                Self { context, ..Self::of_rule(Check, is_met, (&messages.0, &messages.1)) }
            }
            MergeRequirementKind::Approvals => {
                let (approvals, required): (i64, i64) = (found.approval_count.into(), found.required_approvals.into());
                let message = format!("the pull request has {approvals} of {required} required approvals");
                let shown = Self::of_rule(Approvals, is_met, (&message, &message));
                Self { approvals: Some(approvals), required_approvals: Some(required), ..shown }
            }
            MergeRequirementKind::NoRejection => {
                let messages = ("no reviewer requests changes", "a reviewer requests changes of the pull request");
                Self::of_rule(NoRejection, is_met, messages)
            }
            MergeRequirementKind::NoRequest => {
                let messages = ("all requested reviews are given", "a requested review of the pull request is missing");
                Self::of_rule(RequestedReviews, is_met, messages)
            }
            MergeRequirementKind::Unspecified => return Err(MissingField("kind")),
        })
    }

    fn of_obstacle(obstacle: MergeObstacle) -> Self {
        let missing = |reason, message: &str| Self::missing(RequirementKind::Mergeable, reason, message);
        match obstacle {
            MergeObstacle::Unspecified => Self::met(RequirementKind::Mergeable, "head and base have no conflicts"),
            MergeObstacle::NoBase => missing("BRANCH_NOT_FOUND", "the base branch does not exist"),
            MergeObstacle::NoCommit => missing("COMMIT_NOT_FOUND", "a commit of the pull request does not exist"),
            MergeObstacle::NoCommonHistory => missing("NO_COMMON_HISTORY", "head and base have no common history"),
            MergeObstacle::NothingToMerge => missing("NOTHING_TO_MERGE", "the base has all commits of the head"),
            MergeObstacle::Conflict => missing("MERGE_CONFLICT", "head and base have conflicts"),
            MergeObstacle::Rejected => missing("TOO_LARGE", "the merge is too large, or git does not allow it"),
        }
    }

    /// Whether a style is left; `behind` is whether the base has commits of its own.
    fn of_styles(allowed: &[git::MergeStyle], behind: bool) -> Self {
        let is_possible = |style: &&git::MergeStyle| !behind || **style != git::MergeStyle::FastForwardOnly;
        let missing = |reason, message: &str| Self::missing(RequirementKind::Style, reason, message);
        match allowed.iter().find(is_possible) {
            Some(_) => Self::met(RequirementKind::Style, "the settings of the repository allow a style of merging"),
            None if allowed.is_empty() => {
                missing("STYLE_NOT_ALLOWED", "the settings of the repository do not allow any style of merging")
            }
            None => missing("NOT_FAST_FORWARD", "only fast-forwards are allowed, and the base has newer commits"),
        }
    }
}

async fn requirements(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<MergeRequirements>> {
    // Of two refusals, that of the pull request counts.
    let (pulls, git, permission) = tokio::join!(
        call.access(&path, operation::GET_MERGE_REVIEWS),
        call.access(&path, operation::GET_MERGE_REQUIREMENTS),
        permission(&call, &path),
    );
    let (pulls, git) = (pulls?, git?);
    let request = GetMergeReviewsRequest { repository_id: pulls.id, number: params.id("index") };
    let request = call.request_with_grant(&pulls.grant, request);
    let found = call.clients.pulls().get_merge_reviews(request).await?.into_inner();
    let mut pull = require(found.pull, "pull")?;
    let ends = require(pull.pull_request.take(), "pull_request")?;
    let styles: Vec<_> = STYLES.into_iter().filter(|style| is_allowed(*style, &pulls.pulls)).collect();
    let (permission, head_shared) = (permission?, found.is_head_shared);
    if pull.state() != IssueState::Open {
        return Ok(Json(MergeRequirements { head_shared, ..MergeRequirements::of_closed(&ends, &styles)? }));
    }
    let counted: Vec<_> = found.reviews.iter().flat_map(reviewers).collect();
    let request = GetMergeRequirementsRequest {
        repository_id: git.id,
        pull: Some(PullEnds { base_branch: ends.base_branch.clone(), head_id: ends.head_id.clone() }),
        reviews: found.reviews,
    };
    let request = with_timeout(call.request_with_grant(&git.grant, request), MERGE_TIMEOUT);
    let known = async {
        let known = call.clients.merges().get_merge_requirements(request).await.map_err(read_error)?;
        Ok::<_, ApiError>(known.into_inner())
    };
    let accounts = call.accounts_beside_caller(&pulls, counted.iter().copied());
    let (known, accounts) = tokio::try_join!(known, accounts)?;
    let counted_reviewers = counted.into_iter().map(|id| accounts.by_id(id, &call.links)).collect();
    let shown = MergeRequirements::of_open(permission, &ends, &styles, known)?;
    Ok(Json(MergeRequirements { head_shared, counted_reviewers, ..shown }))
}

/// Returns the users whose reviews count.
fn reviewers(reviews: &MergeReviews) -> impl Iterator<Item = i64> {
    let MergeReviews { approver_ids, stale_approver_ids, rejecter_ids, has_requests: _ } = reviews;
    [approver_ids, stale_approver_ids, rejecter_ids].into_iter().flatten().copied()
}

fn is_allowed(style: git::MergeStyle, settings: &PullSettings) -> bool {
    match style {
        git::MergeStyle::Unspecified => false,
        git::MergeStyle::Merge => settings.allow_merge,
        git::MergeStyle::Rebase => settings.allow_rebase,
        git::MergeStyle::RebaseMerge => settings.allow_rebase_merge,
        git::MergeStyle::Squash => settings.allow_squash,
        git::MergeStyle::FastForwardOnly => settings.allow_fast_forward_only,
    }
}

/// Asks whether the caller may merge in the repository at all.
async fn permission(call: &ApiCall, path: &RepoPath) -> ApiResult<MergeRequirement> {
    let kind = RequirementKind::Permission;
    if call.is_anonymous() {
        return Ok(MergeRequirement::missing(kind, "CREDENTIALS_REQUIRED", "credentials are required"));
    }
    match call.access(path, operation::MERGE_PULL).await {
        Ok(_) => Ok(MergeRequirement::met(kind, "you have write permission")),
        Err(error) if error.status.is_client_error() && error.retry_after().is_none() => {
            let reason = error.reason().unwrap_or("PERMISSION_REQUIRED");
            Ok(MergeRequirement::missing(kind, reason, error.message()))
        }
        Err(error) => Err(error),
    }
}

fn shown(styles: &[git::MergeStyle]) -> Result<Vec<MergeStyle>, MissingField> {
    styles.iter().map(|style| MergeStyle::new(*style)).collect()
}

impl MergeRequirements {
    fn of_closed(ends: &PullRequest, styles: &[git::MergeStyle]) -> Result<Self, MissingField> {
        let (reason, message) = match ends.is_merged {
            true => ("ALREADY_MERGED", "pull request is already merged"),
            false => ("PULL_CLOSED", "pull request is closed"),
        };
        Ok(Self {
            can_merge: false,
            head_commit_id: ends.head_id.clone(),
            behind: false,
            head_shared: false,
            merge_styles: shown(styles)?,
            counted_reviewers: Vec::new(),
            requirements: vec![MergeRequirement::missing(RequirementKind::Open, reason, message)],
        })
    }

    fn of_open(
        permission: MergeRequirement,
        ends: &PullRequest,
        styles: &[git::MergeStyle],
        known: GetMergeRequirementsResponse,
    ) -> Result<Self, MissingField> {
        let (obstacle, behind) = (known.obstacle(), known.is_behind);
        let ready = match ends.is_draft {
            true => MergeRequirement::missing(RequirementKind::Ready, "IS_DRAFT", "pull request is a draft"),
            false => MergeRequirement::met(RequirementKind::Ready, "pull request is no draft"),
        };
        let mut requirements = vec![
            permission,
            MergeRequirement::met(RequirementKind::Open, "pull request is open"),
            MergeRequirement::of_styles(styles, behind),
            ready,
        ];
        for found in known.requirements {
            requirements.push(MergeRequirement::of_protection(found)?);
        }
        requirements.push(MergeRequirement::of_obstacle(obstacle));
        Ok(Self {
            can_merge: requirements.iter().all(|requirement| requirement.met),
            head_commit_id: ends.head_id.clone(),
            behind,
            head_shared: false,
            merge_styles: shown(styles)?,
            counted_reviewers: Vec::new(),
            requirements,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(is_draft: bool, styles: &[git::MergeStyle], known: GetMergeRequirementsResponse) -> MergeRequirements {
        let permission = MergeRequirement::met(RequirementKind::Permission, "");
        MergeRequirements::of_open(permission, &PullRequest { is_draft, ..Default::default() }, styles, known).unwrap()
    }

    fn reasons(found: &MergeRequirements) -> Vec<&str> {
        found.requirements.iter().filter_map(|requirement| requirement.reason.as_deref()).collect()
    }

    #[test]
    fn what_is_missing_has_the_reason_of_the_refusal() {
        let all = [git::MergeStyle::Merge, git::MergeStyle::FastForwardOnly];
        let known = GetMergeRequirementsResponse::default;
        let found = open(false, &all, known());
        assert!(found.can_merge && reasons(&found).is_empty() && found.requirements.len() == 5);
        for (obstacle, reason) in [
            (MergeObstacle::NoBase, "BRANCH_NOT_FOUND"),
            (MergeObstacle::NoCommonHistory, "NO_COMMON_HISTORY"),
            (MergeObstacle::NothingToMerge, "NOTHING_TO_MERGE"),
            (MergeObstacle::Conflict, "MERGE_CONFLICT"),
        ] {
            let found = open(false, &all, GetMergeRequirementsResponse { obstacle: obstacle.into(), ..known() });
            assert_eq!((found.can_merge, reasons(&found)), (false, vec![reason]));
        }
        assert_eq!(reasons(&open(true, &[], known())), ["STYLE_NOT_ALLOWED", "IS_DRAFT"]);
        let behind = || GetMergeRequirementsResponse { is_behind: true, ..known() };
        assert_eq!(reasons(&open(false, &all[1..], behind())), ["NOT_FAST_FORWARD"]);
        assert!(open(false, &all[1..], known()).can_merge && open(false, &all, behind()).can_merge);
    }

    #[test]
    fn what_the_protection_requires_is_shown_with_its_numbers() {
        let of = |kind: MergeRequirementKind| git::MergeRequirement { kind: kind.into(), ..Default::default() };
        let check = git::MergeRequirement { context: "ci/*".into(), ..of(MergeRequirementKind::Check) };
        let failed = git::MergeRequirement { is_reported: true, context: "*".into(), ..check.clone() };
        let approvals = git::MergeRequirement {
            is_met: true,
            approval_count: 2,
            required_approvals: 1,
            ..of(MergeRequirementKind::Approvals)
        };
        let requirements = vec![of(MergeRequirementKind::Merger), check, failed, approvals];
        let known = GetMergeRequirementsResponse { requirements, ..Default::default() };
        let found = open(false, &STYLES, known);
        let shown = serde_json::to_value(&found.requirements[4..8]).unwrap();
        let expected = serde_json::json!([
            {"kind": "merger", "met": false, "reason": "MERGE_FORBIDDEN",
             "message": "you are not allowed to merge into the base"},
            {"kind": "check", "met": false, "reason": "PROTECTED_BRANCH", "context": "ci/*",
             "message": "check `ci/*`: not reported"},
            {"kind": "check", "met": false, "reason": "PROTECTED_BRANCH", "context": "*",
             "message": "all checks: not succeeded yet"},
            {"kind": "approvals", "met": true, "reason": null, "approvals": 2, "required_approvals": 1,
             "message": "the pull request has 2 of 1 required approvals"},
        ]);
        assert_eq!(shown, expected);
    }
}
