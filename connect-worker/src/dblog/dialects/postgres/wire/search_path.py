"""Sets the schemas in which a session looks for functions and operators that a statement names
without a schema.

An account that may create objects in such a schema can add an operator that fits better than the
server's own. Every account that compares with that operator then runs it (PostgreSQL manual, 5.9.6
"Usage Patterns"). So sessions of the connector look only into the server's own schema. Chunks also
contain conditions of users. Their sessions therefore look into the schemas of the account's search
path and those of extensions, except for schemas in which others than the owner may create objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from dblog.dialects.postgres.catalog.sql import quote
from dblog.dialects.postgres.wire.connect import Wire

_OTHERS_SQL = """
    FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner AND r.rolsuper IS NOT TRUE AND r.rolname IS DISTINCT FROM current_user
"""
"""Who may create in a schema besides its owner, superusers and the account itself."""

_SAFE_SCHEMAS_SQL = f"""
SELECT n.nspname::text FROM pg_catalog.pg_namespace n LEFT JOIN unnest(%s::text[]) WITH ORDINALITY AS named (name, place) ON named.name = n.nspname
WHERE n.nspname <> 'pg_catalog' AND (named.name IS NOT NULL OR n.oid IN (SELECT extnamespace FROM pg_extension))
AND (NOT EXISTS (SELECT {_OTHERS_SQL}) OR EXISTS (
    SELECT FROM pg_operator o JOIN pg_depend d ON d.classid = 'pg_operator'::regclass AND d.objid = o.oid AND d.deptype = 'e' WHERE o.oprnamespace = n.oid
))
ORDER BY named.place, n.nspname
"""
"""Query for the safe schemas. One with operators of an extension always stays: without them a key
or a condition with citext would silently be compared in another order.
"""

_OPEN_SCHEMAS_SQL = f"""
SELECT n.nspname::text, array_agg(DISTINCT e.extname::text), ARRAY(SELECT DISTINCT r.rolname::text {_OTHERS_SQL})
FROM pg_namespace n JOIN pg_operator o ON o.oprnamespace = n.oid
JOIN pg_depend d ON d.classid = 'pg_operator'::regclass AND d.objid = o.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid
WHERE n.nspname <> 'pg_catalog' AND EXISTS (SELECT {_OTHERS_SQL}) GROUP BY n.oid ORDER BY 1
"""
_NAMED_MAX = 20

_DOING = "choosing where to look for operators"


def look_in_no_schema(wire: Wire) -> None:
    """Find only the server's own objects, and those named with their schema."""
    wire.query("SELECT pg_catalog.set_config('search_path', '', false)", doing=_DOING)


def look_in_safe_schemas(wire: Wire) -> None:
    """Find the objects that the account finds, and those of extensions, in schemas where nobody
    else can add any.
    """
    named = wire.one("SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]", doing=_DOING)
    look_in_no_schema(wire)
    schemas = [row[0] for row in wire.query(_SAFE_SCHEMAS_SQL, (named,), doing=_DOING)]
    wire.query(
        "SELECT set_config('search_path', coalesce(string_agg(quote_ident(name), ', ' ORDER BY place), ''), false) "
        "FROM unnest(%s::text[]) WITH ORDINALITY AS schemas (name, place)",
        (schemas,),
        doing=_DOING,
    )


def describe_open_schemas(wire: Wire) -> list[str]:
    """Return a warning for each schema with operators of an extension in which others may create:
    it stays among those that chunks look into.
    """
    found = wire.query(_OPEN_SCHEMAS_SQL, doing="looking for schemas of extensions")
    return [
        _open_schema(schema, extensions, [None if name is None else str(name) for name in others])
        for schema, extensions, others in found[:_NAMED_MAX]
    ]


def _open_schema(schema: str, extensions: Sequence[str], others: Sequence[str | None]) -> str:
    names = ["PUBLIC" if name is None else quote(name) for name in others]
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    shown = ", ".join(names[:_NAMED_MAX])
    return (
        f"schema {quote(schema)} has operators of {', '.join(map(quote, extensions))}, which chunks of dumps may compare keys with, and others than its "
        f"owner may create there ({shown}{more}): an operator of theirs may run as the connector's account. Run there REVOKE CREATE ON SCHEMA "
        f"{quote(schema)} FROM {shown}; or move the extensions with ALTER EXTENSION ... SET SCHEMA to a schema of their own"
    )
