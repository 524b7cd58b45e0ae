#!/bin/sh
# Installs a package into a throw-away copy of this machine's root (an overlay in a mount
# namespace of its own), uses what is in it, upgrades and removes it. Root, Linux.
#   installed.sh PACKAGE deb|rpm WORKDIR
set -eu
package=$1 kind=$2 work=$3
say() { echo "ok: $*"; }
die() { echo "FAILED: $*"; exit 1; }

mount -t tmpfs tmpfs "$work"
mkdir -p "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root" || { echo "NOT RUN: no overlay can be mounted here"; exit 75; }
root=$work/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root/run/norn-test" "$root/tmp"
cp "$package" "$root/run/norn-test/package"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C.UTF-8 "$@"; }
[ -e "$root/usr/bin/norn" ] && die "norn is installed on this machine already"

case $kind in
deb)
  install() { inside dpkg -i /run/norn-test/package; }
  erase() { inside dpkg -r norn; }
  purge() { inside dpkg -P norn; }
  ;;
rpm)
  install() { inside rpm -U --replacepkgs --nodeps /run/norn-test/package; }
  erase() { inside rpm -e --nodeps norn; }
  purge() { :; }
  ;;
esac
said=$(install 2>&1) || die "install: $said"
echo "$said" | grep -q "set name, join and listen" || die "it does not say what to do next: $said"
say "installed"

[ "$(inside stat -c %U:%G:%a /etc/norn/norn.yaml)" = root:norn:640 ] || die "norn.yaml: $(inside stat -c %U:%G:%a /etc/norn/norn.yaml)"
inside getent passwd norn | grep -q ':/var/lib/norn:/usr/sbin/nologin$' || die "the user: $(inside getent passwd norn)"
inside norn version >/dev/null || die "norn does not start"
say "user, configuration, program"

if grep -q -s -r '^path-exclude.*/man/' "$root/etc/dpkg" && [ ! -e "$root/usr/share/man/man1/norn.1.gz" ]; then
  echo "NOT RUN: dpkg leaves man pages out on this machine"
elif inside sh -c 'command -v man' >/dev/null; then
  inside man -P cat norn-task-enqueue 2>/dev/null | grep -q -i 'synopsis' || die "no man page of norn task enqueue"
  say "man page"
else
  echo "NOT RUN: man is not installed"
fi
inside bash -c '. /usr/share/bash-completion/completions/norn && complete -p norn' | grep -q __start_norn || die "no completion"
say "completion"
if inside sh -c 'command -v systemd-analyze' >/dev/null; then
  why=$(inside systemd-analyze verify /usr/lib/systemd/system/norn.service 2>&1 | grep norn.service || true)
  [ -z "$why" ] || die "the unit: $why"
  say "unit"
else
  echo "NOT RUN: systemd-analyze is not installed"
fi

# The node as the unit starts it, on ports of its own; systemd itself does not run here.
unit=$root/usr/lib/systemd/system/norn.service
start=$(sed -n 's/^ExecStart=//p' "$unit")
user=$(sed -n 's/^User=//p' "$unit")
[ "$(sed -n 's/^StateDirectory=//p' "$unit")" = norn ] || die "no StateDirectory"
inside install -d -o "$user" -g norn -m 0700 /var/lib/norn
port=$((20000 + $$ % 20000))
chroot "$root" setpriv --reuid="$user" --regid=norn --init-groups --no-new-privs /usr/bin/env -i \
  $(sed -n 's/^Environment=//p' "$unit") NORN_SERVER_LISTEN=127.0.0.1:$port NORN_SERVER_PEER_LISTEN=127.0.0.1:$((port + 1)) \
  NORN_SERVER_HTTP_LISTEN=127.0.0.1:$((port + 2)) $start --listen=127.0.0.1:$port --peer-listen=127.0.0.1:$((port + 1)) \
  --http-listen=127.0.0.1:$((port + 2)) --data=/var/lib/norn >"$work/log" 2>&1 &
node=$!
trap 'kill $node 2>/dev/null || true' EXIT
n=0
until inside norn healthcheck --ready $((port + 2)) >/dev/null 2>&1; do
  n=$((n + 1))
  [ $n -lt 300 ] && kill -0 $node || { cat "$work/log"; die "the node is not ready"; }
  sleep 0.1
done
inside norn --addr $port task enqueue -q mail hello >/dev/null
inside norn --addr $port work -q mail --exit-when-empty -- sh -c 'cat >/run/norn-test/ran' 2>/dev/null
[ "$(inside cat /run/norn-test/ran)" = hello ] || die "the task did not run"
say "a node as the unit starts it, a task, a worker"

said=$(install 2>&1) || die "upgrade: $said"
echo "$said" | grep -q "set name, join" && die "an upgrade speaks of a first start: $said"
kill -0 $node || die "an upgrade ends a running node"
say "upgrade: the node goes on"
kill $node
wait $node || die "it ends with $?: $(tail -n 3 "$work/log")"

erase >/dev/null 2>&1 || die "removal"
[ ! -e "$root/usr/bin/norn" ] || die "the program is still there"
[ -s "$root/var/lib/norn/IDENTITY" ] || die "removal takes the data"
purge >/dev/null 2>&1 || die "purge"
[ -s "$root/var/lib/norn/IDENTITY" ] || die "a purge takes the data"
say "removed: the data stays"
