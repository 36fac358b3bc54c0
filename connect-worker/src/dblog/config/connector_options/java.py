"""Options of every Debezium connector that only a Java program obeys.

They are declared so that they are reported as such, not as misspelt.
"""

from __future__ import annotations

from functools import partial

from dblog.config.connector_options.forms import LOW, RUNTIME, bool_option, int_option, option
from dblog.config.options import only

NO_JAVA = "Java classes cannot run in this worker; remove the key"
_unheard = partial(option, importance=LOW, group=RUNTIME)
_OPENLINEAGE = "dblog reports to no OpenLineage server"

JAVA_OPTIONS = (
    int_option(
        name="query.fetch.size",
        doc="Number of rows that Debezium's other queries fetch at a time.",
        default="0",
        unit="rows",
        importance=LOW,
        group=RUNTIME,
        label="Query fetch size",
        no_effect="answers of the catalog are read whole, and tables in chunks: dblog.chunk.rows",
    ),
    _unheard(
        name="transaction.metadata.factory",
        doc="Java class that creates transaction metadata.",
        label="Transaction metadata factory",
        refused=only("io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory", because=NO_JAVA),
    ),
    _unheard(
        name="queue.provider.type",
        doc="Java class of Debezium's queue.",
        default="memory",
        label="Queue provider",
        no_effect="the queue is in memory: max.queue.size, max.queue.size.in.bytes",
    ),
    *(
        _unheard(
            name=f"memory.management.{what}.class",
            doc=f"Java class that keeps the {what} in memory.",
            default="io.debezium.relational.ConcurrentMapTableMappingStorage",
            label=f"Storage of {what}",
            no_effect="Java classes cannot run in this worker",
        )
        for what in ("tables", "schemas")
    ),
    bool_option(
        name="openlineage.integration.enabled",
        doc="Reports the connector's datasets to an OpenLineage server.",
        default="false",
        importance=LOW,
        group=RUNTIME,
        label="OpenLineage",
        no_effect=_OPENLINEAGE,
    ),
    *(
        _unheard(name=f"openlineage.integration.{tail}", doc=doc, default=default, label=f"OpenLineage: {tail}", no_effect=_OPENLINEAGE)
        for tail, doc, default in (
            ("config.file.path", "File with the settings of OpenLineage.", "./openlineage.yml"),
            ("job.namespace", "Namespace of the reported OpenLineage job.", None),
            ("job.description", "Description of the reported OpenLineage job.", "Debezium change data capture job"),
            ("job.tags", "Tags of the reported OpenLineage job.", None),
            ("job.owners", "Owners of the reported OpenLineage job.", None),
            ("dataset.kafka.bootstrap.servers", "Brokers whose addresses name the reported datasets.", None),
        )
    ),
)
