"""For every alert, time series that must make it fire and some that must not: what ``promtool test rules`` is given.

A case is a few series in promtool's notation (``0x60``: 61 samples of 0; ``0+10x60``: rising by 10; ``_x20``: none), one sample each 15 seconds, and a
moment at which the alert fires so many times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

WHO = '{connector="shop",task="0",instance="a",job="worker"}'
OTHER = '{connector="shop",task="0",instance="b",job="other",namespace="staging"}'
"""A task of the same name in another group."""
SINK = '{instance="s",job="sink"}'
SAMPLES = 340
"""Eighty-five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    alert: str
    when: str
    """What happens, in a few words."""
    series: dict[str, str]
    at: str = "20m"
    fires: int = 0
    """How many alerts of this name fire then."""


def flat(value: float) -> str:
    return f"{value:.12g}x{SAMPLES}"


def rising(by: float, *, start: float = 0) -> str:
    return f"{start:.12g}+{by:g}x{SAMPLES}"


def step(before: float, samples: int, after: float) -> str:
    return f"{before:.12g}x{samples} {after:.12g}x{SAMPLES}"


def then_nothing(value: float, samples: int) -> str:
    return f"{value:.12g}x{samples} _x{SAMPLES}"


def ages(seconds: float) -> str:
    """An instant that is always so many seconds ago: promtool's time begins at 0."""
    return f"{-seconds:.12g}+15x{SAMPLES}"


def of_task(name: str, labels: str = "") -> str:
    return f"dblog_task_{name}" + WHO.replace("}", f",{labels}}}" if labels else "}")


def of_other(series: dict[str, str]) -> dict[str, str]:
    """The same of the other group's task."""
    return {name.replace(WHO[:-1], OTHER[:-1]): values for name, values in series.items()}


def of_sink(name: str, labels: str = "") -> str:
    return f"dblog_sink_{name}" + SINK.replace("}", f",{labels}}}" if labels else "}")


RUNNING = {of_task("state", 'state="running"'): flat(1), of_task("state", 'state="failed"'): flat(0)}
WORKERS = {'dblog_worker_leads{instance="a",job="worker"}': flat(1), 'dblog_worker_leads{instance="b",job="worker"}': flat(0)}


@dataclass(slots=True)
class _Cases:
    found: list[Case] = field(default_factory=list)

    def fires(self, alert: str, when: str, series: dict[str, str], *, at: str = "20m", times: int = 1) -> None:
        self.found.append(Case(alert=alert, when=when, series=series, at=at, fires=times))

    def silent(self, alert: str, when: str, series: dict[str, str], *, at: str = "20m") -> None:
        self.found.append(Case(alert=alert, when=when, series=series, at=at))


def cases() -> list[Case]:
    """All of them."""
    made = _Cases()
    _workers(made)
    _tasks(made)
    _log(made)
    _records(made)
    _paused(made)
    _groups(made)
    _apply(made)
    _sink(made)
    return made.found


