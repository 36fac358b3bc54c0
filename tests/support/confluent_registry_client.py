"""Confluent's own Python client against a registry: URL, subject and two schemas as arguments, exit status 0 when all is as it should be.

A program of its own, because the client's optional parts warn at import and it keeps its connections open.
"""

import json
import sys

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError


def code_of(call, *arguments):
    """The error code that a call is refused with."""
    try:
        call(*arguments)
    except SchemaRegistryError as e:
        return e.error_code
    return None


def main(url: str, subject: str, first: str, compatible: str, incompatible: str) -> None:
    client = SchemaRegistryClient({"url": url})
    schema_id = client.register_schema(subject, Schema(first, "AVRO"))
    assert client.get_schema(schema_id).schema_str == json.dumps(json.loads(first), separators=(",", ":"))
    assert client.lookup_schema(subject, Schema(first, "AVRO")).version == 1
    assert client.test_compatibility(subject, Schema(compatible, "AVRO"))
    assert not client.test_compatibility(subject, Schema(incompatible, "AVRO"))
    assert code_of(client.register_schema, subject, Schema(incompatible, "AVRO")) == 409
    client.set_compatibility(subject, "FULL")
    assert client.get_compatibility(subject) == "FULL"
    assert client.get_latest_version(subject).schema_id == schema_id
    assert client.get_versions(subject) == [1]
    assert subject in client.get_subjects()
    assert client.delete_subject(subject) == [1]
    assert code_of(SchemaRegistryClient({"url": url}).get_latest_version, subject) == 40401


if __name__ == "__main__":
    main(*sys.argv[1:])
