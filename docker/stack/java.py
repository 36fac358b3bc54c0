"""Finds a JDK and Maven, and unpacks Debian's where the machine has none that will do.

Like the databases they come from the machine's Debian archive, without root (``debian.py``). They
run with the system's own C library and loader: Java starts programs of its own, and Spark's scripts
call ``$JAVA_HOME/bin/java``, so a loader in front of it would be lost. Two things that maintainer
scripts would do are done here: absolute links are made to stay inside the folder, and the authorities
that this Python trusts are written where Java looks for them.

``set_up`` links ``build/java`` to an unpacked JDK. The Makefile puts its programs in front on the PATH.
"""

import hashlib
import os
import re
import shutil
import ssl
import struct
import subprocess
from functools import cache
from pathlib import Path

from stack.debian import unpacked
from stack.errors import StackError, Unavailable

LEAST = 17
"""Least version of Java with which Spark 4 runs."""
LINK = Path(__file__).parents[2] / "build" / "java"
"""Link to the unpacked JDK, if this clone uses it."""
INSTALL_JAVA = "a JDK 17 or later (Debian: apt-get install openjdk-17-jdk-headless; macOS: brew install openjdk@17)"
INSTALL_MAVEN = "Maven 3.8 or later (Debian: apt-get install maven; macOS: brew install maven)"
SUITE = "bookworm"
JDK_ENTRY, MAVEN_ENTRY = f"openjdk-17-{SUITE}", f"maven-3.8-{SUITE}"
"""Names of the cache entries."""
_JKS_MAGIC, _JKS_VERSION, _JKS_TRUSTED = 0xFEEDFEED, 2, 2
_JKS_PASSWORD, _JKS_SALT = "changeit", b"Mighty Aphrodite"
_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")


def java() -> str:
    """Return the `java` to run servers with. Raise Unavailable if none can be had."""
    return installed("java") or str(jdk() / "bin" / "java")


def javac() -> str:
    """Return the `javac` of a JDK. Raise Unavailable if none can be had."""
    return installed("javac") or str(jdk() / "bin" / "javac")


