#!/bin/sh
# Names the account that the image runs as, for programs that ask who they are. Its group is 0, as for any other number that a platform may choose.
set -eu

echo 'dblog:x:10001:0:dblog:/tmp:/usr/sbin/nologin' >> /etc/passwd
