"""Signs with a key from a file and verifies with its public half, in cosign's formats.

The rules are cosign's published ones: a signature is ECDSA over P-256 and SHA-256, in ASN.1 and
base64. An image's signature covers a payload in the simple-signing format, and payload and
signature are a manifest of their own beside the image, with the tag `sha256-<digest>.sig` (cosign's
SIGNATURE_SPEC). A statement about an image is signed as a DSSE envelope, under `.att`. `cosign verify
--key` and the signature policies of Podman, Skopeo and CRI-O read them.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from stack.errors import StackError

from release.layout import MANIFEST, Descriptor, Layout

SIGNATURE_OF_LAYER = "dev.cosignproject.cosign/signature"
SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
DSSE = "application/vnd.dsse.envelope.v1+json"
IN_TOTO = "application/vnd.in-toto+json"
PASSWORD = "DBLOG_SIGNING_PASSWORD"  # noqa: S105  a variable's name
"""Variable with the password of an encrypted key."""
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MAKE_ONE = "Make one: python -m release key NAME.key"


class Key:
    """A private key, ECDSA over P-256."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private = private

    @property
    def public_pem(self) -> bytes:
        """The public half, as cosign.pub has it."""
        return self._private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def sign(self, content: bytes) -> str:
        """Return the signature of `content`, in ASN.1 and base64.

        It is deterministic (RFC 6979): the same release signed again has the same digests.
        """
        made = self._private.sign(content, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
        return base64.b64encode(made).decode()


def read_key(file: Path) -> Key:
    """Read a private key in PEM (PKCS#8 or SEC 1), encrypted or not.

    Raise StackError if it cannot be read or is of another kind.
    """
    try:
        pem = file.read_bytes()
    except OSError as error:
        raise StackError(f"the signing key {file} cannot be read: {error.strerror}. {_MAKE_ONE}") from error
    if b"ENCRYPTED SIGSTORE PRIVATE KEY" in pem or b"ENCRYPTED COSIGN PRIVATE KEY" in pem:
        raise StackError(
            f"the signing key {file} is encrypted in cosign's own way, which is not read here. {_MAKE_ONE}"
            " (cosign import-key-pair takes it too), or name the PEM file that cosign's key was imported from"
        )
    password = os.environ.get(PASSWORD)
    try:
        private = serialization.load_pem_private_key(pem, password.encode() if password and b"ENCRYPTED" in pem else None)
    except TypeError as error:
        raise StackError(f"the signing key {file} is encrypted. Give its password in the variable {PASSWORD}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        reason = f"or the password in {PASSWORD} is wrong" if password else "in PEM"
        raise StackError(f"the signing key {file} is no private key {reason}. {_MAKE_ONE}") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey) or not isinstance(private.curve, ec.SECP256R1):
        raise StackError(f"the signing key {file} is no key of ECDSA over P-256, which cosign's signatures need. {_MAKE_ONE}")
    return Key(private)


def make_key(file: Path) -> Path:
    """Write a new key pair: the private key to `file`, the public one beside it as .pub.

    The private key is encrypted if there is a password in the environment. Return the public key's
    file. Raise StackError if either file exists.
    """
    public = file.with_suffix(".pub")
    private = ec.generate_private_key(ec.SECP256R1())
    password = os.environ.get(PASSWORD)
    encryption: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    )
    pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    try:
        # Its owner alone reads it, from the first byte on.
        file.touch(mode=0o600, exist_ok=False)
        file.write_bytes(pem)
        with public.open("xb") as opened:
            opened.write(Key(private).public_pem)
    except OSError as error:
        raise StackError(f"{error.filename} cannot be written: {error.strerror}. Name another file; no key is replaced") from error
    return public


def verify(public_pem: bytes, content: bytes, signature: str) -> bool:
    """Return True if the signature of `content` is by the private half of this key."""
    try:
        public = serialization.load_pem_public_key(public_pem)
        if not isinstance(public, ec.EllipticCurvePublicKey):
            return False
        public.verify(base64.b64decode(signature.strip(), validate=True), content, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError, UnsupportedAlgorithm, binascii.Error):
        return False
    return True


def tag_of(digest: str, kind: str) -> str:
    """Return the tag at which cosign looks for what is about `digest`; `kind` is `sig` or `att`."""
    return f"{digest.replace(':', '-')}.{kind}"


def payload(reference: str, digest: str, *, creator: str, epoch: int) -> bytes:
    """Return the simple-signing payload that says: `reference` has the manifest `digest`.

    `epoch` is the release's time in seconds since 1970.
    """
    document = {
        "critical": {
            "identity": {"docker-reference": reference},
            "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        },
        "optional": {"creator": creator, "timestamp": epoch},
    }
    return json.dumps(document, separators=(",", ":")).encode()


def envelope(key: Key, statement: Mapping[str, Any]) -> bytes:
    """Return an in-toto statement, signed, as a DSSE 1.0 envelope."""
    body = json.dumps(statement, separators=(",", ":")).encode()
    signed = {
        "payloadType": IN_TOTO,
        "payload": base64.b64encode(body).decode(),
        "signatures": [{"keyid": "", "sig": key.sign(pre_authentication(IN_TOTO, body))}],
    }
    return json.dumps(signed, separators=(",", ":")).encode()


def pre_authentication(kind: str, body: bytes) -> bytes:
    """Return the bytes that a DSSE signature covers (DSSE protocol, section "Signature Definition")."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(body), body)


def store_signature(layout: Layout, repository: str, digest: str, key: Key, signed: bytes) -> None:
    """Enter the signature of a manifest into the layout, at the tag where cosign looks for it."""
    layer = layout.put(signed, SIMPLE_SIGNING, annotations={SIGNATURE_OF_LAYER: key.sign(signed)})
    layout.tag(repository, tag_of(digest, "sig"), layout.put_json(attachment(layout, [layer]), MANIFEST))


def store_attestations(layout: Layout, repository: str, digest: str, signed: Mapping[str, bytes]) -> None:
    """Enter signed statements about a manifest into the layout, by the type of their predicate."""
    layers = [
        layout.put(content, DSSE, annotations={SIGNATURE_OF_LAYER: "", "predicateType": predicate_type})
        for predicate_type, content in signed.items()
    ]
    layout.tag(repository, tag_of(digest, "att"), layout.put_json(attachment(layout, layers), MANIFEST))


def attachment(layout: Layout, layers: Sequence[Descriptor]) -> dict[str, Any]:
    """Return the manifest of cosign's attachment; its configuration lists the layers like an image's."""
    config = {"architecture": "", "os": "", "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]}}
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.put_json(config, _CONFIG).json,
        "layers": [layer.json for layer in layers],
    }
