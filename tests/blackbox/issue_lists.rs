//! Lists of a repository's issues: every filter, combinations, and every order. `issue_pages`
//! covers pagination.

use std::time::Duration;

use serde_json::json;

use crate::harness::accounts::{after, before};
use crate::harness::{Cluster, User};

on_profiles! {
    both {
        get_issues_filters_by_state
        get_issues_filters_by_all_of_several_labels
        get_issues_filters_by_assignee_creator_and_milestone
        get_issues_filters_by_mentioned_user
        get_issues_q_searches_title_and_body
        get_issues_q_follows_edits
        get_issues_since_is_by_the_last_change
        get_issues_sorts_by_created_updated_and_comments
        get_issues_filters_can_be_combined
    }
    embedded {
        get_issues_type_tells_pull_requests_apart
        get_issues_refuses_words_it_does_not_know
        get_issues_q_takes_any_text
    }
}

struct Fixture {
    ada: User,
    bob: User,
    cy: User,
    repo: String,
    bug: i64,
    slow: i64,
    one: i64,
}

impl Fixture {
    /// Makes the issues:
    ///
    /// | number | creator | state | labels | assignee | milestone | comments |
    /// |---|---|---|---|---|---|---|
    /// | 1 | ada | open | bug | bob | One | |
    /// | 2 | bob | closed | bug, slow | | | |
    /// | 3 | cy | open | | | | 2 |
    /// | 4 | ada | open | slow | ada | Two | |
    /// | 5 | bob | closed | | cy | One | 1 |
    /// | 6 | cy | open | | | | |
    async fn new(cluster: &Cluster) -> Self {
        let (ada, bob, cy) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("cy").await);
        let repo = ada.new_tracker("lists", json!({})).await;
        ada.share(&repo, &bob, "write").await;
        let (bug, slow) = (ada.new_label(&repo, "Bug").await, ada.new_label(&repo, "slow").await);
        let (one, two) = (ada.new_milestone(&repo, "One").await, ada.new_milestone(&repo, "Two words").await);
        let first = json!({"body": "The parser fails.", "labels": [bug], "assignee": bob.name, "milestone": one});
        ada.new_issue(&repo, "Crash on start", first).await;
        let second = json!({"body": "Of the Parser", "labels": [bug, slow], "closed": true});
        bob.new_issue(&repo, "Slow search", second).await;
        cy.new_issue(&repo, "Docs are old", json!({})).await;
        let fourth = json!({"labels": [slow], "assignee": ada.name, "milestone": two});
        ada.new_issue(&repo, "PARSER: rewrite \u{dc}bel \u{65e5}\u{672c}\u{8a9e}", fourth).await;
        bob.new_issue(&repo, "crashes twice", json!({"closed": true, "assignee": cy.name, "milestone": one})).await;
        cy.new_issue(&repo, "Last", json!({"body": "snake_case and kebab-case v1.2"})).await;
        ada.new_comment(&repo, 3, "First").await;
        ada.new_comment(&repo, 5, "Second").await;
        ada.new_comment(&repo, 3, "Third").await;
        Self { ada, bob, cy, repo, bug, slow, one }
    }

    /// Fails unless a query finds these numbers in this order, with the right total.
    async fn finds(&self, query: &str, numbers: &[i64]) {
        let response = self.cy.get(&format!("{}/issues?{query}", self.repo)).await.expect(200);
        assert_eq!(response.ids("number"), numbers, "{query}");
        assert_eq!(response.header("x-total-count"), numbers.len().to_string(), "{query}");
    }

    async fn all_find(&self, expected: &[(&str, &[i64])]) {
        for (query, numbers) in expected {
            self.finds(query, numbers).await;
        }
    }
}

async fn get_issues_filters_by_state(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture
        .all_find(&[
            ("", &[6, 4, 3, 1]),
            ("state=", &[6, 4, 3, 1]),
            ("state=open", &[6, 4, 3, 1]),
            ("state=closed", &[5, 2]),
            ("state=all", &[6, 5, 4, 3, 2, 1]),
            ("labels=&assignee=&creator=&mentioned=&milestone=&q=&since=&sort=&direction=&type=", &[6, 4, 3, 1]),
        ])
        .await;
    for state in ["nonsense", "OPEN", "open,closed", "%00"] {
        for path in
            [format!("{}/issues", fixture.repo), format!("{}/milestones", fixture.repo), "/user/issues".to_owned()]
        {
            fixture.ada.get(&format!("{path}?state={state}")).await.refused_field("state");
        }
    }
    fixture.ada.edit_issue(&fixture.repo, 4, json!({"state": "closed"})).await;
    fixture.ada.edit_issue(&fixture.repo, 5, json!({"state": "open"})).await;
    fixture.all_find(&[("", &[6, 5, 3, 1]), ("state=closed", &[4, 2]), ("state=all", &[6, 5, 4, 3, 2, 1])]).await;
}

