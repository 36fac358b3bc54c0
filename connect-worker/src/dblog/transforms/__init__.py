"""Single message transforms and predicates: what a connector's ``transforms`` do to its records.

``configuration.py`` reads the keys, ``chain.py`` runs the steps in order, and ``stage.py`` applies
the chain to finished records on their way to the queue. Each transform has a file of its own;
``catalog.py`` lists them under their Java class names. The behaviour is that of Kafka Connect 4 and
Debezium 3.6 (docs/transforms.md lists the differences).
"""
