"""Chooses the next file of tests for a process, if several processes run tests (``make test``).

Long files go first, so that no process runs one alone at the end. Half of the processes take the
sink's files, and help the others afterwards. The other half, which starts database servers, takes
none of them: each JVM for them compiles Spark's code again, one or two minutes of CPU.
"""

from xdist.scheduler import LoadFileScheduling

LONG = (
    "tests/docs/test_readme.py",
    "tests/sink/tables/test_column_policies.py",
    "tests/sink/tables/test_column_changes.py",
    "tests/sink/reconcile/test_arrivals.py",
    "tests/sink/tables/modes/test_new_rows.py",
    "tests/sink/tables/modes/test_unavailable_values.py",
    "tests/sink/tables/modes/test_mirror.py",
    "tests/sink/batches/test_guards.py",
    "tests/sink/batches/test_random_changes.py",
    "tests/sink/job/test_log_cleanup.py",
    "tests/sink/tables/modes/test_append.py",
    "tests/sink/records/test_record_shapes.py",
    "tests/sink/tables/test_quarantine.py",
    "tests/sink/tables/test_reserved_paths.py",
    "tests/sink/records/test_lsn_positions.py",
    "tests/sink/snapshots/test_manifest.py",
    "tests/sink/delta/test_upsert.py",
    "tests/sink/batches/test_landing.py",
    "tests/integration/test_database_contract.py",
    "tests/integration/postgres/test_ten_kills.py",
    "tests/integration/test_session.py",
    "tests/worker/rest/test_worker_life.py",
    "tests/worker/rest/test_two_workers.py",
    "tests/integration/test_sink_on_kafka.py",
    "tests/integration/test_requested_dumps.py",
    "tests/integration/test_ddl_on_servers.py",
    "tests/integration/postgres/test_schema_changes.py",
    "tests/worker/apply/test_apply.py",
    "tests/monitoring/test_live.py",
)
"""Files that take longest, roughly in this order: those of the sink by their number of batches."""

_RANKS = {file: rank for rank, file in enumerate(LONG)}


_SINK = "tests/sink/"


def _is_of_sink(file):
    return file.startswith(_SINK)


def next_file(waiting, *, sink_first):
    """Return the file to run next among those that wait, which are in the order of collection."""
    return min(waiting, key=lambda file: (_is_of_sink(file) != sink_first, _RANKS.get(file, len(LONG))))


class LongFilesFirst(LoadFileScheduling):
    """xdist's distribution by file, in this order.

    If a process dies, others get only the tests that it had not run. By default xdist would give
    them all tests of its files: the test that killed it would kill the next process too, and a
    process with an already finished file would report nothing and never get another, so the run
    would hang.
    """

    def remove_node(self, node):
        files = self.assigned_work.pop(node)
        killed_by = next((test for tests in files.values() for test, is_done in tests.items() if not is_done), None)
        if killed_by is None:
            return None
        files[self._split_scope(killed_by)][killed_by] = True
        self.workqueue.update({file: tests for file, tests in files.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return killed_by

    def _reschedule(self, node):
        if self.workqueue and not node.shutting_down and not self._takes_sink(node) and all(map(_is_of_sink, self.workqueue)):
            node.shutdown()
            return
        super()._reschedule(node)

    def _assign_work_unit(self, node):
        self.workqueue.move_to_end(next_file(self.workqueue, sink_first=self._takes_sink(node)), last=False)
        super()._assign_work_unit(node)

    def _takes_sink(self, node):
        """Return True for the first half of the processes.

        Processes that have died or been ended are not counted, so others take their place.
        """
        return [one for one in self.nodes if not one.shutting_down].index(node) < max(1, self.numnodes // 2)
