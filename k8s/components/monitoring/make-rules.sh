#!/bin/sh
# Writes rules.yaml: the alerts in k8s/observability/alerts.yaml as an object for the Prometheus
# operator.
set -eu
cd "$(dirname "$0")"
{
    cat <<'YAML'
# Made by make-rules.sh from ../../observability/alerts.yaml: change that file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ferrite
spec:
YAML
    sed -n '/^groups:/,$p' ../../observability/alerts.yaml | sed 's/^\(.\)/  \1/'
} >rules.yaml
