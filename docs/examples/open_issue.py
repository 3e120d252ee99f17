"""Opens an issue over gRPC: python3 open_issue.py OWNER/NAME TITLE

FERRITE_REPO and FERRITE_ISSUE are the addresses of repo-svc and issue-svc, FERRITE_TOKEN is a personal access token.
Needs `pip install grpcio grpcio-reflection`, and no generated code: the contracts come by reflection.
"""

import os
import sys
import uuid

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


class Service:
    """A service of a contract, with its methods as attributes."""

    def __init__(self, address, name):
        # For addresses such as `unix:/run/ferrite/repo.sock`, which name no host.
        self.channel = grpc.insecure_channel(address, options=[("grpc.default_authority", "localhost")])
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(self.channel))
        self.descriptor = pool.FindServiceByName(name)

    def __getattr__(self, method):
        found = self.descriptor.FindMethodByName(method)
        message = GetMessageClass(found.input_type)
        call = self.channel.unary_unary(
            f"/{self.descriptor.full_name}/{method}",
            request_serializer=message.SerializeToString,
            response_deserializer=GetMessageClass(found.output_type).FromString,
        )
        return lambda metadata, **fields: call(message(**fields), metadata=metadata, timeout=20)


def main(repository, title):
    owner, name = repository.split("/")
    token = ("authorization", f"Bearer {os.environ['FERRITE_TOKEN']}")
    repositories = Service(os.environ["FERRITE_REPO"], "ferrite.repo.v1.RepositoryService")
    issues = Service(os.environ["FERRITE_ISSUE"], "ferrite.issue.v1.IssueService")
    found = repositories.GetRepository([token], repository={"name": {"owner": owner, "name": name}}).repository
    # The same key again gets the same issue, not a second one.
    key = ("idempotency-key", str(uuid.uuid4()))
    made = issues.CreateIssue([token, key], repository_id=found.id, title=title).issue
    again = issues.CreateIssue([token, key], repository_id=found.id, title=title).issue
    assert made.id == again.id
    print(f"#{made.number} {made.title}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
