#!/bin/sh
# Installs the deb into a throw-away copy of this machine's root (installed.sh says how), and
# runs three nodes of it in a network of their own, each configured with the lines of
# docs/how-to/install.md and started as the unit says. Root, Linux.
#   three.sh PACKAGE WORKDIR LINES
set -eu
package=$1 work=$2 lines=$3
say() { echo "ok: $*"; }
die() { echo "FAILED: $*"; tail -n 5 "$work"/log.* 2>/dev/null; exit 1; }

mount -t tmpfs tmpfs "$work"
mkdir -p "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root" || { echo "NOT RUN: no overlay can be mounted here"; exit 75; }
root=$work/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
ip link set lo up && ip addr add 10.0.0.1/24 dev lo && ip addr add 10.0.0.2/24 dev lo && ip addr add 10.0.0.3/24 dev lo
mkdir -p "$root/run/norn-test"
cp "$package" "$root/run/norn-test/package"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C.UTF-8 "$@"; }
norn() { inside NORN_ADDR="$at" norn "$@"; }
said=$(inside dpkg -i /run/norn-test/package 2>&1) || die "install: $said"
head -c 32 /dev/urandom | base64 >"$root/etc/norn/peer-secret"
inside sh -c 'chgrp norn /etc/norn/peer-secret && chmod 640 /etc/norn/peer-secret'

unit=$root/usr/lib/systemd/system/norn.service
pids=
trap 'kill $pids 2>/dev/null || true' EXIT
for i in 1 2 3; do
  name=$(echo abc | cut -c $i)
  config=$root/etc/norn/norn.yaml.$name
  cp -p "$root/etc/norn/norn.yaml" "$config"
  while read -r key value; do
    case $key in name:) value=$name ;; listen: | peer-listen:) value=$(echo "$value" | sed "s/10.0.0.1/10.0.0.$i/") ;; esac
    grep -q "^$key" "$config" || die "norn.yaml has no line $key"
    sed -i "s|^$key.*|$key $value|" "$config"
  done <"$lines"
  inside install -d -o norn -g norn -m 0700 "/var/lib/norn-$name"
  start=$(sed -n 's/^ExecStart=//p' "$unit" | sed "s|/etc/norn/norn.yaml|&.$name|")
  chroot "$root" setpriv --reuid=norn --regid=norn --init-groups --no-new-privs /usr/bin/env -i \
    $(sed -n 's/^Environment=//p' "$unit" | sed "s|/var/lib/norn|&-$name|") NORN_SERVER_HTTP_LISTEN=10.0.0.$i:7713 $start >"$work/log.$name" 2>&1 &
  pids="$pids $!"
done
at=10.0.0.1:7711,10.0.0.2:7711,10.0.0.3:7711
id=$(norn --timeout 60s task enqueue -q mail hello) || die "no task is taken"
norn --addr 10.0.0.1 cluster status | grep -q '^voters  *a, b, c$' || die "$(norn cluster status)"
say "three nodes, one cluster, a task"
kill -9 ${pids##* }
norn task enqueue -q mail "one is dead" >/dev/null || die "no task is taken after a node was killed"
norn work -q mail --exit-when-empty -- sh -c 'cat >>/run/norn-test/ran; echo >>/run/norn-test/ran' 2>/dev/null || die "no work after a node was killed"
[ "$(inside sort /run/norn-test/ran | tr '\n' ' ')" = "hello one is dead " ] || die "what ran: $(inside cat /run/norn-test/ran)"
norn task get "$id" | grep -q completed || die "$(norn task get "$id")"
norn cluster status | grep -q '^c  *down' || die "$(norn cluster status)"
say "one is killed, and work goes on"
for p in ${pids% *}; do kill "$p" && wait "$p" || die "it ends with $?"; done
