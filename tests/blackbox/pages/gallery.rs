//! All pages in a browser, in both themes and on a narrow screen: axe-core finds no fault, the
//! console stays empty, and nothing comes from other hosts. With `FERRITE_TEST_PICTURES`, a folder,
//! a picture of each is kept.

use std::path::PathBuf;

use serde_json::Value;

use super::showcase::Showcase;
use crate::harness::browser::Browser;
use crate::harness::{Profile, User, run};

const FOLDER_VARIABLE: &str = "FERRITE_TEST_PICTURES";
const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/node/node_modules/axe-core/axe.min.js");
/// The numbers of lines are as high as the lines of code beside them, which the criterion allows.
const SIZED: &str =
    "axe.configure({rules: [{id: 'target-size', selector: '*:not(td.no a):not(a[href^=\"#L\"]):not(a.remark)'}]})";
const WIDTHS: [u32; 3] = [360, 800, 1280];
const RULES: &str = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']";

mod embedded {
    #[test]
    fn all_pages_are_accessible_and_fit_their_screen() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let showcase = runtime.block_on(super::Showcase::new(super::Profile::Embedded));
        super::run(&showcase.cluster, super::all_pages_are_accessible_and_fit_their_screen(&showcase));
    }
}

/// Pages by the name of their picture, as Ada sees them.
fn pages(site: &Showcase) -> Vec<(&'static str, String)> {
    let Showcase { path, commit, issue, pull, merged, milestone, label, hook, organization, .. } = site;
    let at = |rest: String| format!("{path}{rest}");
    let mut pages = vec![
        ("front", "/".to_owned()),
        ("explore", "/explore/repos".to_owned()),
        ("explore-users", "/explore/users".to_owned()),
        ("explore-organizations", "/explore/organizations".to_owned()),
        ("search", "/search?q=lantern".to_owned()),
        ("search-issues", "/search?q=lamp&type=issues".to_owned()),
        ("user", "/ada".to_owned()),
        ("organization", format!("/{organization}")),
        ("members", format!("/org/{organization}/members")),
        ("teams", format!("/org/{organization}/teams")),
        ("team", format!("/org/{organization}/teams/makers")),
        ("team-repositories", format!("/org/{organization}/teams/makers/repositories")),
        ("team-edit", format!("/org/{organization}/teams/makers/edit")),
        ("organization-settings", format!("/org/{organization}/settings")),
        ("organization-delete", format!("/org/{organization}/settings/delete")),
        ("organization-labels", format!("/org/{organization}/settings/labels")),
        ("import", "/repo/migrate".to_owned()),
        ("imports", "/repo/migrations".to_owned()),
        ("repository", path.clone()),
        ("empty", "/ada/empty".to_owned()),
        ("folder", at("/src/branch/main/src".to_owned())),
        ("file", at("/src/branch/main/src/lamp.rs".to_owned())),
        ("markdown", at("/src/branch/main/docs/guide.md".to_owned())),
        ("picture", at("/src/branch/main/docs/lamp.svg".to_owned())),
        ("file-edit", at("/_edit/main/docs/guide.md".to_owned())),
        ("file-delete", at("/_delete/main/docs/guide.md".to_owned())),
        ("file-find", at("/find/branch/main?q=lamp".to_owned())),
        ("file-upload", at("/_upload/main/docs".to_owned())),
        ("blame", at("/blame/branch/main/src/lamp.rs".to_owned())),
        ("commits", at("/commits/branch/main".to_owned())),
        ("commit", at(format!("/commit/{commit}"))),
        ("commit-split", at(format!("/commit/{}?style=split", site.head))),
        ("compare", at("/compare/main...short-builds".to_owned())),
        ("branches", at("/branches".to_owned())),
        ("tags", at("/tags".to_owned())),
        ("releases", at("/releases".to_owned())),
        ("release-new", at("/releases/new".to_owned())),
        ("release-edit", at("/releases/edit/v0.1.0".to_owned())),
        ("release-file", at(site.release_file.clone())),
        ("issues", at("/issues".to_owned())),
        ("issue", at(format!("/issues/{issue}"))),
        ("issue-new", at("/issues/new".to_owned())),
        ("issue-edit", at(format!("/issues/{issue}/edit"))),
        ("labels", at("/labels".to_owned())),
        ("label-edit", at(format!("/labels/{label}/edit"))),
        ("milestones", at("/milestones".to_owned())),
        ("milestone", at(format!("/milestone/{milestone}"))),
        ("milestone-new", at("/milestones/new".to_owned())),
        ("pulls", at("/pulls".to_owned())),
        ("pull", at(format!("/pulls/{pull}"))),
        ("pull-merged", at(format!("/pulls/{merged}"))),
        ("pull-files", at(format!("/pulls/{pull}/files"))),
        ("pull-files-split", at(format!("/pulls/{pull}/files?style=split"))),
        ("pull-commits", at(format!("/pulls/{pull}/commits"))),
        ("pull-new", at("/pulls/new".to_owned())),
        ("pull-compare", at("/pulls/new/main...short-builds".to_owned())),
        ("stars", at("/stars".to_owned())),
        ("watchers", at("/watchers".to_owned())),
        ("forks", at("/forks".to_owned())),
        ("fork", at("/fork".to_owned())),
        ("my-issues", "/issues".to_owned()),
        ("my-pulls", "/pulls".to_owned()),
        ("repository-new", "/repo/create".to_owned()),
        ("organization-new", "/org/create".to_owned()),
        ("repository-settings", at("/settings".to_owned())),
        ("repository-settings-branches", at("/settings/branches".to_owned())),
        ("repository-settings-collaborators", at("/settings/collaboration".to_owned())),
        ("repository-settings-keys", at("/settings/keys".to_owned())),
        ("repository-settings-rule", at("/settings/branches/edit".to_owned())),
        ("transfers", "/user/transfers".to_owned()),
        ("repository-settings-hooks", at("/settings/hooks".to_owned())),
        ("repository-settings-hook", at(format!("/settings/hooks/{hook}"))),
        ("repository-settings-deliveries", at(format!("/settings/hooks/{hook}/deliveries"))),
        ("repository-settings-hook-new", at("/settings/hooks/gitea/new".to_owned())),
        ("organization-hooks", format!("/org/{organization}/settings/hooks")),
        ("wiki", at("/wiki".to_owned())),
        ("wiki-page", at("/wiki/Home".to_owned())),
        ("wiki-pages", at("/wiki/_pages".to_owned())),
        ("wiki-edit", at("/wiki/Home/_edit".to_owned())),
        ("settings", "/user/settings".to_owned()),
        ("settings-picture", "/user/settings/avatar".to_owned()),
        ("settings-password", "/user/settings/password".to_owned()),
        ("user-activity", "/ada?tab=activity".to_owned()),
        ("settings-email", "/user/settings/email".to_owned()),
        ("settings-keys", "/user/settings/keys".to_owned()),
        ("settings-tokens", "/user/settings/applications".to_owned()),
        ("settings-sessions", "/user/settings/sessions".to_owned()),
        ("sign-out", "/user/logout".to_owned()),
        ("missing", at("/no-such-page".to_owned())),
    ];
    pages.sort_by_key(|(name, _)| *name);
    pages
}

