# A bare `make` explains itself. Every target sets up what it needs; a second run reuses everything.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo sink jars-s3a servers servers-stop test lake-test test-long test-day alerts-test lint measure audit audit-secrets audit-baseline audit-dependencies format kill-campaign sink-campaign chaos-sink sink-month chaos bench bench-peer bench-before bench-tables bench-transforms bench-table bench-sink fuzz sim sim-mutations images images-save images-lock page-assets images-test release release-key publish dist compare-peer compare-way-back compare-signals compare-transforms compare-converters fresh-machine-test kubernetes-test bench-transaction chart chart-lint docs docs-serve clean

ifndef PYTHON
PYTHON := $(shell for python in python3.11 python3 python3.12 python3.13; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
endif
SOURCE ?= mariadb
RUNS ?= 10
TESTS ?= tests
PROCESSES ?= 5
SERVERS ?= kafka mariadb
BIN := build/venv/bin
export PYTHONPATH := $(CURDIR)/docker
# A JDK that setup has unpacked, where the machine has none that will do.
export PATH := $(CURDIR)/build/java/bin:$(PATH)
# What Python compiles is kept: the tests start some thousand processes, which would compile the worker once more each.
unexport PYTHONDONTWRITEBYTECODE

# Asked before anything is downloaded or compiled: all that this machine lacks for a target is one answer. Then everything that can be made is made.
HAS_PYTHON = if [ -z '$(PYTHON)' ]; then echo 'dblog needs Python 3.11 or later, and this machine has none. Install it, or name one: make PYTHON=/path/to/python3.11' >&2; exit 1; fi
NEEDS = PYTHONPATH=$(CURDIR)/docker:$(CURDIR)/tests $(PYTHON) -m needs
define ready
@$(HAS_PYTHON); $(NEEDS) $@
@$(MAKE) --no-print-directory setup
@$(NEEDS) --make $@
endef

help:
	@echo 'dblog: change data capture from MySQL, MariaDB and PostgreSQL through Kafka into Delta Lake'
	@echo
	@echo 'Try it'
	@echo '  make demo [SOURCE=mariadb|mysql|postgres]   a database under writes into Delta, with kills on the way and a proof at the end'
	@echo '  make servers [SERVERS="kafka mariadb"]      a broker and a database to try dblog by hand; addresses in build/servers.json'
	@echo '  make servers-stop                  stop them and remove their data'
	@echo '  make sink CONFIG=sink.yaml [ARGS="--set trigger.once=true"]   the sink by spark-submit on this machine; ARGS=--print shows the line'
	@echo '  make jars-s3a [FOLDER=...]         the jars for tables in S3 (s3a://), with the log store that lets several drivers write there'
	@echo
	@echo 'Ship it'
	@echo '  make images [ENGINE=podman BASE_IMAGE=name]   the container images of worker and sink, by docker, podman or buildah; sizes, bills of materials'
	@echo '  make images-save                   the images as archives in build/images'
	@echo '  make images-lock                   the hash-locked lists of what the images install, after a version has changed'
	@echo '  make page-assets                   the two libraries of the web page taken from npm again, as their lock says'
	@echo '  make dist                          wheels, source archives and the code for spark-submit in build/dist'
	@echo '  make chart                         the chart: reference and schema made from its values, linted by both Helms, packed into build/dist'
	@echo '  make release-key KEY=dblog.key     a key pair that signs releases: dblog.key, and dblog.pub for those who verify'
	@echo '  make release VERSION=1.4.0 KEY=dblog.key [REGISTRY=host/path]   images, chart and wheels of the commit, described and signed, in build/release'
	@echo '  make publish REGISTRY=host/path [VERSION=1.4.0]   images and chart to a registry; prints the two commands that verify and install them'
	@echo '  make docs                          the documentation as a site in build/docs; its links checked'
	@echo '  make docs-serve [ADDRESS=127.0.0.1:8000]   the same, served on this machine alone'
	@echo
	@echo 'Check a change'
	@echo '  make test [TESTS=tests/worker]     lint and all tests, on real servers, five files at a time (PROCESSES=5)'
	@echo '  make lint                          style, types and import contracts'
	@echo '  make format                        repair what lint can repair'
	@echo '  make measure [ARGS="--list callables"]   sizes of the shipped code, to be compared between two commits'
	@echo '  make audit                         unsafe code, licences; make audit-secrets: secrets in files; make audit-dependencies: known vulnerabilities; make audit-baseline: what only looks like a secret'
	@echo
	@echo 'Longer trials, not part of the tests'
	@echo '  make test-long                     trials that the tests have a shorter version of: other modes, the other server'
	@echo '  make test-day [DAY=3]              a fourteenth of those, another one each day, in twenty minutes at the most'
	@echo '  make images-test                   the images built and run as in Kubernetes, from the database to Delta'
	@echo '  make fresh-machine-test [TARGETS="demo test"]   the same where neither a JDK nor Maven is, in a bare Debian made by debootstrap (as root)'
	@echo '  make kubernetes-test               a Kubernetes of one node from packages, as root, with the images and the chart on it'
	@echo '  make alerts-test                   each alert on a real Prometheus, by real faults where they can be made; all panels of the boards with data'
	@echo '  make lake-test                     the sink on a store with S3 interface: kills, faults, two sinks at once, several executors'
	@echo '  make chart-lint                    its objects under checkov, in an environment of its own'
	@echo '  make kill-campaign [RUNS=10]       the demo, smaller, killed at random moments; SOURCE= and SEED= as you like'
	@echo '  make sink-campaign [RUNS=10]       random histories through the sink, killed at random steps, against a model; SEED= as you like'
	@echo '  make chaos [SEED=random SECONDS=30 RUNS=1]   random schemas, writes, DDL, settings and faults by seed, four sides compared; SOURCE=, BEFORE=, ARGS="--shrink 0"'
	@echo '  make chaos-sink [RUNS=10]          kinds of topics, strangers, kills, and stories of what was mended, by seed against a model; SEED=, ONLY=kind, BEFORE=/path'
	@echo '  make sink-month [DAYS=30 EVERY=5]  a month of commits to a control table and to a hot table: what a look at their Delta logs lists, by count'
	@echo '  make sim [SEEDS=100000 SEED=]      schedules of core and readers by seed, without threads or time, against the invariants; SEED= shows one'
	@echo '  make sim-mutations [MUTATION=text] protections of core and readers taken away one by one: each must make a schedule fail'
	@echo '  make fuzz [ARGS=...]               damaged packets and rows into the decoders, built with sanitizers; --cases N --seed N; --rest: requests to a worker'
	@echo '  make compare-peer [ARGS=...]       the records of dblog and of a real Debezium for the same statements, field by field'
	@echo '  make compare-way-back [ARGS=...]   one connector from Debezium to dblog and back, again and again, with DDL: no change is missing'
	@echo "  make compare-transforms [ARGS='Cast|Flatten']   every transform against Kafka Connect's and Debezium's own, byte for byte"
	@echo "  make compare-converters [ARGS='Json|String']   every converter against Kafka Connect's, Debezium's and Confluent's own, byte for byte"
	@echo '  make compare-signals [ARGS=...]    the same signals for both, and their notifications, field by field'
	@echo
	@echo 'Speed'
	@echo '  make bench [ARGS=...]              speed and memory of the worker; writes build/bench'
	@echo '  make bench-peer [ARGS="bulk --scale 0.1"]   the worker against Debezium in Kafka Connect; writes build/bench/peer.json'
	@echo '  make bench-transforms [ARGS="--rounds 3"]   what chains of transforms cost per record, without servers'
	@echo '  make bench-before BEFORE=/path [ARGS="bulk --rounds 3"]   the worker against another checkout of itself, such as the commit before'
	@echo '  make bench-tables [ARGS="--tables 200"]   a dump of 1 000 small tables, topics and schemas included; writes build/bench/manytables.json'
	@echo '  make bench-table [ARGS="--rows 300000"]   a dump of one large table by one reader and by four; writes build/bench/onetable.json'
	@echo '  make bench-sink [ARGS="--works inserts --scale 0.1"]   the sink against a naive one; writes build/bench/sink.json'
	@echo '  make bench-transaction [ARGS="--gib 2 --source postgres"]   memory of a task that reads one huge transaction, plain and compressed'
	@echo
	@echo 'The rest'
	@echo '  make setup                         only the virtual environment, the extension and the downloads'
	@echo '  make clean                         remove build/ and compiled files (downloads stay in the cache folder)'
	@echo
	@echo '  PYTHON=/path/to/python3.11   another Python than the first one found'
	@echo '  DBLOG_CACHE=/path            where downloads are kept, default ~/.cache/dblog'

setup:
	@$(HAS_PYTHON)
	@$(PYTHON) -m stack setup

demo: setup
	@$(BIN)/python -m demo $(SOURCE)

sink: setup
	@if [ -z '$(CONFIG)' ]; then echo 'which configuration? make sink CONFIG=sink.yaml; spark-sink/README.md shows one' >&2; exit 2; fi
	@exec $(BIN)/dblog-sink submit --config '$(CONFIG)' $(ARGS)

# What `dblog-sink submit` and `dblog-sink jars` add where tables are in S3; spark-sink/docs/object-stores.md.
jars-s3a: setup
	@$(BIN)/python -m stack jars-s3a $(FOLDER)

# They outlive the shell: see docker/stack/background.py.
servers: setup
	@$(BIN)/python -m stack start $(SERVERS)

servers-stop:
	@$(PYTHON) -m stack stop

# The lint runs beside the tests, on what they leave of the processors, and is seen behind them where it finds something. A file of tests stays in one process,
# which has servers of its own; tests/support/file_order.py decides which process takes which file next. One process compiles the tests first, which
# takes longer than to collect them; the run after it reports errors in them.
test: setup
	@failed=; $(MAKE) --no-print-directory lint > build/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest --collect-only -q $(TESTS) > /dev/null 2>&1 || true; \
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder -m 'not long' $(TESTS) || failed='tests '; \
	wait $$lint || { cat build/lint.log; failed+='lint'; }; \
	[ -z "$$failed" ] || { echo "failed: $$failed" >&2; exit 1; }

# The trials that `make test` has a short version of.
test-long: setup
	@$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder -m long $(TESTS)

# A fourteenth of them, another one each day, so that two weeks of continuous integration have run all. A release runs `make test-long`.
DAY ?= $(shell echo $$(( $$(date +%s) / 86400 )))
BEGIN_WITHIN_S ?= 840
test-day: setup
	@echo 'the long trials of day $(DAY); make test-day DAY=$(DAY) repeats them'
	@$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder -m long --long-of-day $(DAY) --begin-within $(BEGIN_WITHIN_S) $(TESTS)

# On the store with S3's interface: kills and faults, and whole processes of the sink. With CI=true, here and below, what cannot be had is no reason to skip.
lake-test:
	$(ready)
	@CI=true $(BIN)/python -m pytest tests/sink/state/test_object_store.py tests/integration/test_sink_on_a_cluster.py

# Minutes; `make test` has all of it but the real faults that need a sink: see helm/monitoring/README.md.
alerts-test:
	$(ready)
	@CI=true $(BIN)/python -m pytest -m 'long or not long' tests/monitoring

lint: setup
	@status=0; \
	echo 'ruff check'; $(BIN)/ruff check --quiet . || status=1; \
	echo 'ruff format'; $(BIN)/ruff format --check --output-format concise . || status=1; \
	echo mypy; $(BIN)/mypy $(addprefix --package ,dblog dblog_sink stack demo images handbook release) || status=1; \
	echo 'import contracts'; $(BIN)/lint-imports --no-logo --config .importlinter || status=1; \
	exit $$status

# Seconds: lines, the largest class and constructor, callables that constructors are given. ARGS=/path measures another checkout.
measure: setup
	@PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m measure.shape $(ARGS)

# A minute, and among the tests too: what is unsafe in code, by bandit and by the project's own rules (tests/audit/code_rules.py), and licences. Beside the
# lint, whose ruff has most of bandit's rules.
audit: setup
	@$(BIN)/python tests/audit/audit.py code rules licences

# Minutes: every file is searched for what looks like a secret and is not in .secrets.baseline. The tests do it for what the last commits changed beside them.
audit-secrets: setup
	@$(BIN)/python tests/audit/audit.py secrets

audit-baseline: setup
	@$(BIN)/python tests/audit/audit.py baseline

# Needs the data of known vulnerabilities: a package that could not be looked up counts as a finding.
audit-dependencies: setup
	@[ -x build/audit/bin/python ] || $(PYTHON) -m venv build/audit
	@build/audit/bin/python -m pip install --quiet pip-audit==2.10.1
	@build/audit/bin/python tests/audit/audit.py vulnerabilities

format: setup
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format .

# Minutes, not part of the tests: the demo's flow again and again, killed at random moments.
kill-campaign: setup
	@$(BIN)/python tests/e2e/kill_campaign.py --runs $(RUNS) --source $(SOURCE) $(if $(SEED),--seed $(SEED))

# Minutes, not part of the tests: processes of the sink killed between its commits, the table compared with a model.
sink-campaign: setup
	@PYTHONPATH=$(CURDIR)/docker:$(CURDIR)/spark-sink/src:$(CURDIR)/tests $(BIN)/python tests/sink/kills.py --runs $(RUNS) $(if $(SEED),--seed $(SEED))

# Half a minute a seed; the tests run a few of them: see tests/sink/chaos.py. BEFORE is another checkout, whose sink is tried instead of this one's.
chaos-sink: setup
	@PYTHONPATH=$(CURDIR)/docker:$(or $(BEFORE),$(CURDIR))/spark-sink/src:$(CURDIR)/tests $(BIN)/python tests/sink/chaos.py --runs $(RUNS) \
		$(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(ARGS)

# A quarter of an hour; the tests run two days with a commit a minute: see tests/sink/long_run.py.
sink-month: setup
	@PYTHONPATH=$(CURDIR)/docker:$(CURDIR)/spark-sink/src:$(CURDIR)/tests $(BIN)/python tests/sink/long_run.py --days $(or $(DAYS),30) --every $(or $(EVERY),5)

# Minutes, not part of the tests, which run one short seed on each server: see tests/chaos/README.md.
SECONDS_OF_CHAOS := $(if $(filter-out environment default undefined,$(origin SECONDS)),$(SECONDS),30)
RUNS_OF_CHAOS := $(if $(filter-out file,$(origin RUNS)),$(RUNS),1)
chaos: setup
	@PYTHONPATH=$(CURDIR)/docker:$(CURDIR)/tests:$(CURDIR)/connect-worker/src $(BIN)/python -m chaos --source $(SOURCE) --seed $(or $(SEED),random) \
		--seconds $(SECONDS_OF_CHAOS) --runs $(RUNS_OF_CHAOS) $(if $(BEFORE),--before $(BEFORE)) $(ARGS)

bench: setup
	@$(BIN)/python tests/bench/worker.py $(ARGS)

# An hour on an idle machine; ARGS picks works and makes them smaller.
bench-peer: setup
	@$(BIN)/python tests/bench/peer.py $(ARGS)

# Minutes: BEFORE is another checkout in which `make setup` has run.
bench-before: setup
	@$(BIN)/python tests/bench/before.py --before $(BEFORE) $(ARGS)

# A minute; ARGS="--before FOLDER" measures another checkout beside it.
bench-tables: setup
	@$(BIN)/python tests/bench/manytables.py $(ARGS)

# A minute, without servers.
bench-transforms: setup
	@$(BIN)/python tests/bench/transforms.py $(ARGS)

# A few minutes; ARGS="--rows 10000000 --keys text" asks how soon a large table's first record comes.
bench-table: setup
	@$(BIN)/python tests/bench/onetable.py $(ARGS)

# An hour or two on an idle machine.
bench-sink: setup
	@$(BIN)/python tests/bench/sinks.py $(ARGS)

# Seven minutes of CPU, shared by all cores; the tests play some thousand of the same seeds: see tests/sim/play.py.
SIMULATE := PYTHONHASHSEED=0 PYTHONPATH=$(CURDIR)/tests:$(CURDIR)/connect-worker/src $(BIN)/python -m sim
sim: setup
	@$(SIMULATE) $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS)))

