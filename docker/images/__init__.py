"""The container images of the worker and the sink: built by whichever engine is there, measured, described and kept as files.

    python -m images build    both images, their sizes over the base, their bills of materials in build/images
    python -m images lock     the lists of hash-locked packages and jars again, after a version has changed
    python -m images save     the images as archives for `docker load`, `podman load` and `ctr images import`
    python -m images install  an engine that needs no daemon, where none works: Podman, by apt, as root; `--to-run`: where none works that runs containers

Only the standard library is imported, for images are built on machines that run nothing else of the project.
"""
