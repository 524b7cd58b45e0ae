#!/bin/sh
# A worker in shell: one task, one picture. Start it with
#   norn work -q thumbnails --slots 4 -- ./thumbnails.sh
# The payload is the name of a picture. What it prints is the task's log.
set -eu

picture=$(cat)
[ -n "$picture" ] || { echo "the payload names no picture" >&2; exit 1; } # the task fails, and is tried again
[ -r "$picture" ] || exit 75                                              # not there yet: later, without using an attempt

to=${THUMBNAILS:-.}/$(basename "$picture").small
# Written beside it and renamed: a run that is ended in between leaves nothing half.
head -c 1024 "$picture" >"$to.$NORN_TASK_ID" # stands for: convert "$picture" -resize 200x200 …
mv "$to.$NORN_TASK_ID" "$to"
echo "made $to in attempt $NORN_ATTEMPT"
