"""The project's images as archives, which a node loads: no registry of images is needed."""

import os
from pathlib import Path

from images.build import IMAGES
from images.engine import engine


def image_archives(folder: Path) -> dict[str, Path]:
    """Archives of both images, by the name that the node's runtime has for them.

    They are in the folder that `IMAGES` names in the environment, or are saved into `folder` from what `make images` has built here.
    """
    if given := os.environ.get("IMAGES"):
        return {_name(image.tag): Path(given) / f"{image.name}.tar" for image in IMAGES}
    building = engine(os.environ.get("ENGINE"))
    archives = {}
    for image in IMAGES:
        archives[_name(image.tag)] = folder / f"{image.name}.tar"
        building.save(image.tag, folder / f"{image.name}.tar")
    return archives


def _name(tag: str) -> str:
    """A name without a registry means this one, to every runtime."""
    return f"docker.io/library/{tag}"
