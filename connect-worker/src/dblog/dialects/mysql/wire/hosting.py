"""The managed service that runs a server, by its variables, and the way to set a variable there. Pure.

Sources: the paths of Amazon's servers (``/rdsdbdata``, ``/rdsdbbin``), Aurora's variable
``aurora_version``, the suffix of Cloud SQL's version (``8.0.37-google``), and the folders that
Microsoft's page on server parameters names for temporary files.
"""

from __future__ import annotations

from collections.abc import Mapping

from dblog.dialects.guide import Hosting, hosting_of_name

HOSTING_VARIABLES = ("aurora_version", "basedir", "datadir", "tmpdir")
"""The variables that show a managed service, besides ``version``."""

_AMAZON = ("/rdsdbdata", "/rdsdbbin")
_AZURE = ("/mnt/temp", "/app/work/")


def hosting_of(variables: Mapping[str, str], host: str) -> Hosting:
    """Return who runs the server; SELF if nothing shows a managed service. ``host`` is the name by
    which the server is reached.
    """
    if "aurora_version" in variables:
        return Hosting.AURORA
    folders = [variables.get(name, "") for name in ("basedir", "datadir", "tmpdir")]
    if any(folder.startswith(_AMAZON) for folder in folders):
        return Hosting.RDS
    version = variables.get("version", "").lower()
    if "-google" in version:
        return Hosting.CLOUD_SQL
    if "azure" in version or any(folder.startswith(_AZURE) for folder in folders):
        return Hosting.AZURE
    return hosting_of_name(host)


def how_to_set(hosting: Hosting, name: str, value: str) -> str:
    """Return the clause that says how an administrator sets a variable for good."""
    match hosting:
        case Hosting.RDS:
            return f"set {name}={value} in the instance's parameter group"
        case Hosting.AURORA:
            return f"set {name}={value} in the cluster's parameter group, and reboot the writer"
        case Hosting.CLOUD_SQL:
            return f"set the instance's database flag {name}={value}"
        case Hosting.AZURE:
            return f"set the server parameter {name}={value}"
        case Hosting.SELF:
            return f"run: SET GLOBAL {name} = {_literal(value)}; (and set it in the server's configuration)"


def _literal(value: str) -> str:
    return value if value.isdigit() or value in ("ON", "OFF") else f"'{value}'"
