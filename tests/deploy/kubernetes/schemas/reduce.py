#!/usr/bin/env python3
"""Writes kubernetes.json: the published schemas of the kinds that k8s/ uses, without descriptions.

    pip download --no-deps kubernetes-validate==1.36.0
    unzip kubernetes_validate-*.whl '*/v1.34.0-local-strict/_definitions.json'
    reduce.py kubernetes_validate/kubernetes-json-schema/v1.34.0-local-strict/_definitions.json > kubernetes.json
"""

import json
import sys

KINDS = {
    "apps/v1/Deployment": "apps.v1.Deployment",
    "apps/v1/StatefulSet": "apps.v1.StatefulSet",
    "autoscaling/v2/HorizontalPodAutoscaler": "autoscaling.v2.HorizontalPodAutoscaler",
    "networking.k8s.io/v1/Ingress": "networking.v1.Ingress",
    "networking.k8s.io/v1/NetworkPolicy": "networking.v1.NetworkPolicy",
    "policy/v1/PodDisruptionBudget": "policy.v1.PodDisruptionBudget",
    "v1/ConfigMap": "core.v1.ConfigMap",
    "v1/Namespace": "core.v1.Namespace",
    "v1/Secret": "core.v1.Secret",
    "v1/Service": "core.v1.Service",
    "v1/ServiceAccount": "core.v1.ServiceAccount",
}


def references(schema):
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rsplit("/", 1)[1]
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def reduced(schema, holds_names=False):
    if isinstance(schema, list):
        return [reduced(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    is_kept = lambda key: holds_names or not (key == "description" or key.startswith("x-kubernetes-"))
    return {key: reduced(value, not holds_names and key == "properties") for key, value in schema.items() if is_kept(key)}


definitions = json.load(open(sys.argv[1]))["$defs"]
kinds = {kind: f"io.k8s.api.{name}" for kind, name in KINDS.items()}
needed, waiting = set(), list(kinds.values())
while waiting:
    name = waiting.pop()
    if name not in needed:
        needed.add(name)
        waiting += references(definitions[name])

lines = [f'{json.dumps(name)}: {json.dumps(reduced(definitions[name]), sort_keys=True)}' for name in sorted(needed)]
print('{"kinds": ' + json.dumps(kinds, sort_keys=True) + ',\n"$defs": {\n' + ",\n".join(lines) + "\n}}")