def maven(goals: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command line that runs Maven with these arguments, and its environment."""
    if found := shutil.which("mvn"):
        home = {} if installed("java") else {"JAVA_HOME": str(jdk())}
        return [found, *goals], home
    try:
        root = unpacked(
            MAVEN_ENTRY.removesuffix(f"-{SUITE}"),
            package="maven",
            suite=SUITE,
            installed=("default-jre-headless",),
            settled=keep_links_inside,
        ).root
    except Unavailable as missing:
        raise Unavailable(f"Maven is not on this machine: {missing}. Install {INSTALL_MAVEN}") from missing
    home_folder = root / "usr" / "share" / "maven"
    launcher = next(home_folder.glob("boot/plexus-classworlds*.jar"))
    properties = {
        "classworlds.conf": home_folder / "bin" / "m2.conf",
        "maven.home": home_folder,
        "maven.multiModuleProjectDirectory": home_folder,
    }
    options = [f"-D{name}={value}" for name, value in properties.items()]
    return [java(), "-cp", str(launcher), *options, "org.codehaus.plexus.classworlds.launcher.Launcher", *goals], {}


def installed(program: str) -> str | None:
    """Return a program of the machine's own JDK: that of JAVA_HOME, else the one on the PATH.

    Return None if there is none, or one on the PATH is too old. Raise Unavailable if JAVA_HOME names
    one that is too old, because Spark would use it.
    """
    home = os.environ.get("JAVA_HOME")
    if home and Path(home).resolve() != LINK.resolve():
        found = Path(home) / "bin" / program
        version = version_of(str(Path(home) / "bin" / "java"))
        if version is None or version < LEAST:
            what = f"has Java {version}" if version is not None else "has no bin/java that runs"
            raise Unavailable(
                f"JAVA_HOME={home} {what}, and {LEAST} or later is needed: name another JDK, or unset JAVA_HOME, and one is unpacked"
            )
        return str(found) if found.exists() else None
    path = own_path()
    here, runs = shutil.which(program, path=path), shutil.which("java", path=path)
    if here is None or runs is None or (version_of(runs) or 0) < LEAST:
        return None
    return here


def own_path() -> str:
    """Return the PATH without what `build/java` has added."""
    return os.pathsep.join(folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != str(LINK / "bin"))


@cache
def version_of(program: str) -> int | None:
    """Return the feature version of a `java`, None if it does not run."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if done.returncode == 0 and found else None


def jdk() -> Path:
    """Return the folder of Debian's JDK, unpacked. Raise Unavailable if it cannot be had or run."""
    try:
        entry = unpacked(
            JDK_ENTRY.removesuffix(f"-{SUITE}"),
            package="openjdk-17-jdk-headless openjdk-17-jre-headless",
            suite=SUITE,
            alone=True,
            settled=_settle_jdk,
        )
    except Unavailable as missing:
        raise Unavailable(f"Java is not on this machine: {missing}. Install {INSTALL_JAVA}") from missing
    home = _home(entry.root)
    if version_of(str(home / "bin" / "java")) is None:
        raise Unavailable(f"Debian's Java in {home} does not run on this system. Install {INSTALL_JAVA}")
    return home


def link_jdk() -> None:
    """Link `build/java` to an unpacked JDK if the machine has none that will do, else remove it."""
    if installed("java"):
        LINK.unlink(missing_ok=True)
        return
    home = jdk()
    if not LINK.is_symlink() or LINK.readlink() != home:
        LINK.parent.mkdir(parents=True, exist_ok=True)
        LINK.unlink(missing_ok=True)
        LINK.symlink_to(home)


def keep_links_inside(root: Path) -> None:
    """Make absolute links of an unpacked system relative, so that they stay in its folder."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            if path.is_symlink() and (target := path.readlink()).is_absolute():
                inside = root / target.relative_to("/")
                path.unlink()
                path.symlink_to(os.path.relpath(inside, path.parent))


def trusted_authorities() -> list[bytes]:
    """Return the certificates of the authorities that this Python trusts, in DER.

    The bundle that a variable of the environment names counts too: a proxy may have an authority of
    its own.
    """
    context = ssl.create_default_context()
    for name in _CA_VARIABLES:
        if (bundle := os.environ.get(name)) and Path(bundle).is_file():
            context.load_verify_locations(bundle)
    found = context.get_ca_certs(binary_form=True)
    if not found:
        raise StackError(
            "this machine trusts no authority, so nothing can be downloaded by TLS: install ca-certificates, or name a bundle in SSL_CERT_FILE"
        )
    return sorted(set(found))


def key_store(certificates: list[bytes]) -> bytes:
    """Return a key store of Java (JKS) that trusts these certificates.

    The format is that of sun.security.provider.JavaKeyStore: entries, then a SHA-1 of password, salt
    and entries. Its password is Java's default.
    """
    parts = [struct.pack(">III", _JKS_MAGIC, _JKS_VERSION, len(certificates))]
    for at, certificate in enumerate(certificates):
        parts.append(struct.pack(">I", _JKS_TRUSTED) + _utf(f"authority-{at}") + struct.pack(">Q", 0) + _utf("X.509"))
        parts.append(struct.pack(">I", len(certificate)) + certificate)
    entries = b"".join(parts)
    # A checksum of the format, not a protection: the certificates are public.
    digest = hashlib.sha1(_JKS_PASSWORD.encode("utf-16-be") + _JKS_SALT + entries, usedforsecurity=False).digest()
    return entries + digest


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


def _settle_jdk(root: Path) -> None:
    keep_links_inside(root)
    store = _home(root) / "lib" / "security" / "cacerts"
    store.unlink(missing_ok=True)
    store.write_bytes(key_store(trusted_authorities()))


def _home(root: Path) -> Path:
    return next(path for path in root.glob("usr/lib/jvm/java-17-openjdk-*") if not path.is_symlink())