# Minutes: see tests/sim/mutations.py.
sim-mutations: setup
	@$(SIMULATE) --mutations '$(MUTATION)'

# Not part of the tests, which run some thousand of the same cases: see tests/fuzz/sanitized.py.
fuzz: setup
	@$(BIN)/python tests/fuzz/sanitized.py $(ARGS)

# Minutes the first time; later only what has changed. Needs no `make setup`, for a builder has nothing else of the project.
images:
	@$(PYTHON) -m images build

images-save:
	@$(PYTHON) -m images save

images-lock: setup
	@$(PYTHON) -m images lock

page-assets: setup
	@$(BIN)/python -m stack page-assets

# Minutes: both images built, then run as in Kubernetes against a real broker and a real database. As root it installs Podman where no engine is.
images-test:
	$(ready)
	@CI=true $(BIN)/python -m pytest -rA -n 0 tests/images/containers.py tests/images/servers.py tests/images/demo_of_the_chart.py

# What others install: wheels, source archives, and the sink's code for spark-submit, in build/dist.
dist: setup
	@$(BIN)/python docker/dist.py

# See docs/releasing.md. A login comes from the environment or from docker's file, never from here.
release-key: setup
	@if [ -z '$(KEY)' ]; then echo 'which file? make release-key KEY=dblog.key' >&2; exit 2; fi
	@PYTHONPATH=$(CURDIR)/docker $(BIN)/python -m release key '$(KEY)'

