"""Releases: builds, signs and describes what users install, and pushes it to a registry.

    python -m release key dblog.key                      a new key pair, dblog.key and dblog.pub
    python -m release make 0.2.0 --key dblog.key         build/release/0.2.0: images, chart, wheels, signatures
    python -m release publish registry.example/dblog     the images and the chart to a registry

A release is signed once, when it is made; publishing only copies, so it needs no key.
"""
