#!/bin/bash
# Creates a database and a login for each service, once, when the volume is empty.
set -eu
for service in repo issue hook; do
    psql -v ON_ERROR_STOP=1 -v login="ferrite_$service" -v password="$(cat "/run/passwords/$service")" <<'SQL'
CREATE ROLE :"login" LOGIN PASSWORD :'password';
CREATE DATABASE :"login" OWNER :"login";
REVOKE ALL ON DATABASE :"login" FROM PUBLIC;
SQL
done