release: setup
	@if [ -z '$(VERSION)' ]; then echo 'which version? make release VERSION=1.4.0 KEY=dblog.key' >&2; exit 2; fi
	@if [ -z '$(KEY)' ]; then echo 'a release is signed: by which key? make release VERSION=$(VERSION) KEY=dblog.key; make release-key KEY=dblog.key makes one' >&2; exit 2; fi
	@PYTHONPATH=$(CURDIR)/docker $(BIN)/python -m release make '$(VERSION)' --key '$(KEY)' --registry '$(REGISTRY)'

publish: setup
	@if [ -z '$(REGISTRY)' ]; then echo 'to which registry? make publish REGISTRY=ghcr.io/example/dblog' >&2; exit 2; fi
	@PYTHONPATH=$(CURDIR)/docker $(BIN)/python -m release publish '$(REGISTRY)' --version '$(VERSION)' $(if $(TRUST),--trust '$(TRUST)')

# Minutes, not part of the tests: three servers, six to eight sets of options each.
compare-peer: setup
	@PYTHONPATH=$(CURDIR)/docker:$(CURDIR)/tests $(BIN)/python tests/compat/compare.py $(ARGS)

# Some ten minutes for each server, not part of the tests.
compare-way-back: setup
	@PYTHONPATH=$(CURDIR)/docker:$(CURDIR)/tests $(BIN)/python tests/compat/way_back.py $(ARGS)

