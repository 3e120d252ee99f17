//! Texts of people stay texts, wherever pages show them: browsers find no element, attribute or
//! address in a page that its template and the sanitiser do not make.

use std::cell::{Cell, RefCell};

use reqwest::Url;

use super::closed::{self, PUBLIC_URL, ROOT};
use super::html::{self, MARK};
use super::stage::Stage;
use super::texts::{TEXTS, UNIVERSAL};
use crate::harness::concurrent::for_each;
use crate::harness::{Cluster, Response};

mod embedded {
    #[test]
    fn no_text_becomes_markup() {
        super::closed::run(super::no_text_becomes_markup);
    }
}

const AT_ONCE: usize = 6;

/// What was wrong, and how many pages showed a hostile text.
#[derive(Default)]
struct Judge {
    faults: RefCell<Vec<String>>,
    shown: Cell<usize>,
}

impl Judge {
    fn judge(&self, path: &str, response: &Response) {
        let (kind, text) = (response.header("content-type"), response.text());
        let mut faults = match kind.as_str() {
            "text/html; charset=utf-8" => {
                let (url, root) = (format!("{PUBLIC_URL}{path}"), format!("{PUBLIC_URL}/"));
                html::faults(&Url::parse(&url).unwrap(), &Url::parse(&root).unwrap(), &text)
            }
            // A feed has texts alone, and no element with attributes that people name.
            kind if kind.starts_with("application/atom+xml") => {
                let hostile = ["<u ", "<u/", "<u>", "<script", "<svg", "<img", "<!--"];
                hostile.iter().filter(|sign| text.contains(**sign)).map(|sign| (*sign).to_owned()).collect()
            }
            kind => vec![format!("{} with the type {kind:?}", response.status)],
        };
        if response.status.is_server_error() {
            faults.push(response.status.to_string());
        }
        if text.contains(&format!("=\"{ROOT}/{MARK}")) {
            faults.push("a text was taken for a link of the page".to_owned());
        }
        self.faults.borrow_mut().extend(faults.into_iter().map(|fault| format!("{path}: {fault}")));
        self.shown.set(self.shown.get() + usize::from(text.contains(MARK)));
    }
}

async fn no_text_becomes_markup(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    let (judge, pages, count) = (Judge::default(), stage.pages(), Cell::new(0));
    for_each(AT_ONCE, pages, async |path: String| {
        let response = closed::page(&stage.ada, &path).await;
        // Some addresses lead to others.
        if !response.status.is_redirection() {
            judge.judge(&path, &response);
            count.set(count.get() + 1);
        }
    })
    .await;
    for (path, fields) in forms(&stage) {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let response = closed::send(&stage.ada, &path, &fields).await;
        assert!(!response.status.is_redirection(), "{path} has no mistake");
        judge.judge(&path, &response);
        count.set(count.get() + 1);
    }
    let (faults, shown, count) = (judge.faults.into_inner(), judge.shown.get(), count.get());
    let first: Vec<_> = faults.iter().take(20).map(|fault| fault.chars().take(300).collect::<String>()).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), first.join("\n"));
    assert!(count > 120 && shown * 2 > count, "{shown} of {count} pages show a hostile text");
}

/// Forms that are shown again with what was typed, for a mistake or as a preview.
fn forms(stage: &Stage) -> Vec<(String, Vec<(&'static str, String)>)> {
    let (path, name, organization) = (&stage.path, &stage.ada.name, &stage.organization);
    let all = TEXTS.join("\n");
    let texts = |names: &[&'static str]| names.iter().map(|name| (*name, UNIVERSAL.to_owned())).collect::<Vec<_>>();
    let with = |names: &[&'static str], more: &[(&'static str, &str)]| {
        let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
        texts(names).into_iter().chain(more).collect::<Vec<_>>()
    };
    vec![
        ("/user/settings".to_owned(), texts(&["full_name", "location", "description", "website"])),
        ("/user/settings/keys".to_owned(), with(&["title", "key"], &[("action", "add")])),
        (
            "/user/settings/applications".to_owned(),
            with(&["name"], &[("action", "create"), ("scopes", "issue"), ("password", stage.ada.password.as_str())]),
        ),
        ("/user/settings/email".to_owned(), with(&["email"], &[("action", "add")])),
        ("/repo/create".to_owned(), texts(&["name", "description", "owner"])),
        ("/repo/migrate".to_owned(), texts(&["clone_addr", "repo_name", "description"])),
        ("/org/create".to_owned(), texts(&["username", "full_name"])),
        ("/-/admin/users/new".to_owned(), texts(&["username", "email", "full_name"])),
        (format!("/org/{organization}/settings"), texts(&["full_name", "website", "location", "description"])),
        (format!("{path}/issues/new"), with(&["title"], &[("preview", "1"), ("body", all.as_str())])),
        (format!("{path}/labels"), texts(&["name", "color", "description"])),
        (format!("{path}/milestones/new"), with(&["title"], &[("due_on", UNIVERSAL), ("description", all.as_str())])),
        (format!("{path}/branches"), texts(&["name", "new_branch_name", "old_branch_name"])),
        (format!("{path}/fork"), with(&["name"], &[("owner", name.as_str())])),
        (format!("{path}/settings/hooks/slack/new"), texts(&["url", "channel", "username", "events", "branch_filter"])),
        (format!("{path}/settings/keys"), with(&["title", "key"], &[("action", "add")])),
    ]
}