async fn get_issues_filters_by_all_of_several_labels(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let (ada, repo, bug, slow) = (&fixture.ada, &fixture.repo, fixture.bug, fixture.slow);
    let other = ada.new_tracker("other", json!({})).await;
    let foreign = ada.new_label(&other, "foreign").await;
    for (labels, numbers) in [
        ("bug".to_owned(), &[2, 1][..]),
        ("BUG".to_owned(), &[2, 1]),
        (bug.to_string(), &[2, 1]),
        ("slow".to_owned(), &[4, 2]),
        ("bug,slow".to_owned(), &[2]),
        (format!("slow,{bug}"), &[2]),
        (format!("{slow},{bug}"), &[2]),
        ("bug,bug".to_owned(), &[2, 1]),
        (format!("bug,{bug}"), &[2, 1]),
        ("bug%2Cslow".to_owned(), &[2]),
        ("nope".to_owned(), &[]),
        ("bug,nope".to_owned(), &[]),
        ("999999999".to_owned(), &[]),
        (foreign.to_string(), &[]),
        ("foreign".to_owned(), &[]),
    ] {
        fixture.finds(&format!("state=all&labels={labels}"), numbers).await;
    }
    fixture.all_find(&[("labels=bug", &[1]), ("labels=slow", &[4]), ("labels=bug,slow", &[])]).await;
    // Lists by label reflect renamed labels and edited issues.
    ada.patch(&format!("{repo}/labels/{bug}"), &json!({"name": "fault"})).await.expect(200);
    ada.edit_issue(repo, 1, json!({"state": "closed"})).await;
    fixture.all_find(&[("labels=fault&state=closed", &[2, 1]), ("labels=bug", &[]), ("labels=fault", &[])]).await;
    ada.put(&format!("{repo}/issues/1/labels"), &json!({"labels": [slow]})).await.expect(200);
    fixture.all_find(&[("labels=fault&state=all", &[2]), ("labels=slow&state=all", &[4, 2, 1])]).await;
    let many = vec!["x"; 101].join(",");
    let response = ada.get(&format!("{repo}/issues?labels={many}")).await;
    assert!(matches!(response.status.as_u16(), 200 | 422), "{}", response.text());
}

async fn get_issues_filters_by_assignee_creator_and_milestone(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let Fixture { ada, bob, cy, repo, one, .. } = &fixture;
    for (query, numbers) in [
        (format!("assignee={}", bob.name), &[1][..]),
        (format!("assignee={}", bob.name.to_uppercase()), &[1]),
        (format!("assignee={}", cy.name), &[]),
        (format!("assignee={}&state=all", cy.name), &[5]),
        ("assignee=none".to_owned(), &[6, 3]),
        ("assignee=none&state=all".to_owned(), &[6, 3, 2]),
        ("assignee=*".to_owned(), &[4, 1]),
        ("assignee=*&state=all".to_owned(), &[5, 4, 1]),
        ("assignee=no-such-user&state=all".to_owned(), &[]),
        ("assignee=%00".to_owned(), &[]),
        (format!("creator={}", ada.name), &[4, 1]),
        (format!("creator={}", ada.name.to_uppercase()), &[4, 1]),
        (format!("creator={}&state=closed", bob.name), &[5, 2]),
        (format!("creator={}&assignee={}&state=all", ada.name, bob.name), &[1]),
        ("creator=no-such-user&state=all".to_owned(), &[]),
        ("creator=a%20b".to_owned(), &[]),
        ("milestone=One".to_owned(), &[1]),
        ("milestone=oNE".to_owned(), &[1]),
        (format!("milestone={one}"), &[1]),
        ("milestone=One&state=all".to_owned(), &[5, 1]),
        ("milestone=Two+words".to_owned(), &[4]),
        ("milestone=Two%20words".to_owned(), &[4]),
        ("milestone=none".to_owned(), &[6, 3]),
        ("milestone=none&state=all".to_owned(), &[6, 3, 2]),
        ("milestone=*".to_owned(), &[4, 1]),
        ("milestone=*&state=all".to_owned(), &[5, 4, 1]),
        ("milestone=Three&state=all".to_owned(), &[]),
        ("milestone=999999999&state=all".to_owned(), &[]),
    ] {
        fixture.finds(&query, numbers).await;
    }
    ada.edit_issue(repo, 1, json!({"assignee": cy.name, "milestone": 0})).await;
    ada.edit_issue(repo, 5, json!({"assignee": ""})).await;
    fixture.finds(&format!("assignee={}&state=all", cy.name), &[1]).await;
    fixture.finds(&format!("assignee={}&state=all", bob.name), &[]).await;
    let expected: &[(&str, &[i64])] = &[
        ("assignee=none&state=all", &[6, 5, 3, 2]),
        ("milestone=One&state=all", &[5]),
        ("milestone=none", &[6, 3, 1]),
    ];
    fixture.all_find(expected).await;
}