# A minute, not part of the tests: it needs the jars of Kafka Connect and Debezium.
compare-transforms: setup
	@PYTHONPATH=$(CURDIR)/docker $(BIN)/python tests/compat/compare_transforms.py $(ARGS)

# A minute, not part of the tests: it needs the jars of Kafka Connect, Debezium and Confluent's converters.
compare-converters: setup
	@PYTHONPATH=$(CURDIR)/docker $(BIN)/python tests/compat/compare_converters.py $(ARGS)

# Some ten minutes for each server, not part of the tests.
compare-signals: setup
	@$(BIN)/python tests/compat/compare_signals.py $(ARGS)

# Minutes to an hour, most of it downloads: see tests/fresh. As another user than root it is this machine with a PATH that lacks Java and Maven.
fresh-machine-test:
	@$(HAS_PYTHON)
	@PYTHONPATH=$(CURDIR)/docker:$(CURDIR)/tests $(PYTHON) -m fresh $(TARGETS) $(ARGS)

# Half an hour, not part of the tests; the first run compiles Kubernetes and builds the images: see tests/kubernetes/README.md.
kubernetes-test:
	$(ready)
	@CI=true $(BIN)/python -m pytest --exitfirst $(or $(ONLY),$(addprefix tests/kubernetes/,node_for_real.py chart_for_real.py first_look_for_real.py))

