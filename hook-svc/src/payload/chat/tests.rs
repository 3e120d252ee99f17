//! Compares chat messages with recordings of Gogs and with the templates of its other events.

use serde_json::{Value, json};

use crate::model::{ChatOptions, Format};
use crate::payload::delivery_text;
use crate::testing::recorded;

fn options() -> ChatOptions {
    ChatOptions {
        channel: Some("#dev".into()),
        username: Some("bot".into()),
        icon_url: Some("http://img.example.com/i.png".into()),
        color: Some("#36a64f".into()),
    }
}

fn message(format: Format, name: &str, payload: &Value) -> Value {
    let text = delivery_text(format, &options(), name, &payload.to_string()).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the visible lines of an event in Slack, Discord and DingTalk.
fn texts(name: &str, payload: &Value) -> [String; 3] {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let slack = message(Format::Slack, name, payload);
    let embed = message(Format::Discord, name, payload)["embeds"][0].clone();
    let title = text(&embed["title"]);
    let discord = if title.is_empty() { text(&embed["description"]) } else { title };
    let dingtalk = message(Format::Dingtalk, name, payload);
    [text(&slack["text"]), discord, text(&dingtalk["actionCard"]["text"])]
}

fn changed(name: &str, changes: &[(&str, Value)]) -> Value {
    let mut payload = recorded::json(name);
    for (path, value) in changes {
        *payload.pointer_mut(path).unwrap() = value.clone();
    }
    payload
}

#[test]
fn messages_of_a_push_are_those_of_gogs() {
    let push = recorded::body("native-push");
    for (format, name) in [(Format::Slack, "slack-push"), (Format::Discord, "discord-push")] {
        assert_eq!(delivery_text(format, &options(), "push", &push).unwrap(), recorded::body(name), "{name}");
    }
    let expected = recorded::body("dingtalk-push").replace("Gogs Notification", "Ferrite Notification");
    assert_eq!(delivery_text(Format::Dingtalk, &options(), "push", &push).unwrap(), expected);
    assert_eq!(delivery_text(Format::Native, &options(), "push", &push).unwrap(), push);
}

#[test]
fn a_new_issue_is_shown_by_slack_as_gogs_shows_it() {
    let opened = recorded::body("native-issues-opened");
    let text = delivery_text(Format::Slack, &options(), "issues", &opened).unwrap();
    assert_eq!(text, recorded::body("slack-issues-opened"));
}

#[test]
fn refs_have_their_templates() {
    let created = texts("create", &recorded::json("native-create-branch"));
    assert_eq!(
        created,
        [
            "[<http://git.example.com/bob/hooked|hooked>:<http://git.example.com/bob/hooked/src/feature/x|feature/x>] branch \
             created by bob",
            "Created new branch: [hooked](http://git.example.com/bob/hooked)/[feature/x](http://git.example.com/bob/hooked/src/feature/x)",
            "# New Branch Create Event\n- Repo: **[hooked](http://git.example.com/bob/hooked)**\n- New Branch: \
             **[feature/x](http://git.example.com/bob/hooked/src/feature/x)**",
        ]
    );
    let deleted = texts("delete", &recorded::json("native-delete-branch"));
    assert_eq!(
        deleted,
        [
            "[<http://git.example.com/bob/hooked|hooked>:feature/x] branch deleted by bob",
            "Deleted branch: [hooked](http://git.example.com/bob/hooked)/feature/x",
            "# Branch Delete Event\n- Repo: **[hooked](http://git.example.com/bob/hooked)**\n- Branch: **feature/x**",
        ]
    );
    assert_eq!(
        texts("fork", &recorded::json("native-fork"))[0],
        "<http://git.example.com/bob/hooked|hooked> is forked to <http://git.example.com/carol/hooked|carol/hooked>"
    );
    assert_eq!(
        texts("release", &recorded::json("native-release"))[..2],
        [
            "[<http://git.example.com/bob/hooked|hooked>] new release <http://git.example.com/bob/hooked/src/v3.0|v3.0> \
             published by bob",
            "Published new release [v3.0](http://git.example.com/bob/hooked/src/v3.0) of \
             [hooked](http://git.example.com/bob/hooked)",
        ]
    );
}

#[test]
fn a_push_without_new_commits_says_what_it_did() {
    let moved_back = changed("native-push", &[("/commits", json!([]))]);
    let [slack, discord, dingtalk] = texts("push", &moved_back);
    let url = moved_back["compare_url"].as_str().unwrap();
    assert!(slack.ends_with(&format!("] force-pushed <{url}|from e6195fb to f696c95> by bob")), "{slack}");
    assert!(discord.starts_with("Force-pushed [hooked]("), "{discord}");
    assert!(discord.ends_with(&format!("/src/master) [from `e6195fb` to `f696c95`]({url})")), "{discord}");
    assert!(dingtalk.ends_with("\n## Force-pushed from e6195fb to f696c95\n"), "{dingtalk}");

    let changes = [("/compare_url", json!("")), ("/commits", json!([])), ("/before", json!("0".repeat(40)))];
    let [slack, discord, dingtalk] = texts("push", &changed("native-push", &changes));
    assert!(slack.ends_with("] branch pushed at f696c95 by bob, without new commits"), "{slack}");
    assert!(discord.starts_with("Pushed branch [hooked]("), "{discord}");
    assert!(discord.ends_with(" at `f696c95`, without new commits"), "{discord}");
    assert!(dingtalk.ends_with("\n## Branch at f696c95, without new commits\n"), "{dingtalk}");
}

#[test]
fn a_push_without_a_comparison_has_no_link_to_one() {
    let push = changed("native-push", &[("/compare_url", json!(""))]);
    let [slack, discord, _] = texts("push", &push);
    assert!(slack.ends_with("] 2 new commits pushed by bob"), "{slack}");
    assert!(discord.starts_with("Pushed 2 new commits to ["), "{discord}");
    let mut push = recorded::json("native-push");
    push["total_commits"] = json!(70);
    assert!(texts("push", &push)[0].contains("|70 new commits>"));
}

#[test]
fn every_change_of_an_issue_has_its_words() {
    let dave = json!({"username": "dave"});
    let link = "<http://git.example.com/bob/hooked/issues/1|#1 New title>";
    let by = "<http://git.example.com/bob|bob>";
    for (action, slack, discord, dingtalk) in [
        ("closed", "closed", "closed", "Closed"),
        ("reopened", "re-opened", "re-opened", "Reopened"),
        ("edited", "edited", "edited", "Edited"),
        ("assigned", "assigned to <http://git.example.com/dave|dave>", "assigned", "Assigned"),
        ("unassigned", "unassigned", "unassigned", "Unassigned"),
        ("label_updated", "labels updated", "labels updated", "Label_updated"),
        ("label_cleared", "labels cleared", "labels cleared", "Label_cleared"),
        ("milestoned", "milestoned", "milestoned", "Milestoned"),
        ("demilestoned", "demilestoned", "demilestoned", "Demilestoned"),
    ] {
        let issue = [
            ("/action", json!(action)),
            ("/issue/assignee", dave.clone()),
            ("/issue/milestone", json!({"title": "v1"})),
            ("/issue/labels", json!([{"name": "bug"}, {"name": "ui"}])),
        ];
        let payload = changed("native-issues-edited", &issue);
        let [in_slack, in_discord, in_dingtalk] = texts("issues", &payload);
        assert_eq!(in_slack, format!("[bob/hooked] Issue {slack}: {link} by {by}"));
        assert_eq!(in_discord, format!("Issue {discord}: #1 New title"));
        assert!(
            in_dingtalk.starts_with(&format!("# Issue Event {dingtalk}\n- Issue: **[#1 New title](")),
            "{in_dingtalk}"
        );
        let fields = message(Format::Discord, "issues", &payload)["embeds"][0]["fields"].clone();
        let (expected, line) = match action {
            "assigned" => (json!([{"name": "New Assignee", "value": "dave"}]), "- New Assignee: **dave**"),
            "milestoned" => (json!([{"name": "New Milestone", "value": "v1"}]), "- New Milestone: **v1**"),
            "label_updated" => (json!([{"name": "Labels", "value": "bug, ui"}]), "- Labels: **bug,ui**"),
            _ => (json!([]), "> body & text"),
        };
        assert_eq!(fields, expected, "{action}");
        assert!(in_dingtalk.contains(line), "{in_dingtalk}");
    }
}

#[test]
fn a_pull_request_is_told_with_its_merge() {
    let link = "<http://git.example.com/bob/hooked/pulls/1|#1 New title>";
    let by = "<http://git.example.com/bob|bob>";
    let mut payload = recorded::json("native-issues-edited");
    let mut pull = payload.as_object_mut().unwrap().remove("issue").unwrap();
    pull["html_url"] = json!("http://git.example.com/bob/hooked/pulls/1");
    for (action, is_merged, words, heading) in [
        ("closed", false, "closed", "Closed"),
        ("closed", true, "merged", "Merged"),
        ("reopened", false, "re-opened", "Reopened"),
        ("synchronized", false, "synchronized", "Synchronized"),
        ("edited", true, "edited", "Edited"),
    ] {
        (payload["action"], pull["merged"]) = (json!(action), json!(is_merged));
        payload["pull_request"] = pull.clone();
        let [slack, discord, dingtalk] = texts("pull_request", &payload);
        assert_eq!(slack, format!("[bob/hooked] Pull request {words}: {link} by {by}"));
        assert_eq!(discord, format!("Pull request {words}: #1 New title"));
        let start = format!("# Pull Request Event {heading}\n- Pull Request: **[#1 New title](");
        assert!(dingtalk.starts_with(&start), "{dingtalk}");
    }
    payload["action"] = json!("opened");
    let [slack, discord, _] = texts("pull_request", &payload);
    assert_eq!(slack, format!("[bob/hooked] New pull request created by {by}"));
    assert_eq!(discord, "New pull request: #1 New title");
}

#[test]
fn reviews_and_requests_for_them_have_their_words() {
    let mut payload = recorded::json("native-issues-edited");
    let mut pull = payload.as_object_mut().unwrap().remove("issue").unwrap();
    pull["html_url"] = json!("http://git.example.com/bob/hooked/pulls/1");
    payload["pull_request"] = pull;
    let link = "<http://git.example.com/bob/hooked/pulls/1|#1 New title>";
    let by = "<http://git.example.com/bob|bob>";
    payload["action"] = json!("reviewed");
    for (name, verdict, heading) in [
        ("pull_request_approved", "approved", "Approved"),
        ("pull_request_rejected", "rejected", "Rejected"),
        ("pull_request_comment", "comment", "Comment"),
    ] {
        payload["review"] = json!({"type": format!("pull_request_review_{verdict}"), "content": "Looks <good>"});
        let [slack, discord, dingtalk] = texts(name, &payload);
        assert_eq!(slack, format!("[bob/hooked] Pull request review {verdict}: {link} by {by}"));
        assert_eq!(discord, format!("Pull request review {verdict}: #1 New title"));
        let start = format!("# Pull Request Review {heading}\n- Pull Request: **[#1 New title](");
        assert!(dingtalk.starts_with(&start) && dingtalk.ends_with("\n> Looks <good>"), "{dingtalk}");
        assert_eq!(message(Format::Slack, name, &payload)["attachments"][0]["text"], "Looks &lt;good&gt;");
        assert_eq!(message(Format::Discord, name, &payload)["embeds"][0]["description"], "Looks <good>");
    }
    payload["review"] = json!(null);
    let of_user = (json!({"username": "dave"}), json!(null), "dave");
    let of_team = (json!(null), json!({"id": 3, "name": "core"}), "core");
    for (user, team, asked) in [of_user, of_team] {
        payload["action"] = json!("review_requested");
        (payload["requested_reviewer"], payload["requested_team"]) = (user, team);
        let [slack, discord, dingtalk] = texts("pull_request", &payload);
        assert_eq!(slack, format!("[bob/hooked] Pull request review requested from {asked}: {link} by {by}"));
        assert_eq!(discord, "Pull request review requested: #1 New title");
        assert!(dingtalk.contains(&format!("\n- Requested Reviewer: **{asked}**\n")), "{dingtalk}");
        let fields = &message(Format::Discord, "pull_request", &payload)["embeds"][0]["fields"];
        assert_eq!(*fields, json!([{"name": "Requested Reviewer", "value": asked}]));
        payload["action"] = json!("review_request_removed");
        let [slack, ..] = texts("pull_request", &payload);
        assert_eq!(slack, format!("[bob/hooked] Pull request review request removed: {link} by {by}"));
    }
}

#[test]
fn comments_have_their_templates() {
    for (action, slack, discord, anchor) in [
        ("created", "New comment created", "New comment", "#issuecomment-6"),
        ("edited", "Comment edited", "Comment edited", "#issuecomment-6"),
        ("deleted", "Comment deleted", "Comment deleted", ""),
    ] {
        let payload = changed("native-issue-comment-created", &[("/action", json!(action))]);
        let [in_slack, in_discord, in_dingtalk] = texts("issue_comment", &payload);
        assert_eq!(in_slack, format!("[bob/hooked] {slack} by <http://git.example.com/carol|carol>"));
        assert_eq!(in_discord, format!("{discord}: #1 New title"));
        assert!(in_dingtalk.ends_with("\n- Comment content: \n> hi *there*"), "{in_dingtalk}");
        let attachment = &message(Format::Slack, "issue_comment", &payload)["attachments"][0];
        let url = format!("http://git.example.com/bob/hooked/issues/1{anchor}");
        assert_eq!(attachment["title"], format!("<{url}|#1 New title>"));
        assert_eq!(message(Format::Discord, "issue_comment", &payload)["embeds"][0]["url"], url);
    }
}

#[test]
fn changes_of_repositories_and_tests_are_shown() {
    let mut payload = recorded::json("native-push");
    payload["action"] = json!("renamed");
    payload["changes"] = json!({"name": {"from": "a<b"}});
    let [slack, discord, dingtalk] = texts("repository", &payload);
    assert_eq!(
        slack,
        "Repository <http://git.example.com/bob/hooked|bob/hooked> renamed by <http://git.example.com/bob|bob>"
    );
    assert_eq!(discord, "Repository renamed: [bob/hooked](http://git.example.com/bob/hooked)\nname: was a<b");
    assert!(dingtalk.contains("\n- Name: was a<b"), "{dingtalk}");
    for text in texts("ping", &payload) {
        assert!(text.contains("hooked"), "{text}");
    }
    assert!(delivery_text(Format::Slack, &options(), "wiki", "{}").is_err());
    assert!(delivery_text(Format::Slack, &options(), "push", "{}").is_err());
}

#[test]
fn long_texts_are_cut_to_what_the_service_takes() {
    let body = json!("\u{e4}".repeat(70_000));
    let payload = changed("native-issues-opened", &[("/issue/body", body)]);
    let embed = &message(Format::Discord, "issues", &payload)["embeds"][0];
    assert_eq!(embed["description"].as_str().unwrap().chars().count(), 4096);
    let dingtalk = message(Format::Dingtalk, "issues", &payload).to_string();
    assert!(dingtalk.len() < 20_000);
}