async fn get_issues_filters_by_mentioned_user(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let Fixture { ada, bob, cy, repo, .. } = &fixture;
    let name = &bob.name;
    for (title, body) in [
        ("7 in the body", format!("Hello @{}, look", name.to_uppercase())),
        ("8 in code", format!("`@{name}`")),
        ("9 in a block", format!("```\n@{name}\n```\n\n    @{name}\n")),
        ("10 in an address", format!("mail a@{name}.example")),
        ("11 a longer name", format!("@{name}x and @{name}-y")),
        ("12 at the end", format!("(@{name})")),
    ] {
        ada.new_issue(repo, title, json!({ "body": body })).await;
    }
    // Titles do not count.
    ada.new_issue(repo, &format!("13 @{name}"), json!({})).await;
    let comment = cy.new_comment(repo, 2, &format!("What do you say, @{name}?")).await;
    let query = format!("state=all&mentioned={name}");
    fixture.finds(&query, &[12, 7, 2]).await;
    fixture.finds(&format!("mentioned={}", name.to_uppercase()), &[12, 7]).await;
    fixture.finds("mentioned=no-such-user", &[]).await;
    fixture.finds("mentioned=%00", &[]).await;
    let path = format!("{repo}/issues/comments/{comment}");
    cy.patch(&path, &json!({"body": "Nothing."})).await.expect(200);
    ada.edit_issue(repo, 12, json!({"body": ""})).await;
    ada.edit_issue(repo, 8, json!({"body": format!("@{name}")})).await;
    fixture.finds(&query, &[8, 7]).await;
    cy.patch(&path, &json!({"body": format!("@{name}")})).await.expect(200);
    fixture.finds(&query, &[8, 7, 2]).await;
    cy.delete(&path).await.expect(204);
    fixture.finds(&query, &[8, 7]).await;
}

async fn get_issues_q_searches_title_and_body(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let expected: &[(&str, &[i64])] = &[
        ("q=crash", &[1]),
        ("q=crash&state=all", &[5, 1]),
        ("q=CRASH&state=all", &[5, 1]),
        ("q=parser", &[4, 1]),
        ("q=parser&state=all", &[4, 2, 1]),
        ("q=pars+crash", &[1]),
        ("q=start%20fails", &[1]),
        ("q=fails+start", &[1]),
        ("q=parser+docs&state=all", &[]),
        ("q=nowhere&state=all", &[]),
        ("q=%C3%BCbel", &[4]),
        ("q=%C3%9CBEL", &[4]),
        ("q=%E6%97%A5%E6%9C%AC", &[4]),
        ("q=case", &[6]),
        ("q=v1.2", &[6]),
        ("q=kebab-case", &[6]),
        ("q=snake_case", &[6]),
        ("q=%22crash%22", &[1]),
        ("q=(crash)", &[1]),
        ("q=crash*", &[1]),
        ("q=First&state=all", &[]),
    ];
    fixture.all_find(expected).await;
    // The same text in another repository does not count.
    let other = fixture.ada.new_tracker("other", json!({})).await;
    fixture.ada.new_issue(&other, "Crash elsewhere", json!({})).await;
    fixture.finds("q=crash", &[1]).await;
    fixture.finds("q=elsewhere", &[]).await;
}