# A minute or more, and some 10 GB of disk meanwhile, of PostgreSQL three times the size.
bench-transaction: setup
	@$(BIN)/python tests/bench/transaction.py $(ARGS)

# The reference and the schema follow the comments of values.yaml; tests/chart compares them.
chart: setup
	@$(BIN)/python helm/reference.py
	@for folder in $$($(BIN)/python -c 'from stack.helm import kubernetes_clients as clients; print(clients(3), clients(4))'); do \
		for values in helm/ci/*-values.yaml; do $$folder/helm lint --quiet --strict --values $$values helm; done; done; \
	mkdir -p build/dist; $$folder/helm package helm --destination build/dist; (cd build/dist && sha256sum dblog-*.tgz > dblog-chart.sha256)

# checkov brings along a hundred packages, some of other versions than the project's.
chart-lint: setup
	@$(BIN)/python tests/chart/policies.py

# Seconds; docs/mkdocs.yml is the map.
docs: setup
	@$(BIN)/python -m handbook build

docs-serve: setup
	@$(BIN)/python -m handbook serve $(if $(ADDRESS),--address $(ADDRESS))

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache connect-worker/build spark-sink/build
	find . -path ./.git -prune -o \( -name '__pycache__' -o -name '*.egg-info' \) -print0 | xargs -0 rm -rf
	find connect-worker/src \( -name '_*.so' -o -name '_*.c' \) -delete
