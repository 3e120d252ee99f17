// API calls with openapi-fetch and the types that openapi-typescript generates from docs/openapi.json. Prints a line per call.

import createClient from "openapi-fetch";

import type { components, paths } from "./schema.js";

type Schemas = components["schemas"];
/** What openapi-fetch returns for a call. */
type Result<T> = { data?: T; error?: Schemas["Error"]; response: Response };

const client = createClient<paths>({
  baseUrl: process.env.FERRITE_URL,
  headers: { Authorization: `Bearer ${process.env.FERRITE_TOKEN}` },
});

/** Returns the body of a successful response. */
function body<T>({ data, error, response }: Result<T>): T {
  if (data === undefined) throw new Error(`${response.status} ${response.url}: ${error?.message}`);
  return data;
}

const newRepository = { name: "typed", private: true };
const repository = body(await client.POST("/api/v1/user/repos", { body: newRepository }));
const path = { owner: repository.owner.login, repo: repository.name };
console.log(`repository ${path.repo}, private: ${repository.private}`);

const labels: Schemas["Label"][] = [];
for (const name of ["bug", "docs", "later"]) {
  const newLabel = { name, color: "#ee0701" };
  labels.push(body(await client.POST("/api/v1/repos/{owner}/{repo}/labels", { params: { path }, body: newLabel })));
}
console.log("labels", ...labels.map((label) => label.name));

const [label] = labels;
if (label === undefined) throw new Error("there are labels");
const newIssue = { title: "It breaks", labels: [label.id] };
const issue = body(await client.POST("/api/v1/repos/{owner}/{repo}/issues", { params: { path }, body: newIssue }));
console.log(`issue ${issue.number}: ${issue.title}, ${issue.labels[0]?.name}`);

const comments = "/api/v1/repos/{owner}/{repo}/issues/{index}/comments";
const ofIssue = { path: { ...path, index: issue.number } };
const comment = body(await client.POST(comments, { params: ofIssue, body: { body: "Here too." } }));
console.log(`comment: ${comment.body}`);

const query = { page: 2, limit: 2 };
const page = await client.GET("/api/v1/repos/{owner}/{repo}/labels", { params: { path, query } });
console.log("page 2:", ...body(page).map((label) => label.name), "of", page.response.headers.get("X-Total-Count"));

const oneLabel = "/api/v1/repos/{owner}/{repo}/labels/{id}";
const read = await client.GET(oneLabel, { params: { path: { ...path, id: `${label.id}` } } });
const header = { "If-Match": read.response.headers.get("ETag") ?? "" };
for (const color of ["#00aabb", "#ffffff"]) {
  const params = { path: { ...path, id: label.id }, header };
  const { data, error, response } = await client.PATCH(oneLabel, { params, body: { color } });
  console.log(`change: ${response.status}`, data?.color ?? error?.message);
}

const again = { name: "docs", color: "#ee0701" };
const taken = await client.POST("/api/v1/repos/{owner}/{repo}/labels", { params: { path }, body: again });
console.log(`refused: ${taken.response.status}, ${taken.error?.errors?.[0]?.field}`);
const unknown = { path: { ...path, index: 99 } };
const missing = await client.GET("/api/v1/repos/{owner}/{repo}/issues/{index}", { params: unknown });
console.log(`missing: ${missing.response.status}, ${missing.error?.message}`);

const contents = "/api/v1/repos/{owner}/{repo}/contents/{file}";
const file = { path: { ...path, file: "docs/read me.md" } };
const newFile = { message: "Add a page", content: Buffer.from("# Hello\n").toString("base64") };
const written = body(await client.PUT(contents, { params: file, body: newFile }));
console.log(`written: ${written.content.path}`);

const content = body(await client.GET(contents, { params: file }));
if (Array.isArray(content)) throw new Error("it is a file");
console.log(`read: ${Buffer.from(content.content ?? "", "base64").toString().trim()}`);

const newRelease = { tag_name: "v1" };
const release = body(await client.POST("/api/v1/repos/{owner}/{repo}/releases", { params: { path }, body: newRelease }));
const uploaded = await client.POST("/api/v1/repos/{owner}/{repo}/releases/{id}/assets", {
  params: { path: { ...path, id: release.id }, query: { name: "a.bin" } },
  headers: { "Content-Type": "application/octet-stream" },
  // A file has the type of a text; the serializer provides the bytes.
  body: "",
  bodySerializer: () => Uint8Array.of(0x00, 0xff, 0x0a),
});
const asset = body(uploaded);
console.log(`uploaded: ${asset.name}, ${asset.size} bytes`);

const deleted = await client.DELETE("/api/v1/repos/{owner}/{repo}", { params: { path } });
console.log(`deleted: ${deleted.response.status}`);
