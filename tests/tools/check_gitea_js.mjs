// gitea-js, a client in TypeScript generated from Gitea's description of its API: an organization, a repository
// with files, a branch and a tag, a label and an issue, a commit status, a hook, and a release with a file.
import assert from "node:assert/strict";
import { giteaApi } from "gitea-js";

const { FERRITE_URL, FERRITE_USER, FERRITE_USER_TOKEN } = process.env;
const api = giteaApi(FERRITE_URL, { token: FERRITE_USER_TOKEN });
const path = ["gitea-js", "demo"];
const base64 = (text) => Buffer.from(text).toString("base64");
const data = async (call) => (await call).data;

assert.match((await data(api.version.getVersion())).version, /^1\./);
assert.equal((await data(api.user.userGetCurrent())).login, FERRITE_USER);

const organization = await data(api.orgs.orgCreate({ username: "gitea-js", full_name: "An organization" }));
assert.equal(organization.full_name, "An organization");
const settings = { name: "demo", auto_init: true, default_branch: "main", license: "MIT", description: "A demo" };
const repository = await data(api.orgs.createOrgRepo("gitea-js", settings));
assert.deepEqual([repository.full_name, repository.default_branch], ["gitea-js/demo", "main"]);
await api.repos.repoUpdateTopics(...path, { topics: ["tea", "forge"] });
assert.deepEqual((await data(api.repos.repoListTopics(...path))).topics.sort(), ["forge", "tea"]);

const options = { content: base64("A text.\n"), message: "Add a text", new_branch: "feature/x" };
const file = await data(api.repos.repoCreateFile(...path, "docs/a.txt", options));
const { sha } = file.content;
const change = { sha, content: base64("B.\n"), message: "Change it", branch: "feature/x" };
await api.repos.repoUpdateFile(...path, "docs/a.txt", change);
const contents = await data(api.repos.repoGetContents(...path, "docs/a.txt", { ref: "feature/x" }));
assert.equal(Buffer.from(contents.content, "base64").toString(), "B.\n");
await api.repos.repoCreateBranch(...path, { new_branch_name: "copy", old_ref_name: "feature/x" });
const branches = (await data(api.repos.repoListBranches(...path))).map((branch) => branch.name);
assert.deepEqual(branches.sort(), ["copy", "feature/x", "main"]);
await api.repos.repoCreateTag(...path, { tag_name: "v0.9", target: "feature/x", message: "A tag" });
assert.deepEqual((await data(api.repos.repoListTags(...path))).map((tag) => tag.name), ["v0.9"]);
const [commit] = await data(api.repos.repoGetAllCommits(...path, { sha: "feature/x", limit: 1 }));
assert.equal(commit.commit.message.trim(), "Change it");

const label = await data(api.repos.issueCreateLabel(...path, { name: "bug", color: "#ee0701" }));
const text = { title: "It breaks", body: "Often.", labels: [label.id] };
const issue = await data(api.repos.issueCreateIssue(...path, text));
await api.repos.issueCreateComment(...path, issue.number, { body: "Here too." });
await api.repos.issueEditIssue(...path, issue.number, { state: "closed" });
const [closed] = await data(api.repos.issueListIssues(...path, { state: "closed", type: "issues" }));
assert.deepEqual([closed.title, closed.comments, closed.labels[0].name], ["It breaks", 1, "bug"]);

await api.repos.repoCreateStatus(...path, commit.sha, { state: "success", context: "ci", description: "It builds" });
assert.equal((await data(api.repos.repoGetCombinedStatusByRef(...path, "feature/x"))).state, "success");
const config = { url: "https://example.com/hook", content_type: "json", secret: "s3cret" };
const events = ["push", "release"];
const hook = await data(api.repos.repoCreateHook(...path, { type: "gitea", active: true, events, config }));
assert.deepEqual([hook.type, hook.events.sort()], ["gitea", ["push", "release"]]);

const notes = { tag_name: "v1.0", name: "First", body: "Notes", target_commitish: "feature/x" };
const release = await data(api.repos.repoCreateRelease(...path, notes));
const attachment = new File(["abc"], "a.bin");
const asset = await data(api.repos.repoCreateReleaseAttachment(...path, release.id, { attachment }, { name: "a.bin" }));
const bytes = await (await fetch(asset.browser_download_url)).text();
assert.deepEqual([asset.name, asset.size, bytes], ["a.bin", 3, "abc"]);
assert.equal((await data(api.repos.repoGetLatestRelease(...path))).tag_name, "v1.0");

await api.repos.repoDelete(...path);
await api.orgs.orgDelete("gitea-js");
console.log("organization, repository, files, branch, tag, label, issue, status, hook, release with a file");
