"""Verifies what a registry has by cosign's published rules, with openssl and without any of the project's code.

cosign's SIGNATURE_SPEC: the signature of a manifest is at the tag `sha256-<digest>.sig`; each layer is a payload, its annotation the signature in base64,
ECDSA over the payload's SHA-256; the payload names the digest of what is signed. Attestations are DSSE envelopes at `.att`.
"""

import base64
import hashlib
import json
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCEPTED = ", ".join(f"application/vnd.oci.image.{kind}.v1+json" for kind in ("manifest", "index"))


class Viewer:
    """What any client sees of a repository."""

    def __init__(self, host: str, login: tuple[str, str] | None = None) -> None:
        self.host, self.login = host, login

    def get(self, path: str) -> bytes:
        request = urllib.request.Request(f"http://{self.host}/v2/{path}", headers={"Accept": ACCEPTED})
        if self.login:
            request.add_header("Authorization", "Basic " + base64.b64encode(":".join(self.login).encode()).decode())
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  on the loopback interface
            return answer.read()

    def manifest(self, repository: str, reference: str) -> bytes:
        return self.get(f"{repository}/manifests/{reference}")

    def blob(self, repository: str, digest: str) -> bytes:
        content = self.get(f"{repository}/blobs/{digest}")
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
        return content

    def tags(self, repository: str) -> list[str]:
        return json.loads(self.get(f"{repository}/tags/list"))["tags"]


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def openssl_accepts(public_key: Path, content: bytes, signature: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "content").write_bytes(content)
        Path(folder, "signature").write_bytes(signature)
        line = ["openssl", "dgst", "-sha256", "-verify", str(public_key), "-signature", f"{folder}/signature", f"{folder}/content"]
        return subprocess.run(line, capture_output=True, check=False).returncode == 0


def signed_payloads(viewer: Viewer, repository: str, digest: str, public_key: Path) -> list[dict[str, Any]]:
    """The payloads about this manifest with a valid signature by the key."""
    manifest = json.loads(viewer.manifest(repository, digest.replace(":", "-") + ".sig"))
    found = []
    for layer in manifest["layers"]:
        assert layer["mediaType"] == "application/vnd.dev.cosign.simplesigning.v1+json"
        payload = viewer.blob(repository, layer["digest"])
        signature = base64.b64decode(layer["annotations"]["dev.cosignproject.cosign/signature"])
        document = json.loads(payload)
        right = document["critical"]["type"] == "cosign container image signature"
        right = right and document["critical"]["image"]["docker-manifest-digest"] == digest
        if right and openssl_accepts(public_key, payload, signature):
            found.append(document)
    return found


def attested(viewer: Viewer, repository: str, digest: str, public_key: Path) -> dict[str, dict[str, Any]]:
    """The validly signed statements about this manifest, by the type of their predicate."""
    manifest = json.loads(viewer.manifest(repository, digest.replace(":", "-") + ".att"))
    found = {}
    for layer in manifest["layers"]:
        assert layer["mediaType"] == "application/vnd.dsse.envelope.v1+json"
        statement = opened(viewer.blob(repository, layer["digest"]), public_key)
        assert {"sha256": digest.removeprefix("sha256:")} in [subject["digest"] for subject in statement["subject"]]
        assert layer["annotations"]["predicateType"] == statement["predicateType"]
        found[statement["predicateType"]] = statement
    return found


def opened(envelope: bytes, public_key: Path) -> dict[str, Any]:
    """The statement of a DSSE envelope, whose signature covers `DSSEv1 LENGTH TYPE LENGTH BODY`."""
    document = json.loads(envelope)
    kind, body = document["payloadType"], base64.b64decode(document["payload"])
    covered = f"DSSEv1 {len(kind)} {kind} {len(body)} ".encode() + body
    (signature,) = document["signatures"]
    assert kind == "application/vnd.in-toto+json"
    assert openssl_accepts(public_key, covered, base64.b64decode(signature["sig"]))
    return json.loads(body)


def has(viewer: Viewer, repository: str, reference: str) -> bool:
    try:
        viewer.manifest(repository, reference)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    return True
