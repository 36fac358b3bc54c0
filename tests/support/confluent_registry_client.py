"""Tests a registry with Confluent's own Python client; exit status 0 if all answers are right.

The arguments are the URL, a subject and two schemas. It is a separate program, because optional
parts of the client warn at import, and the client keeps its connections open.
"""

import json
import sys

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError


def code_of(call, *arguments):
    """Return the error code with which the registry refuses a call, None if it accepts it."""
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