def _workers(made: _Cases) -> None:
    ready = 'dblog_worker_ready{instance="a",job="worker"}'
    gone, other = {ready: then_nothing(1, 8)}, {'dblog_worker_ready{instance="b",job="other",namespace="b"}': flat(1)}
    made.fires("DblogNoWorker", "those of one group are gone, and another group lives", gone | other, at="12m")
    made.silent("DblogNoWorker", "they are back within three minutes", {ready: f"1x8 _x8 1x{SAMPLES}"} | other, at="5m")
    made.fires("DblogNoWorker", "all are gone", gone, at="12m")
    made.fires("DblogNoWorker", "there is no worker", {"up": flat(1)}, at="4m")
    made.silent("DblogNoWorker", "it is away for less than three minutes", {"up": flat(1)}, at="2m45s")
    made.fires("DblogNoWorker", "the only one does not get ready", {ready: flat(0)}, at="4m")
    made.fires("DblogNoWorker", "neither does that of another group", {ready: flat(0), **dict.fromkeys(other, flat(0))}, at="4m", times=2)
    made.silent("DblogNoWorker", "one of two is ready", {ready: flat(1), ready.replace('"a"', '"b"'): flat(0)})

    made.fires("DblogNoLeader", "all stand by", {name: flat(0) for name in WORKERS})
    made.silent("DblogNoLeader", "one runs the connectors and one stands by", WORKERS)
    two_groups = {'dblog_worker_leads{instance="c",job="other"}': flat(0)}
    made.fires("DblogNoLeader", "of two groups one has no leader", WORKERS | two_groups)

    leaderships = 'dblog_worker_leaderships_total{instance="a",job="worker"}'
    made.fires("DblogLeaderChanges", "the lead changes once a minute", {leaderships: rising(0.25)})
    made.silent("DblogLeaderChanges", "it changes four times in ten minutes", {leaderships: rising(0.1)})
    rebalances = 'dblog_worker_rebalances_total{instance="a",job="worker"}'
    made.fires("DblogLeaderChanges", "the group rebalances once a minute", {rebalances: rising(0.25)})

    expiry = 'dblog_certificate_expiry_timestamp_seconds{use="kafka",connector="",name="ca.pem",instance="a",job="worker"}'
    made.fires("DblogCertificateExpires", "thirteen days are left", {expiry: flat(13 * 86400)})
    made.silent("DblogCertificateExpires", "fifteen days are left", {expiry: flat(15 * 86400)})
    made.fires("DblogCertificateExpires", "it has ended", {expiry: flat(60)})

    warnings = 'dblog_connector_warnings{connector="shop",instance="a",job="worker"}'
    made.fires("DblogConnectorWarnings", "a warning stands for an hour", {warnings: flat(2)}, at="1h")
    made.silent("DblogConnectorWarnings", "it is withdrawn within a quarter of an hour", {warnings: step(2, 60, 0)}, at="1h")

    unpublished = 'dblog_task_tables_unpublished{connector="shop",instance="a",job="worker",task="0"}'
    made.fires("DblogTablesUnpublished", "a captured table is in no publication for six minutes", {unpublished: flat(1)}, at="6m")
    made.silent("DblogTablesUnpublished", "the publication has all of them", {unpublished: flat(0)}, at="6m")
    made.silent("DblogTablesUnpublished", "it gets the table after two minutes", {unpublished: step(1, 8, 0)}, at="6m")

    state = 'dblog_connector_state{connector="shop",instance="a",job="worker",state="%s"}'
    made.fires("DblogConnectorFailed", "it is FAILED for six minutes", {state % "failed": flat(1)}, at="6m")
    made.silent("DblogConnectorFailed", "it is FAILED for four minutes", {state % "failed": flat(1)}, at="4m")
    made.silent("DblogConnectorFailed", "it is paused", {state % "failed": flat(0), state % "paused": flat(1)})
    made.fires(
        "DblogConnectorFailed",
        "the workers change meanwhile",
        {state % "failed": then_nothing(1, 12), (state % "failed").replace('"a"', '"b"'): f"_x12 1x{SAMPLES}"},
        at="8m",
    )


