#!/bin/sh
# Generates the secrets of an installation on Kubernetes: keys and passwords in a folder (`ferrite
# secrets`), and Secret objects from them in an existing namespace. Existing files and objects stay
# unchanged. Keep the folder: without its keys, the credentials of webhooks and mirrors are lost.
#
# Options after the folder go to `ferrite secrets`: --postgres HOST:PORT, --redis HOST:PORT,
# --redis-tls.
#
# Needs kubectl with permission to create Secrets, ssh-keygen, and ferrite
# (`FERRITE=target/release/ferrite` for another path).
set -eu

if [ $# -lt 2 ]; then
    echo "usage: $0 NAMESPACE FOLDER [OPTION]..." >&2
    exit 2
fi
namespace=$1
folder=$2
shift 2
keys=$folder/keys
ferrite=${FERRITE:-ferrite}
kubectl=${KUBECTL:-kubectl}

"$ferrite" secrets "$folder" "$@"
for kind in ed25519 rsa; do
    file=$folder/ssh_host_${kind}_key
    if [ ! -e "$file" ]; then
        bits=
        [ $kind = rsa ] && bits="-b 3072"
        # shellcheck disable=SC2086 # two words or none
        ssh-keygen -q -t $kind $bits -N '' -C '' -f "$file"
    fi
done

# secret NAME --from-file=KEY=FILE...
secret() {
    if "$kubectl" --namespace "$namespace" get secret "$1" >/dev/null 2>&1; then
        echo "secret/$1 exists"
    else
        "$kubectl" --namespace "$namespace" create secret generic "$@"
    fi
}

for role in gateway repo-svc issue-svc hook-svc git-svc; do
    secret "service-key-$role" --from-file=service.pem="$keys/$role.pem"
    secret "redis-$role" --from-file=url="$folder/${role%-svc}-redis-url"
done
secret public-keys \
    --from-file=gateway.pub.pem="$keys/public/gateway.pub.pem" \
    --from-file=repo-svc.pub.pem="$keys/public/repo-svc.pub.pem" \
    --from-file=issue-svc.pub.pem="$keys/public/issue-svc.pub.pem" \
    --from-file=hook-svc.pub.pem="$keys/public/hook-svc.pub.pem" \
    --from-file=git-svc.pub.pem="$keys/public/git-svc.pub.pem"
secret grant-key --from-file=grant.pem="$keys/grant.pem"
secret grant-public-key --from-file=grant.pub.pem="$keys/grant.pub.pem"
secret sealing-key-hook-svc --from-file=secret.key="$keys/hook-sealing.key"
secret sealing-key-git-svc --from-file=secret.key="$keys/git-sealing.key"
secret ssh-host-keys \
    --from-file=ssh_host_ed25519_key="$folder/ssh_host_ed25519_key" \
    --from-file=ssh_host_rsa_key="$folder/ssh_host_rsa_key"
for service in repo issue hook; do
    secret "database-$service-svc" \
        --from-file=url="$folder/$service-database-url" \
        --from-file=password="$folder/$service-database-password"
done
# For the overlay `dev`: Redis users, and PostgreSQL's superuser.
secret redis-users --from-file=users.acl="$folder/redis-users.acl"
secret postgres --from-file=password="$folder/postgres-password"