/// Pages as an administrator of the site sees them.
const ADMINISTRATION: [(&str, &str); 11] = [
    ("admin-users", "/-/admin/users"),
    ("admin-user-new", "/-/admin/users/new"),
    ("admin-user", "/-/admin/users/ada/edit"),
    ("admin-user-quota", "/-/admin/users/ada/quota"),
    ("admin-user-keys", "/-/admin/users/ada/keys"),
    ("admin-user-emails", "/-/admin/users/ada/emails"),
    ("admin-user-delete", "/-/admin/users/ada/delete"),
    ("admin-organizations", "/-/admin/orgs"),
    ("admin-stores", "/-/admin/stores"),
    ("admin-audit", "/-/admin/audit"),
    ("admin-hooks", "/-/admin/hooks"),
];

struct Gallery {
    browser: Browser,
    /// The script of axe-core.
    axe: String,
    folder: Option<PathBuf>,
    url: String,
    faults: Vec<String>,
}

impl Gallery {
    async fn start(site: &Showcase, visitor: Option<&User>) -> Self {
        let browser = Browser::start().await;
        let gallery = Self {
            browser,
            axe: std::fs::read_to_string(AXE).expect("`make needs` installs axe-core"),
            folder: std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from),
            url: site.cluster.url.clone(),
            faults: Vec::new(),
        };
        if let Some(user) = visitor {
            gallery.browser.open(&format!("{}/user/login", gallery.url)).await;
            gallery.browser.set_cookie("ferrite_session", user.token.as_deref().unwrap()).await;
        }
        gallery
    }

    async fn visit(&mut self, name: &str, path: &str) {
        self.browser.open(&format!("{}{path}", self.url)).await;
        self.browser.run(&self.axe).await;
        self.browser.run(SIZED).await;
        for is_dark in [false, true] {
            self.browser.show_on(WIDTHS[2], is_dark).await;
            self.check(name, path, is_dark).await;
        }
        self.browser.show_on(WIDTHS[0], false).await;
        let overflow = self.browser.run("return document.documentElement.scrollWidth").await;
        if overflow.as_u64().unwrap() > u64::from(WIDTHS[0]) {
            self.faults.push(format!("{path} is {overflow} pixels wide on a screen of {}", WIDTHS[0]));
        }
        self.check(name, path, false).await;
        self.keep_pictures(name).await;
        let mut messages = self.browser.console().await;
        let is_expected = |message: &Value| {
            let text = message["message"].as_str().unwrap_or_default();
            matches!(message["level"].as_str(), Some("DEBUG" | "INFO")) || (name == "missing" && text.contains("404"))
        };
        messages.retain(|message| !is_expected(message));
        self.faults.extend(messages.iter().map(|message| format!("{path}: the console has {message}")));
    }

    async fn check(&mut self, name: &str, path: &str, is_dark: bool) {
        let options = format!("{{runOnly: {RULES}, resultTypes: ['violations']}}");
        let script = format!(
            "return axe.run(document, {options}).then(found => found.violations.map(fault => \
             fault.id + ': ' + fault.nodes.slice(0, 3).map(node => node.html.slice(0, 160) + ' — ' + \
             (node.any[0]?.message ?? node.failureSummary ?? '')).join(' | ')))"
        );
        let theme = if is_dark { "dark" } else { "light" };
        for fault in self.browser.run(&script).await.as_array().unwrap() {
            self.faults.push(format!("{name} ({theme}) {path}: {}", fault.as_str().unwrap()));
        }
    }

    async fn keep_pictures(&self, name: &str) {
        let Some(folder) = &self.folder else { return };
        for width in WIDTHS {
            for is_dark in [false, true] {
                self.browser.show_on(width, is_dark).await;
                let theme = if is_dark { "-dark" } else { "" };
                std::fs::write(folder.join(format!("{name}-{width}{theme}.png")), self.browser.picture().await)
                    .unwrap();
            }
        }
    }

    async fn finish(self) {
        let own = format!("{}/", self.url);
        let requested = self.browser.requested().await;
        let others: Vec<_> =
            requested.iter().filter(|url| !url.starts_with(&own) && !url.starts_with("data:")).collect();
        assert!(others.is_empty(), "{others:?}");
        assert!(self.faults.is_empty(), "{} faults:\n{}", self.faults.len(), self.faults.join("\n"));
    }
}

async fn all_pages_are_accessible_and_fit_their_screen(site: &Showcase) {
    let mut gallery = Gallery::start(site, Some(&site.ada)).await;
    for (name, path) in pages(site) {
        gallery.visit(name, &path).await;
    }
    let mut stranger = Gallery::start(site, None).await;
    for (name, path) in [("sign-in", "/user/login"), ("front-stranger", "/"), ("pull-stranger", "/ada/lantern/pulls/4")]
    {
        stranger.visit(name, path).await;
    }
    let mut administrator = Gallery::start(site, Some(&site.admin)).await;
    for (name, path) in ADMINISTRATION {
        administrator.visit(name, path).await;
    }
    gallery.faults.append(&mut stranger.faults);
    gallery.faults.append(&mut administrator.faults);
    gallery.finish().await;
    administrator.finish().await;
    stranger.finish().await;
}