async fn get_issues_q_follows_edits(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("lists", json!({})).await;
    ada.new_issue(&repo, "Alpha", json!({"body": "Gamma delta"})).await;
    let found = async |word: &str| ada.issue_numbers(&repo, &format!("state=all&q={word}")).await;
    ada.edit_issue(&repo, 1, json!({"title": "Beta"})).await;
    assert_eq!((found("alpha").await, found("beta").await, found("gamma").await), (vec![], vec![1], vec![1]));
    ada.edit_issue(&repo, 1, json!({"body": "Delta omega"})).await;
    assert_eq!((found("gamma").await, found("beta").await, found("omega").await), (vec![], vec![1], vec![1]));
    assert_eq!((found("delta").await, found("beta+omega").await), (vec![1], vec![1]));
    ada.edit_issue(&repo, 1, json!({"body": "", "state": "closed"})).await;
    assert_eq!((found("omega").await, found("beta").await), (vec![], vec![1]));
    assert_eq!(ada.issue_numbers(&repo, "q=beta").await, [0; 0]);
}

async fn get_issues_q_takes_any_text(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let odd = [
        "%00",
        "%FF%FE",
        "%25",
        "_",
        "'",
        "%22",
        "%22%22",
        "%22OR%22",
        "*",
        "crash*start",
        "%5C",
        "-",
        "--",
        "(",
        ")",
        "NEAR(",
        "a:b",
        "title:crash",
        "%5E",
        "!",
        "%26",
        "%7C",
        "%3C-%3E",
        "crash%20AND",
        "NOT",
        ":*",
        "%0A%0D%09",
        "%F0%9F%98%80",
        "%CC%81",
        "%E2%80%8D",
        "%C4%B0",
        "%C3%9F",
        "%EF%AC%81",
        "0x",
        "1x2",
    ];
    let long = ["w".repeat(4_000), "w+".repeat(1_000), "%C3%A4".repeat(600)];
    for text in odd.into_iter().chain(long.iter().map(String::as_str)) {
        let response = fixture.ada.get(&format!("{}/issues?state=all&q={text}", fixture.repo)).await;
        assert_eq!(response.status, 200, "{text}: {}", response.text());
        assert!(response.json().is_array(), "{text}");
    }
    // Query operators are ordinary words.
    fixture.all_find(&[("q=crash+OR+docs&state=all", &[]), ("q=NOT+crash", &[]), ("q=-crash", &[1])]).await;
}

