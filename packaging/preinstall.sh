#!/bin/sh
# Makes the user of the service, before files are given to its group.
set -e
getent group norn >/dev/null || groupadd --system norn
getent passwd norn >/dev/null ||
  useradd --system --gid norn --home-dir /var/lib/norn --no-create-home --shell /usr/sbin/nologin --comment "Norn node" norn
