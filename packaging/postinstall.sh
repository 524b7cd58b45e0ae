#!/bin/sh
# Starts nothing: a node without `join` would make a cluster of its own. An upgrade does not
# start a running node again either: nodes go one after the other (norn cluster safe-to-stop).
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
case "$1" in
configure) [ -z "$2" ] || exit 0 ;; # deb: the version before, where there was one
2) exit 0 ;;                        # rpm: an upgrade
esac
echo "norn: set name, join and listen in /etc/norn/norn.yaml, then: systemctl enable --now norn"