async fn get_issues_since_is_by_the_last_change(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("lists", json!({})).await;
    let past = before(Duration::from_secs(3600));
    ada.new_issue(&repo, "Old", json!({})).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let made = ada.new_issue(&repo, "New", json!({})).await;
    let since = made["updated_at"].as_str().unwrap();
    let numbers = async |since: &str| ada.issue_numbers(&repo, &format!("since={since}")).await;
    assert_eq!(numbers(&past).await, [2, 1]);
    assert_eq!(numbers(since).await, [2]);
    assert_eq!(numbers("0001-01-01T00:00:00Z").await, [2, 1]);
    assert_eq!(numbers(&after(Duration::from_secs(3600))).await, [0; 0]);
    assert_eq!(numbers("9999-12-31T23:59:59Z").await, [0; 0]);
    // The same second with an offset. Its plus may be sent unescaped, which a query decodes to a
    // blank.
    let local = chrono::DateTime::parse_from_rfc3339(since).unwrap();
    let local = local.with_timezone(&chrono::FixedOffset::east_opt(19_800).unwrap()).to_rfc3339();
    assert!(local.ends_with("+05:30"), "{local}");
    assert_eq!(numbers(&local).await, [2]);
    assert_eq!(numbers(&local.replace('+', "%2B")).await, [2]);
    assert_eq!(numbers(&since.replace('Z', ".000001Z")).await.len(), 1, "{since}");
    ada.new_comment(&repo, 1, "Again").await;
    assert_eq!(numbers(since).await, [2, 1], "a comment is a change");
    assert_eq!(ada.issue_numbers(&repo, &format!("since={since}&q=old")).await, [1]);
    assert_eq!(ada.issue_numbers(&repo, &format!("since={since}&state=closed")).await, [0; 0]);
    for wrong in ["yesterday", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T00:00:00Z", "1767315845", "%00", "2026"]
    {
        ada.get(&format!("{repo}/issues?since={wrong}")).await.refused_field("since");
    }
}

async fn get_issues_sorts_by_created_updated_and_comments(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let expected: &[(&str, &[i64])] = &[
        ("state=all&sort=created", &[6, 5, 4, 3, 2, 1]),
        ("state=all&direction=desc", &[6, 5, 4, 3, 2, 1]),
        ("state=all&direction=asc", &[1, 2, 3, 4, 5, 6]),
        ("state=all&sort=created&direction=asc", &[1, 2, 3, 4, 5, 6]),
        // The latest comments are on 5 and 3.
        ("state=all&sort=updated", &[3, 5, 6, 4, 2, 1]),
        ("state=all&sort=updated&direction=asc", &[1, 2, 4, 6, 5, 3]),
        ("sort=updated", &[3, 6, 4, 1]),
        ("state=closed&sort=updated", &[5, 2]),
        ("state=all&sort=comments", &[3, 5, 6, 4, 2, 1]),
        ("state=all&sort=comments&direction=asc", &[1, 2, 4, 6, 5, 3]),
        ("sort=comments&direction=asc", &[1, 4, 6, 3]),
        ("state=all&labels=bug&direction=asc", &[1, 2]),
        ("state=all&sort=updated&limit=50&labels=slow", &[4, 2]),
    ];
    fixture.all_find(expected).await;
    fixture.ada.edit_issue(&fixture.repo, 2, json!({"title": "Changed"})).await;
    fixture.ada.new_comment(&fixture.repo, 4, "One").await;
    fixture.ada.new_comment(&fixture.repo, 4, "Two").await;
    fixture.finds("state=all&sort=updated", &[4, 2, 3, 5, 6, 1]).await;
    fixture.finds("state=all&sort=comments", &[4, 3, 5, 6, 2, 1]).await;
    fixture.finds("state=all&sort=comments&direction=asc&q=parser", &[1, 2, 4]).await;
}

async fn get_issues_filters_can_be_combined(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let Fixture { ada, bob, cy, .. } = &fixture;
    for (query, numbers) in [
        (format!("labels=bug&assignee={}&milestone=One&creator={}&q=crash", bob.name, ada.name), &[1][..]),
        (format!("labels=bug&assignee={}&milestone=One&creator={}&q=docs", bob.name, ada.name), &[]),
        ("labels=bug&assignee=none&state=all".to_owned(), &[2]),
        ("labels=slow&milestone=none&state=closed".to_owned(), &[2]),
        ("labels=slow&milestone=*".to_owned(), &[4]),
        (format!("creator={}&labels=bug,slow&state=closed&sort=comments", bob.name), &[2]),
        (format!("creator={}&sort=comments&direction=asc", cy.name), &[6, 3]),
        ("assignee=*&milestone=One&state=all&sort=updated".to_owned(), &[5, 1]),
        ("assignee=none&milestone=none&q=last&since=2000-01-01T00:00:00Z".to_owned(), &[6]),
        ("assignee=none&assignee=*".to_owned(), &[6, 3]),
    ] {
        fixture.finds(&query, numbers).await;
    }
    let two = ada.get(&format!("{}/issues?state=all&milestone=*&limit=2", fixture.repo)).await.expect(200);
    assert_eq!((two.ids("number"), two.header("x-total-count")), (vec![5, 4], "3".to_owned()));
}

async fn get_issues_type_tells_pull_requests_apart(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let expected: &[(&str, &[i64])] = &[
        ("type=issues", &[6, 4, 3, 1]),
        ("type=all", &[6, 4, 3, 1]),
        ("type=all&state=all", &[6, 5, 4, 3, 2, 1]),
        ("type=pulls", &[]),
        ("type=pulls&state=all", &[]),
        ("type=pulls&q=parser", &[]),
    ];
    fixture.all_find(expected).await;
    let listed = fixture.ada.get(&format!("{}/issues?type=all", fixture.repo)).await.expect(200).json();
    assert!(listed.as_array().unwrap().iter().all(|issue| issue.get("pull_request").is_none()), "{listed}");
}

async fn get_issues_refuses_words_it_does_not_know(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let open = ada.new_tracker("open", json!({})).await;
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    for (field, wrong) in [
        ("sort", "number"),
        ("sort", "CREATED"),
        ("sort", "created,updated"),
        ("direction", "up"),
        ("direction", "ASC"),
        ("type", "pull"),
        ("type", "issue"),
        ("since", "now"),
    ] {
        let query = format!("issues?{field}={wrong}");
        ada.get(&format!("{open}/{query}")).await.refused_field(field);
        outsider.get(&format!("{hidden}/{query}")).await.refused(404);
        cluster.anonymous().get(&format!("{open}/{query}")).await.refused_field(field);
        cluster.anonymous().get(&format!("{hidden}/{query}")).await.refused(404);
    }
}
