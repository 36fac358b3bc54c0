#!/bin/sh
# The last step of an environment that becomes part of an image. Byte code is compiled here, for the image's file system is read-only, and
# checked against nothing at run time: its files then do not depend on when the sources were written.
set -eu

environment=$1
# What names the builder stage: where a wheel lay when it was installed.
find "$environment" -name direct_url.json -delete
for record in "$environment"/lib/python3*/site-packages/*.dist-info/RECORD; do
    sed -i '/direct_url\.json/d' "$record"
done
"$environment/bin/python" -m compileall -q -j 1 --invalidation-mode unchecked-hash "$environment/lib"
