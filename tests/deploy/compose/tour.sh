# What a user does on a new server, for `tour.rs`. The address is replaced.

# A token of the administrator.
API=http://127.0.0.1:3000/api/v1
TOKEN=$(curl -s -u admin:correct-horse --json '{"name":"tour"}' $API/users/admin/tokens | sed 's/.*"sha1":"\([0-9a-f]*\)".*/\1/')
curl -s -H "Authorization: token $TOKEN" $API/user; echo

# A repository, its branches and a file.
curl -s -H "Authorization: token $TOKEN" --json '{"name":"hello","description":"first steps","auto_init":true,"license":"MIT License","gitignores":"Rust"}' $API/user/repos; echo
curl -s -H "Authorization: token $TOKEN" $API/repos/admin/hello/branches; echo
curl -s -H "Authorization: token $TOKEN" $API/repos/admin/hello/raw/main/README.md

# Git over HTTP.
cd "$(mktemp -d)"
git clone http://$TOKEN:@127.0.0.1:3000/admin/hello.git
cd hello
echo 'fn main() {}' > main.rs
git add main.rs
git -c user.name=Ada -c user.email=ada@example.com commit -m 'Add main'
git push

# A file through the API, and a pull of it.
CONTENT=$(echo 'Written through the API.' | base64 -w0)
curl -s -X PUT -H "Authorization: token $TOKEN" --json "{\"message\":\"Add notes\",\"content\":\"$CONTENT\"}" $API/repos/admin/hello/contents/docs/notes.md; echo
git pull
cat docs/notes.md

# An issue, a webhook and a search.
curl -s -H "Authorization: token $TOKEN" --json '{"title":"It says hello to nobody in particular"}' $API/repos/admin/hello/issues; echo
curl -s -H "Authorization: token $TOKEN" --json '{"type":"native","config":{"url":"https://example.com/hook","content_type":"json"},"events":["push"],"active":true}' $API/repos/admin/hello/hooks; echo
curl -s "$API/repos/search?q=hell"; echo

# A release with a file, and a fork.
RELEASE=$(curl -s -H "Authorization: token $TOKEN" --json '{"tag_name":"v1.0","name":"First"}' $API/repos/admin/hello/releases | sed 's/^{"id":\([0-9]*\),.*/\1/')
curl -s -H "Authorization: token $TOKEN" -F attachment=@docs/notes.md $API/repos/admin/hello/releases/$RELEASE/assets; echo
curl -s -H "Authorization: token $TOKEN" --json '{"name":"hello-again"}' $API/repos/admin/hello/forks; echo

# A limited token, and the audit log.
curl -s -u admin:correct-horse --json '{"name":"ci","scopes":["repo:write"],"repositories":["admin/hello"]}' $API/users/admin/tokens; echo
curl -s -H "Authorization: token $TOKEN" "$API/admin/audit?limit=3"; echo

# A user, an organization and a team.
curl -s -H "Authorization: token $TOKEN" --json '{"username":"ada","email":"ada@example.com","password":"difference engine"}' $API/admin/users; echo
curl -s -H "Authorization: token $TOKEN" --json '{"username":"acme"}' $API/user/orgs; echo
curl -s -H "Authorization: token $TOKEN" --json '{"name":"site","private":true,"auto_init":true}' $API/org/acme/repos; echo
TEAM=$(curl -s -H "Authorization: token $TOKEN" --json '{"name":"writers","permission":"write"}' $API/orgs/acme/teams | sed 's/.*"id":\([0-9]*\).*/\1/')
curl -s -X PUT -H "Authorization: token $TOKEN" $API/teams/$TEAM/members/ada
curl -s -X PUT -H "Authorization: token $TOKEN" $API/teams/$TEAM/repos/site
curl -s -H "Authorization: token $TOKEN" $API/teams/$TEAM/repos; echo
