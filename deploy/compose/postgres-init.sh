#!/bin/sh
# Creates a login and a database for each service, with the passwords in files. PostgreSQL's image
# runs this when its data folder is new. To set the passwords to those in the files, run it again:
#
#   docker compose exec postgres sh /docker-entrypoint-initdb.d/ferrite.sh
#
# FERRITE_SECRETS is the folder of the files. The variables of libpq select the server and the
# superuser.
set -eu

export PGUSER="${POSTGRES_USER:-${PGUSER:-postgres}}"
secrets=${FERRITE_SECRETS:-/run/secrets}

for service in repo issue hook git; do
    # psql reads the password itself, so it is in no command line.
    export FERRITE_LOGIN="ferrite_$service" FERRITE_PASSWORD_FILE="$secrets/$service-database-password"
    [ -s "$FERRITE_PASSWORD_FILE" ] || { echo "$0: $FERRITE_PASSWORD_FILE is missing or empty" >&2; exit 1; }
    psql --no-psqlrc --quiet --dbname postgres --set ON_ERROR_STOP=1 <<'EOF'
\set login `echo "$FERRITE_LOGIN"`
\set password `cat "$FERRITE_PASSWORD_FILE"`
SELECT format('CREATE ROLE %I LOGIN', :'login')
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'login') \gexec
ALTER ROLE :"login" PASSWORD :'password';
SELECT format('CREATE DATABASE %I OWNER %I ENCODING ''UTF8'' TEMPLATE template0', :'login', :'login')
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'login') \gexec
REVOKE ALL ON DATABASE :"login" FROM PUBLIC;
EOF
done