def _tasks(made: _Cases) -> None:
    failed = of_task("state", 'state="failed"')
    made.fires("DblogTaskFailed", "it is FAILED for six minutes", {failed: flat(1)}, at="6m")
    made.silent("DblogTaskFailed", "it fails and runs again within five minutes", {failed: f"1x12 0x12 1x12 0x{SAMPLES}"})
    made.silent("DblogTaskFailed", "it runs", RUNNING)

    unassigned, restarting = of_task("state", 'state="unassigned"'), of_task("state", 'state="restarting"')
    made.fires("DblogTaskUnassigned", "its first start hangs", {unassigned: flat(1), failed: flat(0)}, at="6m")
    made.fires("DblogTaskUnassigned", "a restart hangs", {unassigned: f"0x16 1x{SAMPLES}", restarting: f"0x8 1x8 0x{SAMPLES}"}, at="9m")
    made.silent("DblogTaskUnassigned", "it starts within four minutes", RUNNING | {unassigned: f"1x16 0x{SAMPLES}", restarting: flat(0)})

    starting = of_task("starting_seconds")
    made.fires("DblogTaskStarting", "it ran before, and a start takes eleven minutes", RUNNING | {starting: rising(15)}, at="11m")
    made.silent("DblogTaskStarting", "a start takes nine minutes", {starting: f"0+15x36 0x{SAMPLES}"}, at="12m")
    made.silent("DblogTaskStarting", "starts of five minutes follow each other", {starting: "0+15x20 " * 15}, at="60m")

    def restarts(reason: str) -> str:
        return of_task("restarts_total", f'reason="{reason}"')

    made.fires("DblogTaskRestarts", "its process is killed each five minutes", {restarts("killed"): rising(0.05)})
    made.fires("DblogTaskRestarts", "three errors within fifteen minutes", {restarts("error"): f"0x50 1x8 2x8 3x{SAMPLES}"}, at="18m")
    made.silent("DblogTaskRestarts", "two within fifteen minutes", {restarts("killed"): f"0x50 1x8 2x{SAMPLES}"}, at="18m")
    made.silent(
        "DblogTaskRestarts", "an operator restarts it each minute", {restarts("requested"): rising(0.25), restarts("killed"): flat(0)}
    )
    made.silent("DblogTaskRestarts", "its configuration changes each minute", {restarts("config"): rising(0.25)})

    stalled, reported = of_task("stalled_seconds"), of_task("reported_timestamp_seconds")
    made.fires("DblogStalled", "nothing moves for two minutes", RUNNING | {stalled: rising(15), reported: ages(1)}, at="2m")
    made.silent("DblogStalled", "one huge transaction is read: its bytes are progress", RUNNING | {stalled: flat(0), reported: ages(1)})
    made.silent("DblogStalled", "it is paused", {of_task("state", 'state="paused"'): flat(1), stalled: flat(0), reported: ages(600)})
    made.fires("DblogStalled", "its process hangs, and reports nothing", RUNNING | {reported: flat(0)}, at="3m")
    made.silent("DblogStalled", "it has not started yet, or is FAILED", {of_task("state", 'state="running"'): flat(0), reported: flat(0)})


def _log(made: _Cases) -> None:
    lag = of_task("lag_seconds")
    made.fires("DblogLagHigh", "it is 61 s for six minutes", {lag: flat(61)}, at="6m")
    made.silent("DblogLagHigh", "it is 60 s", {lag: flat(60)})
    made.silent("DblogLagHigh", "it is high for four minutes", {lag: f"0x40 90x16 0x{SAMPLES}"})
    made.fires("DblogLagVeryHigh", "it is eleven minutes", {lag: flat(660)})
    made.silent("DblogLagVeryHigh", "it is nine minutes", {lag: flat(540)})
    made.fires("DblogNotCatchingUp", "it rises for forty minutes", {lag: rising(1, start=100)}, at="40m")
    made.fires("DblogNotCatchingUp", "it stays where it is", {lag: flat(300)}, at="40m")
    made.silent("DblogNotCatchingUp", "it falls", {lag: f"4000-10x{SAMPLES}"}, at="40m")
    made.silent("DblogNotCatchingUp", "it has been high for twenty minutes only", {lag: step(0, 80, 300)}, at="40m")
    made.silent("DblogNotCatchingUp", "it is a second", {lag: flat(1)}, at="40m")

    kept, margin = of_task("log_retention_seconds"), of_task("log_purge_margin_files")
    made.fires("DblogLogRetentionShort", "the log is kept for five hours", {kept: flat(5 * 3600), lag: flat(0)})
    made.fires("DblogLogRetentionShort", "it is kept for a day, and the lag is nineteen hours", {kept: flat(86400), lag: flat(19 * 3600)})
    made.silent("DblogLogRetentionShort", "it is kept for seven hours", {kept: flat(7 * 3600), lag: flat(0)})
    made.silent("DblogLogRetentionShort", "it is kept for ever", {lag: flat(5000)})

    behind, purged = of_task("log_stored_behind_files"), of_task("log_purged")
    made.fires("DblogLogPurgeNear", "the next file to go is ours, and there are newer ones", {margin: flat(0), behind: flat(2)})
    read, paused = of_task("log_behind_files"), {of_task("paused"): flat(1), of_task("state", 'state="paused"'): flat(1)}
    made.fires(
        "DblogLogPurgeNear", "it is paused, and has read on into its queue", {margin: flat(0), behind: flat(2), read: flat(0)} | paused
    )
    made.silent("DblogLogPurgeNear", "the database has one file, and it is ours", {margin: flat(0), behind: flat(0)})
    made.silent("DblogLogPurgeNear", "there are older files", {margin: flat(3), behind: flat(2)})
    made.fires("DblogLogPurgeNear", "our file is gone", {purged: flat(1)})
    made.fires("DblogLogPurgeNear", "the log that is needed expires within a day", {kept: flat(86400), lag: flat(3600)})
    left = of_task("log_race_left_seconds")
    made.fires("DblogLogPurgeNear", "at the speeds of now the log is lost in five hours", {left: flat(5 * 3600)})
    made.silent("DblogLogPurgeNear", "at the speeds of now it is lost in a week", {left: flat(7 * 86400)})
    made.silent("DblogLogPurgeNear", "the log is kept for a day, and nothing is behind", {kept: flat(86400), lag: flat(1), purged: flat(0)})


