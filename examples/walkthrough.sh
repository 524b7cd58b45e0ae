#!/bin/sh
# The walk through Skuld's README in Norn's words: create a cluster, add nodes,
# enqueue, count, list, claim, let the claim lapse, claim again, complete with
# the second token, look at both claims. It makes three nodes in a temporary
# directory, prints each command with its output, and takes them away again.
#
#   make build && PATH=$PWD/bin:$PATH examples/walkthrough.sh
#
# NORN    the program                              (norn)
# PORT    first of the ports, ten to a node        (17711)
# LEASE   how long a claim lasts                   (10s)
# ETA     by how much clocks may differ: a claim lapses so much after its end (5s)
set -eu

norn=${NORN:-norn} port=${PORT:-17711} lease=${LEASE:-10s} eta=${ETA:-5s}
dir=$(mktemp -d)
pids=

finish() {
	status=$?
	trap - EXIT INT TERM
	for pid in $pids; do kill "$pid" 2>/dev/null || :; done
	for pid in $pids; do wait "$pid" 2>/dev/null || :; done
	[ "$status" = 0 ] || tail -n 5 "$dir"/*.log >&2
	rm -rf "$dir"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start NUMBER FLAGS…: a node in the background.
start() {
	number=$1 first=$((port + 10 * ($1 - 1)))
	shift
	set -- server --name "n$number" --data "$dir/n$number" --eta "$eta" --partitions 8 --listen "127.0.0.1:$first" \
		--peer-listen "127.0.0.1:$((first + 1))" --http-listen "127.0.0.1:$((first + 2))" "$@"
	echo "\$ norn $*"
	"$norn" "$@" >"$dir/n$number.log" 2>&1 &
	pids="$pids $!"
}

# run COMMAND…: says what it runs, also where its output goes elsewhere.
exec 3>&1
run() {
	echo "\$ norn $*" >&3
	"$norn" "$@"
}

# What a grant says in JSON: the task's ID, and the claim's token.
task_of() { sed -n 's/^      "id": "\(.*\)",$/\1/p'; }
token_of() { sed -n 's/^    "token": "\(.*\)",$/\1/p'; }

# fail WORDS…: something is not as it should be.
fail() {
	echo "walkthrough: $*" >&2
	exit 1
}

echo "# A first node on an empty directory makes the cluster; two more join it."
start 1
start 2 --join "127.0.0.1:$((port + 1))"
start 3 --join "127.0.0.1:$((port + 1))"

echo "# Any of them takes any request."
export NORN_ADDR="127.0.0.1:$port,127.0.0.1:$((port + 10)),127.0.0.1:$((port + 20))"
tries=0
until [ "$("$norn" cluster members -o jsonl 2>/dev/null | grep -c '"state":"up"')" = 3 ]; do
	tries=$((tries + 1))
	[ "$tries" -lt 300 ] || fail "the nodes do not come together"
	for pid in $pids; do kill -0 "$pid" 2>/dev/null || fail "a node has ended"; done
	sleep 0.2
done
run cluster rebalance --wait 2m
run cluster members

echo "# There are no tasks in the system now:"
run task count

echo "# We can enqueue a task with some payload. All three nodes are to have it on disk before we hear of it:"
id=$(run task enqueue -q general 'sup?' -w all)
echo "$id"

echo "# Now there is 1 task,"
run task count
echo "# which we can show like so:"
run task list -q general

echo "# And now we can claim it for $lease:"
run task claim -q general --lease "$lease" -o json >"$dir/first"
cat "$dir/first"
first=$(token_of <"$dir/first")
[ "$(task_of <"$dir/first")" = "$id" ] || fail "another task was claimed"

echo "# We cannot claim any other tasks during this time:"
run task claim -q general

echo "# But if we wait long enough, the claim lapses: once a majority of the nodes agrees, we can claim the same task again."
run task claim -q general --lease "$lease" --wait 2m -o json >"$dir/second"
second=$(token_of <"$dir/second")
[ "$(task_of <"$dir/second")" = "$id" ] || fail "the task did not come back"
[ "$second" -gt "$first" ] || fail "token $second is not over $first"
echo "the first claim had token $first, this one has $second"

echo "# Now let us mark that task as complete, in the second claim:"
run task complete "$id" "$second"

echo "# If we ask what happened to the task, it shows both claims, one completed:"
run task get "$id" | tee "$dir/task"
[ "$(grep -c -e "^$first .* expired" -e "^$second .* completed" "$dir/task")" = 2 ] || fail "the claims are not expired and completed"
