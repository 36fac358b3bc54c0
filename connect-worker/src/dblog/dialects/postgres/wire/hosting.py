"""The managed service that runs a server, by its settings and functions, and the way to change a setting there.

Sources: Amazon's setting ``rds.logical_replication`` and Aurora's function ``aurora_version``,
Google's ``cloudsql.*`` and Microsoft's ``azure.*`` settings, which only their servers have.
"""

from __future__ import annotations

from dblog.dialects.guide import Hosting, hosting_of_name
from dblog.dialects.postgres.wire.session import Session

_HOSTING_SQL = (
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_proc WHERE proname = 'aurora_version'), "
    "pg_catalog.current_setting('rds.logical_replication', true) IS NOT NULL OR pg_catalog.current_setting('rds.extensions', true) IS NOT NULL, "
    "pg_catalog.current_setting('cloudsql.logical_decoding', true) IS NOT NULL "
    "OR EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'cloudsqlsuperuser'), "
    "pg_catalog.current_setting('azure.extensions', true) IS NOT NULL OR EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'azure_pg_admin')"
)


def hosting_of(session: Session) -> Hosting:
    """Return who runs the server; SELF if nothing shows a managed service."""
    ((aurora, amazon, google, azure),) = session.query(_HOSTING_SQL, doing="asking who runs the server")
    found = (Hosting.AURORA, aurora and amazon), (Hosting.RDS, amazon), (Hosting.CLOUD_SQL, google), (Hosting.AZURE, azure)
    return next((hosting for hosting, is_so in found if is_so), hosting_of_name(session.settings.host))


def how_to_set(hosting: Hosting, name: str, value: str) -> str:
    """Return the clause that says how an administrator sets something that takes a restart."""
    match hosting:
        case Hosting.RDS if name == "wal_level":
            return "set rds.logical_replication=1 in the instance's parameter group, and reboot the instance"
        case Hosting.RDS:
            return f"set {name}={value} in the instance's parameter group, and reboot the instance"
        case Hosting.AURORA if name == "wal_level":
            return "set rds.logical_replication=1 in the cluster's parameter group, and reboot the writer"
        case Hosting.AURORA:
            return f"set {name}={value} in the cluster's parameter group, and reboot the writer"
        case Hosting.CLOUD_SQL if name == "wal_level":
            return "set the instance's database flag cloudsql.logical_decoding=on, which restarts it"
        case Hosting.CLOUD_SQL:
            return f"set the instance's database flag {name}={value}"
        case Hosting.AZURE:
            return f"set the server parameter {name}={value}, and restart the server"
        case Hosting.SELF:
            literal = value if value.isdigit() else f"'{value}'"
            return f"run there ALTER SYSTEM SET {name} = {literal}; and restart it"