def _paused(made: _Cases) -> None:
    """Records wait in the queue of a paused task, and get old."""
    waits = {
        of_task("lag_seconds"): rising(15),
        of_task("queue_fill_ratio"): flat(1),
        of_task("state", 'state="paused"'): flat(1),
        of_task("state", 'state="running"'): flat(0),
        of_task("paused"): flat(1),
    }
    for alert in ("DblogLagHigh", "DblogLagVeryHigh", "DblogNotCatchingUp", "DblogQueueFull"):
        made.silent(alert, "it is paused", waits, at="60m")
        made.fires(alert, "one of the same name in another group is paused, and it is not", of_other(waits) | _not_paused(waits), at="60m")
    resumed = {of_task("lag_seconds"): f"0+15x160 2400-60x38 0x{SAMPLES}", of_task("paused"): step(1, 160, 0)}
    made.silent("DblogNotCatchingUp", "it is resumed and catches up", resumed, at="47m")


def _not_paused(series: dict[str, str]) -> dict[str, str]:
    return {name: flat(0) if name == of_task("paused") else values for name, values in series.items()}


def _groups(made: _Cases) -> None:
    """Connectors of one name in two groups: what one does hides nothing of the other."""
    hangs, lives = RUNNING | {of_task("reported_timestamp_seconds"): flat(0)}, RUNNING | {of_task("reported_timestamp_seconds"): ages(1)}
    made.fires("DblogStalled", "its process hangs, and one of the same name in another group lives", hangs | of_other(lives), at="3m")
    made.fires("DblogStalled", "those of two groups hang", hangs | of_other(hangs), at="3m", times=2)
    of_one, dumping = of_task("dump_last_progress_timestamp_seconds"), {of_task("dump_running"): flat(1)}
    made.fires(
        "DblogDumpStuck",
        "no chunk for eleven minutes, and a dump of the same name in another group goes on",
        dumping | {of_one: ages(660)} | of_other(dumping | {of_one: ages(5)}),
    )
    starts, runs = {of_task("starting_seconds"): rising(15)}, {of_task("starting_seconds"): flat(0)}
    made.fires("DblogTaskStarting", "one of the same name in another group has started", starts | of_other(runs), at="11m")
    failed = {of_task("state", 'state="failed"'): flat(1)}
    made.fires("DblogTaskFailed", "those of two groups fail", failed | of_other(failed), times=2)
    purged = {of_task("log_retention_seconds"): flat(5 * 3600), of_task("lag_seconds"): flat(0)}
    made.fires("DblogLogRetentionShort", "that of another group lags by hours", purged | of_other(purged), times=2)
    read, acknowledged = of_task("topic_records_total", 'topic="a"'), of_task("topic_records_acknowledged_total", 'topic="a"')
    made.fires(
        "DblogTopicSilent",
        "the topic of the same name in another group gets its records",
        {read: rising(5), acknowledged: flat(0)} | of_other({read: rising(5), acknowledged: rising(5)}),
    )


