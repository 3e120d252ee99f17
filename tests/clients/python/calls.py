"""API calls with the client that openapi-python-client generates from docs/openapi.json. Prints a line per call."""

import base64
import io
import os

from ferrite_client import AuthenticatedClient
from ferrite_client.api.comments import create_comment
from ferrite_client.api.git import get_contents, put_contents
from ferrite_client.api.issues import create_issue, get_issue
from ferrite_client.api.labels import create_label, get_label, list_labels, update_label
from ferrite_client.api.releases import create_release, create_release_asset
from ferrite_client.api.repositories import create_repository, delete_repository
from ferrite_client.models import (
    ChangedLabel,
    Comment,
    Content,
    Error,
    FileWritten,
    Issue,
    Label,
    NewComment,
    NewIssue,
    NewLabel,
    NewRelease,
    NewRepository,
    Release,
    ReleaseAsset,
    Repository,
    WrittenFile,
)
from ferrite_client.types import File

client = AuthenticatedClient(base_url=os.environ["FERRITE_URL"], token=os.environ["FERRITE_TOKEN"])
FILE = "docs/read me.md"


def typed(kind, response):
    """Returns the body of a response, which must have this type."""
    assert isinstance(response.parsed, kind), response
    return response.parsed


new_repository = NewRepository(name="typed", private=True)
repository = typed(Repository, create_repository.sync_detailed(client=client, body=new_repository))
owner, repo = repository.owner.login, repository.name
print(f"repository {repo}, private: {str(repository.private).lower()}")

labels = []
for name in ["bug", "docs", "later"]:
    new_label = NewLabel(name=name, color="#ee0701")
    labels.append(typed(Label, create_label.sync_detailed(owner, repo, client=client, body=new_label)))
print("labels", *(label.name for label in labels))

new_issue = NewIssue(title="It breaks", labels=[labels[0].id])
issue = typed(Issue, create_issue.sync_detailed(owner, repo, client=client, body=new_issue))
print(f"issue {issue.number}: {issue.title}, {issue.labels[0].name}")

new_comment = NewComment(body="Here too.")
comment = typed(Comment, create_comment.sync_detailed(owner, repo, issue.number, client=client, body=new_comment))
print(f"comment: {comment.body}")

page = list_labels.sync_detailed(owner, repo, client=client, page=2, limit=2)
print("page 2:", *(label.name for label in typed(list, page)), "of", page.headers["X-Total-Count"])

tag = get_label.sync_detailed(owner, repo, str(labels[0].id), client=client).headers["ETag"]
for color in ["#00aabb", "#ffffff"]:
    change = ChangedLabel(color=color)
    changed = update_label.sync_detailed(owner, repo, labels[0].id, client=client, body=change, if_match=tag)
    body = changed.parsed
    print(f"change: {changed.status_code}", body.color if isinstance(body, Label) else typed(Error, changed).message)

taken = create_label.sync_detailed(owner, repo, client=client, body=NewLabel(name="docs", color="#ee0701"))
print(f"refused: {taken.status_code}, {typed(Error, taken).errors[0].field}")
missing = get_issue.sync_detailed(owner, repo, 99, client=client)
print(f"missing: {missing.status_code}, {typed(Error, missing).message}")

new_file = WrittenFile(message="Add a page", content=base64.b64encode(b"# Hello\n").decode())
written = typed(FileWritten, put_contents.sync_detailed(owner, repo, FILE, client=client, body=new_file))
print(f"written: {written.content.path}")

content = typed(Content, get_contents.sync_detailed(owner, repo, FILE, client=client))
print(f"read: {base64.b64decode(content.content).decode().strip()}")

new_release = NewRelease(tag_name="v1")
release = typed(Release, create_release.sync_detailed(owner, repo, client=client, body=new_release))
file = File(payload=io.BytesIO(b"\x00\xff\n"))
uploaded = create_release_asset.sync_detailed(owner, repo, release.id, client=client, body=file, name="a.bin")
asset = typed(ReleaseAsset, uploaded)
print(f"uploaded: {asset.name}, {asset.size} bytes")

print(f"deleted: {delete_repository.sync_detailed(owner, repo, client=client).status_code}")
