#!/bin/sh
# Installs Debian packages in a stage of an image, and leaves neither package lists nor logs behind: the stage's layer has the packages and no
# trace of when they were installed. Before the names, --python-build adds what this stage's Python compiles extensions and makes virtual
# environments with: two packages where it is Debian's own Python, none in the official image, which has both.
#
# Two secrets of the build, if they are there: `apt`, a file of package sources used instead of the base's own, and `ca`, certificates of
# authorities for an archive behind https.
set -eu

if [ "$1" = --python-build ]; then
    shift
    if dpkg-query --search "$(readlink -f "$(command -v python3)")" >/dev/null 2>&1; then
        version=$(python3 -c 'import sys; print("{}.{}".format(*sys.version_info))')
        set -- "$@" "python$version-venv" "libpython$version-dev"
    fi
fi

export DEBIAN_FRONTEND=noninteractive
# dpkg syncs each file to the disk, for machines that may lose power in between; a stage that is not finished is thrown away.
options="-oAcquire::Retries=3 -oDpkg::Use-Pty=0 -oDpkg::Options::=--force-unsafe-io"
[ ! -f /run/secrets/ca ] || options="$options -oAcquire::https::CaInfo=/run/secrets/ca"
[ ! -f /run/secrets/apt ] || options="$options -oDir::Etc::SourceList=/run/secrets/apt -oDir::Etc::SourceParts=/nonexistent"

# Slim images have no folder for manual pages, and packages that register one of several programs (Java's) fail without.
mkdir -p /usr/share/man/man1
# shellcheck disable=SC2086  # options are words
apt-get $options --quiet --error-on=any update
# shellcheck disable=SC2086
apt-get $options --quiet install --yes --no-install-recommends "$@"

rm -rf /usr/share/man/man1 /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/cache/ldconfig/aux-cache /var/log/apt /var/log/dpkg.log \
    /var/log/alternatives.log
