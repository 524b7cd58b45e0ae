#!/bin/sh
# Stops the node when the package goes for good, not when a newer one comes.
set -e
case "$1" in
remove | 0) if [ -d /run/systemd/system ]; then systemctl disable --now norn.service || true; fi ;;
esac