def _apply(made: _Cases) -> None:
    problem = 'dblog_apply_problem{connector="shop",field="%s",instance="r",job="reconciler"}'
    good = 'dblog_apply_last_good_timestamp_seconds{instance="r",job="reconciler"}'
    made.fires("DblogApplyProblem", "two options of a connector are refused", {problem % "a": flat(1), problem % "b": flat(1)}, times=2)
    made.fires("DblogApplyProblem", "a connector as a whole is", {problem % "": flat(1)}, at="11m")
    made.silent("DblogApplyProblem", "the worker starts meanwhile", {problem % "": then_nothing(1, 12)}, at="11m")
    made.fires("DblogApplyLate", "a round hangs", {good: flat(0)}, at="21m")
    made.fires(
        "DblogApplyLate",
        "that of another group has a problem",
        {good: flat(0), (problem % "").replace("reconciler", "r"): flat(1)},
        at="21m",
    )
    made.silent("DblogApplyLate", "a round a minute ends well", {good: ages(60)}, at="60m")
    made.silent("DblogApplyLate", "the problem is known", {good: flat(0), problem % "": flat(1)}, at="60m")


def _records(made: _Cases) -> None:
    def skipped(reason: str) -> str:
        return of_task("events_skipped_total", f'reason="{reason}"')

    made.fires("DblogEventsSkipped", "one event is left out", {skipped("damaged"): step(0, 40, 1)})
    made.fires("DblogEventsSkipped", "the first one brings the counter along", {skipped("refused"): f"_x40 1x{SAMPLES}"}, at="15m")
    made.silent("DblogEventsSkipped", "some were left out hours ago", {skipped("damaged"): flat(7)}, at="80m")
    made.silent("DblogEventsSkipped", "rows of a parked table wait for their dump", {skipped("parked"): rising(3)})

    made.fires("DblogTableParked", "a table is parked", {of_task("tables_parked"): flat(1)})
    made.silent("DblogTableParked", "none is", {of_task("tables_parked"): flat(0)})
    made.silent(
        "DblogTableParked", "it is parked for a minute, until its dump", {of_task("tables_parked"): f"0x20 1x4 0x{SAMPLES}"}, at="6m"
    )

    waits, interval = of_task("offset_uncommitted_seconds"), {of_task("offset_flush_interval_seconds"): flat(60)}
    made.fires("DblogOffsetsNotCommitted", "progress waits for six minutes", interval | {waits: rising(15)}, at="8m")
    made.silent("DblogOffsetsNotCommitted", "it waits for four", interval | {waits: flat(240)})
    made.silent("DblogOffsetsNotCommitted", "none waits", interval | {waits: flat(0)})

    dumping, progress, begun = (
        of_task("dump_running"),
        of_task("dump_last_progress_timestamp_seconds"),
        of_task("dump_started_timestamp_seconds"),
    )
    made.fires("DblogDumpStuck", "no chunk for eleven minutes", {dumping: flat(1), progress: ages(660), begun: ages(9000)})
    made.fires("DblogDumpStuck", "not even the first one", {dumping: flat(1), begun: flat(0)})
    made.silent("DblogDumpStuck", "a chunk a minute", {dumping: flat(1), progress: ages(60), begun: flat(0)})
    made.silent("DblogDumpStuck", "the dump is done", {dumping: flat(0), progress: flat(0)})
    made.silent("DblogDumpStuck", "the task is paused", {dumping: flat(1), progress: flat(0), of_task("paused"): flat(1)})

    made.fires("DblogDumpTablesFailed", "one table", {of_task("dump_tables_failed"): flat(1)})
    made.silent("DblogDumpTablesFailed", "none", {of_task("dump_tables_failed"): flat(0)})

    fill = of_task("queue_fill_ratio")
    made.fires("DblogQueueFull", "it is full for eleven minutes", {fill: flat(0.95)}, at="11m")
    made.silent("DblogQueueFull", "it is full for nine minutes", {fill: flat(0.95)}, at="9m")
    made.silent("DblogQueueFull", "it is at nine tenths", {fill: flat(0.9)})

    def topic(name: str, of: str) -> str:
        return of_task(f"topic_records{of}_total", f'topic="{name}"')

    one_silent = {
        topic("a", ""): rising(5),
        topic("a", "_acknowledged"): flat(0),
        topic("b", ""): rising(5),
        topic("b", "_acknowledged"): rising(5),
    }
    made.fires("DblogTopicSilent", "one of two topics gets nothing", one_silent)
    made.silent("DblogTopicSilent", "nobody writes to the table", {topic("a", ""): flat(9), topic("a", "_acknowledged"): flat(9)})
    made.silent(
        "DblogTopicSilent",
        "records are late by minutes",
        {topic("a", ""): rising(5), topic("a", "_acknowledged"): step(0, 20, 1)},
        at="10m",
    )

    kafka, away = of_task("kafka_errors_total", 'error="_TRANSPORT"'), of_task("kafka_away")
    made.fires("DblogKafkaErrors", "errors go on", {kafka: rising(1)})
    made.fires("DblogKafkaErrors", "the brokers do not answer", {away: flat(1)})
    made.silent("DblogKafkaErrors", "one error", {kafka: step(0, 20, 1), away: flat(0)}, at="9m")
    asked = of_task("registry_requests_total", 'result="failed"')
    made.fires("DblogRegistryErrors", "a task's requests fail", {asked: rising(1)})
    served = 'dblog_registry_requests_total{instance="a",job="worker",result="%s"}'
    made.fires("DblogRegistryErrors", "the worker's own registry fails", {served % "server_error": rising(1)})
    made.silent("DblogRegistryErrors", "clients ask for what is not there", {served % "client_error": rising(1), asked: flat(3)})


