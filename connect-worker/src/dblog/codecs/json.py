"""Writes Connect values as JSON, byte for byte as org.apache.kafka.connect.json.JsonConverter does
(Kafka 4.3).

With ``schemas.enable`` every record is ``{"schema":...,"payload":...}``. A null field whose schema
has a default is written as that default (``replace.null.with.default``, true unless configured).
That is Kafka's rule, although the source's NULL is lost; set the option to false to keep it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dblog.codecs.javatext import as_float32, decimal_text, double_text, float_text, quoted_for_bytes
from dblog.codecs.schema import Kind, Schema
from dblog.errors import DefiniteError

DECIMAL = "org.apache.kafka.connect.data.Decimal"

Render = Callable[[Any], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonForm:
    """The settings of the converter that affect the bytes."""

    schemas_enable: bool = True
    decimal_numeric: bool = False
    """True for ``decimal.format=NUMERIC``, False for BASE64."""
    replace_null_with_default: bool = True


def value_writer(schema: Schema, form: JsonForm) -> Callable[[Any], bytes]:
    """Return a function that turns values of ``schema`` into record bytes. Build it once for each
    schema.
    """
    render = writer(schema, form)
    if not form.schemas_enable:
        return lambda value: render(value).encode()
    head = f'{{"schema":{schema_text(schema, form)},"payload":'
    return lambda value: f"{head}{render(value)}}}".encode()


def schemaless(value: Any, form: JsonForm) -> bytes:
    """Return the record bytes of a value without schema, which only a transform can make."""
    text = _schemaless_text(value)
    return (f'{{"schema":null,"payload":{text}}}' if form.schemas_enable else text).encode()


def _schemaless_text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float_writer(double_text)(value)
        case str():
            return _text(value)
        case bytes():
            return f'"{b64encode(value).decode()}"'
        case list():
            return f"[{','.join(map(_schemaless_text, value))}]"
        case Mapping():
            return "{" + ",".join(f"{_text(str(name))}:{_schemaless_text(one)}" for name, one in value.items()) + "}"
        case _:
            raise DefiniteError("a value without schema has a type that JSON does not have")


def schema_text(schema: Schema, form: JsonForm, *, field: str | None = None) -> str:
    """Return the ``schema`` member, with keys in JsonConverter's order; the name of a struct's
    field comes last.
    """
    parts = [f'"type":{_text(schema.kind.value)}']
    match schema.kind:
        case Kind.STRUCT:
            parts.append(f'"fields":[{",".join(schema_text(f.schema, form, field=f.name) for f in schema.fields)}]')
        case Kind.ARRAY:
            assert schema.items is not None
            parts.append(f'"items":{schema_text(schema.items, form)}')
        case Kind.MAP:
            assert schema.keys is not None
            assert schema.items is not None
            parts += [f'"keys":{schema_text(schema.keys, form)}', f'"values":{schema_text(schema.items, form)}']
        case _:
            pass
    parts.append('"optional":true' if schema.optional else '"optional":false')
    if schema.name is not None:
        parts.append(f'"name":{_text(schema.name)}')
    if schema.version is not None:
        parts.append(f'"version":{schema.version}')
    if schema.doc is not None:
        parts.append(f'"doc":{_text(schema.doc)}')
    if schema.parameters:
        parts.append(f'"parameters":{{{",".join(f"{_text(k)}:{_text(v)}" for k, v in schema.parameters)}}}')
    if schema.default is not None:
        parts.append(f'"default":{_plain_writer(schema, form)(schema.default)}')
    if field is not None:
        parts.append(f'"field":{_text(field)}')
    return "{" + ",".join(parts) + "}"


_text = quoted_for_bytes


def writer(schema: Schema, form: JsonForm) -> Render:
    """Return a function that turns values of ``schema`` into JSON text, without the ``schema``
    member.
    """
    plain = _plain_writer(schema, form)
    if schema.default is not None and form.replace_null_with_default:
        null = plain(schema.default)
    elif schema.optional:
        null = "null"
    else:

        def required(value: Any) -> str:
            if value is None:
                raise DefiniteError(f"null for a required {schema.name or schema.kind.value} without default")
            return plain(value)

        return required
    return lambda value: null if value is None else plain(value)


def _plain_writer(schema: Schema, form: JsonForm) -> Render:
    match schema.kind:
        case Kind.INT8 | Kind.INT16 | Kind.INT32 | Kind.INT64:
            return str
        case Kind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Kind.FLOAT32:
            return _float_writer(lambda value: float_text(as_float32(value)))
        case Kind.FLOAT64:
            return _float_writer(double_text)
        case Kind.STRING:
            return _text
        case Kind.BYTES if schema.name == DECIMAL and form.decimal_numeric:
            scale = int(dict(schema.parameters)["scale"])
            return lambda value: decimal_text(value, scale)
        case Kind.BYTES:
            return lambda value: f'"{b64encode(value).decode()}"'
        case Kind.ARRAY:
            assert schema.items is not None
            item = writer(schema.items, form)
            return lambda items: f"[{','.join(map(item, items))}]"
        case Kind.MAP:
            return _map_writer(schema, form)
        case Kind.STRUCT:
            return _struct_writer(schema, form)


def _float_writer(text: Callable[[float], str]) -> Render:
    """Return a writer for floats. Jackson quotes NaN and infinities, for which JSON has no
    number.
    """

    def write(value: float) -> str:
        out = text(value)
        return f'"{out}"' if out[-1] in "Ny" else out

    return write


def _map_writer(schema: Schema, form: JsonForm) -> Render:
    assert schema.keys is not None
    assert schema.items is not None
    value = writer(schema.items, form)
    if schema.keys.kind is Kind.STRING:
        return lambda entries: "{" + ",".join(f"{_text(k)}:{value(v)}" for k, v in entries.items()) + "}"
    key = writer(schema.keys, form)
    return lambda entries: "[" + ",".join(f"[{key(k)},{value(v)}]" for k, v in entries.items()) + "]"


def _struct_writer(schema: Schema, form: JsonForm) -> Render:
    members = [(f.name, f"{_text(f.name)}:", writer(f.schema, form)) for f in schema.fields]

    def write(struct: Mapping[str, Any]) -> str:
        return "{" + ",".join([label + render(struct.get(name)) for name, label, render in members]) + "}"

    return write
