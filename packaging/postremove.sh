#!/bin/sh
# The data directory and the user stay: whoever purges a package by mistake must not lose a
# copy of the tasks.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
case "$1" in
purge) if [ -d /var/lib/norn ]; then echo "norn: /var/lib/norn stays; remove it where the node is gone for good"; fi ;;
esac