def _sink(made: _Cases) -> None:
    info, running, ends = of_sink("build_info", 'version="1"'), of_sink("running"), of_sink("ends_by_itself")
    gone = {info: then_nothing(1, 20), running: then_nothing(1, 20)}
    made.fires("DblogSinkDown", "it is gone", gone | {ends: then_nothing(0, 20)})
    made.silent("DblogSinkDown", "a job that ends by itself has ended", gone | {ends: then_nothing(1, 20)}, at="80m")
    made.fires("DblogSinkDown", "the query of a job that ends by itself does not run", {info: flat(1), ends: flat(1), running: flat(0)})
    made.fires("DblogSinkDown", "its query does not run", {info: flat(1), running: flat(0)})
    made.silent(
        "DblogSinkDown",
        "it restarts within five minutes",
        dict.fromkeys((info, running), f"1x20 _x12 1x{SAMPLES}") | {ends: f"0x20 _x12 0x{SAMPLES}"},
    )
    made.silent("DblogSinkDown", "there never was one", {"up": flat(1)})
    made.silent("DblogSinkDown", "it runs", {info: flat(1), running: flat(1), ends: flat(0)})

    in_a_row = of_sink("batch_failures_in_a_row")
    made.fires("DblogSinkFailing", "a batch fails again and again", {in_a_row: rising(0.1)})
    made.silent("DblogSinkFailing", "the second try goes well", {in_a_row: f"0x20 1x8 0x{SAMPLES}"})
    restarts = of_sink("restarts_total")
    made.fires("DblogSinkRestarts", "three in fifteen minutes", {restarts: f"0x50 1x8 2x8 3x{SAMPLES}"}, at="18m")
    made.silent("DblogSinkRestarts", "two", {restarts: f"0x50 1x8 2x{SAMPLES}"}, at="18m")

    lag = of_sink("lag_seconds")
    made.fires("DblogSinkLag", "sixteen minutes", {lag: flat(960)})
    made.silent("DblogSinkLag", "fourteen minutes", {lag: flat(840)})

    parked = of_sink("table_parked", 'table="shop.a"')
    made.fires("DblogSinkTableParked", "a table is parked", {parked: flat(1), parked.replace("shop.a", "shop.b"): flat(0)})
    made.silent("DblogSinkTableParked", "it is resumed", {parked: f"1x8 0x{SAMPLES}"})
    bad = of_sink("quarantined_total", 'table="shop.a"')
    made.fires("DblogSinkQuarantine", "a bad record", {bad: step(0, 20, 1)})
    made.fires("DblogSinkQuarantine", "a table's first batch has bad records", {bad: f"_x20 7x{SAMPLES}"}, at="8m")
    made.silent("DblogSinkQuarantine", "bad records of long ago", {bad: flat(5)}, at="80m")
    wrong = of_sink("verified_rows", 'result="missing",table="shop.a"')
    right = {wrong.replace("missing", name): flat(5) for name in ("equal", "changed")}
    made.fires("DblogLakeDiffers", "a row is missing", right | {wrong: step(0, 20, 1)})
    made.silent("DblogLakeDiffers", "it is there at the next comparison", right | {wrong: f"1x20 0x{SAMPLES}"})
    losses = of_sink("data_losses_total", 'topic="p.shop.a"')
    made.fires("DblogSinkDataLoss", "records expired", {losses: f"_x20 1x{SAMPLES}"})
    made.silent("DblogSinkDataLoss", "hours ago", {losses: flat(1)}, at="80m")

    def errors(name: str) -> str:
        return of_sink("errors_total", f'class="{name}"')

    made.fires("DblogSinkKafkaErrors", "no broker answers", {errors("kafka"): rising(1)})
    made.silent("DblogSinkKafkaErrors", "something else fails", {errors("kafka"): flat(0), errors("storage"): rising(1)})
    made.fires("DblogSinkRegistryErrors", "it is away", {of_sink("registry_requests_total", 'result="away"'): rising(1)})
    made.silent(
        "DblogSinkRegistryErrors", "it answers", {of_sink("registry_requests_total", f'result="{r}"'): rising(1) for r in ("ok", "unknown")}
    )
    blocked = of_sink("transaction_incomplete_seconds")
    made.fires("DblogSinkSnapshotBlocked", "for eleven minutes", {blocked: flat(660)})
    made.silent("DblogSinkSnapshotBlocked", "nothing is missing", {blocked: flat(0)})

    def chunks(result: str) -> str:
        return of_sink("chunks_total", f'result="{result}",table="shop.a"')

    made.fires("DblogVerifyMismatch", "a chunk is short", {chunks("short"): step(0, 20, 1), chunks("late"): flat(0)})
    made.fires(
        "DblogVerifyMismatch",
        "the first chunk of all is short",
        {chunks("short"): f"_x20 1x{SAMPLES}", chunks("late"): f"_x20 0x{SAMPLES}"},
    )
    made.silent(
        "DblogVerifyMismatch", "and its rows arrive", {chunks("short"): f"_x20 1x{SAMPLES}", chunks("late"): f"_x20 0x10 1x{SAMPLES}"}
    )
    made.silent("DblogVerifyMismatch", "what was missing arrives", {chunks("short"): step(0, 20, 1), chunks("late"): step(0, 40, 1)})
    made.silent(
        "DblogVerifyMismatch", "nothing is proved", {chunks("unproven"): rising(1), chunks("short"): flat(0), chunks("late"): flat(0)}
    )
