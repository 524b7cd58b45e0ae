#!/bin/sh
# Enqueues a task for each picture of a directory, once however often it is called: the name is
# the unique key. Then waits for all of them.
#   ./enqueue.sh DIRECTORY
set -eu

ids=$(for picture in "$1"/*; do
  norn task enqueue -q thumbnails --key "$picture" --quiet "$picture"
done)
for id in $ids; do
  norn task wait "$id"
done
