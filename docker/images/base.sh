#!/bin/sh
# Makes the root file system of a base image where no registry of images can be reached: Debian 12 with Python 3.11 and the certificates of
# public authorities, by debootstrap. The images then build on it as on the official Python image: BASE_IMAGE names it.
#
#   base.sh OUT.tar    writes the archive; as root
#
# From the environment: DBLOG_DEBIAN_MIRROR (an archive, default: the machine's own), DBLOG_DEBIAN_SECURITY (the archive of security updates; none: the
# release as it is), SOURCE_DATE_EPOCH (the time that all files get).
set -eu

out=$1
suite=bookworm
mirror=${DBLOG_DEBIAN_MIRROR:-http://deb.debian.org/debian}
epoch=${SOURCE_DATE_EPOCH:-0}
work=$(mktemp -d "${TMPDIR:-/tmp}/dblog-base-XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root

debootstrap --variant=minbase --include=python3,ca-certificates "$suite" "$root" "$mirror" > "$work/log" 2>&1 || {
    tail -n 25 "$work/log" >&2
    echo "debootstrap could not make a Debian $suite from $mirror; name another archive in DBLOG_DEBIAN_MIRROR" >&2
    exit 1
}

{
    echo "deb $mirror $suite main"
    [ -z "${DBLOG_DEBIAN_SECURITY:-}" ] || echo "deb $DBLOG_DEBIAN_SECURITY $suite-security main"
} > "$root/etc/apt/sources.list"
if [ -n "${DBLOG_DEBIAN_SECURITY:-}" ]; then
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # No service is started by an upgrade in a folder.
    printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d" && chmod 755 "$root/usr/sbin/policy-rc.d"
    DEBIAN_FRONTEND=noninteractive chroot "$root" sh -c 'apt-get -q update && apt-get -q -y upgrade' > "$work/log" 2>&1 || {
        tail -n 25 "$work/log" >&2
        echo "the security updates of $DBLOG_DEBIAN_SECURITY could not be installed" >&2
        exit 1
    }
    rm -f "$root/usr/sbin/policy-rc.d"
fi

# Pages, translations and lists that no program of an image reads; and what says when, where or as which machine this was made.
rm -rf "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/locale/* "$root"/var/lib/apt/lists/* \
    "$root"/var/cache/apt/* "$root"/var/cache/debconf/* "$root"/var/cache/ldconfig/aux-cache "$root"/var/log/* "$root"/tmp/* "$root"/dev/* "$root"/etc/*- \
    "$root/debootstrap" "$root/etc/machine-id" "$root/etc/hostname" "$root/etc/resolv.conf"
find "$root" -name __pycache__ -prune -exec rm -rf {} +
PYTHONHASHSEED=0 chroot "$root" python3 -m compileall -q -j 1 --invalidation-mode unchecked-hash /usr/lib/python3.11 /usr/lib/python3 || :

tar --create --file "$out.new" --directory "$root" --sort=name --mtime="@$epoch" --numeric-owner --format=gnu .
mv "$out.new" "$out"
