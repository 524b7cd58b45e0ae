package web

import (
	"io/fs"
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// What a line of a .proto file declares: a message or an enum, or a field.
var (
	messageLine = regexp.MustCompile(`^(?:message|enum) (\w+) \{`)
	fieldLine   = regexp.MustCompile(`^\s+(?:repeated |optional )?(?:map<[^>]*>|[\w.]+) (\w+) = \d+`)
)

// readComments gives what the .proto files say of each message and enum and, as
// MESSAGE.FIELD, of each field, on one line.
func readComments() map[string]string {
	all := make(map[string]string)
	files, err := fs.Glob(nornv1.Sources, "*.proto")
	if err != nil {
		panic(err) // the pattern is good
	}
	for _, name := range files {
		text, err := fs.ReadFile(nornv1.Sources, name)
		if err != nil {
			panic(err) // the files are part of the program
		}
		message, said := "", []string(nil)
		for line := range strings.Lines(string(text)) {
			if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
				said = append(said, strings.TrimSpace(comment))
				continue
			}
			if m := messageLine.FindStringSubmatch(line); m != nil {
				message = m[1]
				all[message] = strings.Join(said, " ")
			} else if m := fieldLine.FindStringSubmatch(line); m != nil {
				all[message+"."+m[1]] = strings.Join(said, " ")
			}
			said = nil
		}
	}
	return all
}

// comments describe messages and fields.
type comments map[string]string

// of describes a field: by what the .proto file says of it, by what its name says
// everywhere, or by what it says of its type. It is empty for one that nobody has described.
func (c comments) of(f protoreflect.FieldDescriptor) string {
	if said := c[string(f.Parent().Name())+"."+string(f.Name())]; said != "" {
		return said
	}
	words := plainWords()
	for _, name := range []string{string(f.Parent().Name()) + "." + string(f.Name()), string(f.Name())} {
		if said := words[name]; said != "" {
			return said
		}
	}
	switch {
	case f.Message() != nil:
		return c[string(f.Message().Name())]
	case f.Enum() != nil:
		return c[string(f.Enum().Name())]
	}
	return ""
}

// plainWords say what a name means in every message that has no words of its own for it,
// or in one.
//
// Long because: it is a table.
func plainWords() map[string]string {
	return map[string]string{
		"id": "ID of the task.", "token": "Token of the claim.", "seq": "Number of the update within its claim, from 0.",
		"queue": "Name of the queue.", "name": "Its name.", "worker": "Name of the worker.", "node": "Name of the node.", "data": "Any bytes.",
		"result": "Any bytes, shown with the task.", "payload": "The bytes that the task was enqueued with.", "priority": "Higher is claimed first.",
		"cluster_id": "UUID of the cluster.", "now": "The time of the cluster, as this node knows it.", "eta_seconds": "Bound on clock difference plus delay between nodes.",
		"lease_seconds": "How long the claim lasts.", "note": "A few words for people.", "reason": "Why.", "headers": "Small strings that travel with the task.",
		"tags":         "Words to find the task by.",
		"max_attempts": "Attempts before the task is dead.", "created_at": "When it was enqueued.", "completed_at": "When it was completed.",
		"key": "Unique key within the queue.", "key_window_seconds": "Window of the unique key; 0: until the task is finished.",
		"version": "Goes up with each change.", "created": "When it was made.", "changed": "When it was changed last.",
		"waiting": "Tasks that wait for a dependency.", "scheduled": "Tasks whose time lies ahead.", "ready": "Tasks that may be claimed.",
		"claimed": "Tasks under a claim.", "completed": "Tasks that are completed.", "dead": "Tasks that are out of attempts.",
		"cancelled": "Tasks that were cancelled.", "unfinished": "Tasks that are not finished.", "total": "All tasks.",
		"max_frame_bytes": "Largest frame of the wire.", "max_payload_bytes": "Largest payload.", "max_batch_tasks": "Most items of a batch.",
		"max_batch_bytes": "Largest batch.", "max_dependencies": "Most dependencies of a task.", "min_lease_seconds": "Shortest lease.",
		"max_lease_seconds": "Longest lease.", "max_wait_seconds": "Longest wait.", "HelloReply.version": "Version of the protocol that both speak.",
		"partition": "Number of the partition.", "at_least_seq": "See at_least_token.", "at_least": "at_least_token and at_least_seq are set.",
		"created_before": "Enqueued before.", "created_after": "Enqueued at or after.", "finished_after": "Finished at or after.", "min_attempts": "At least so many attempts.",
		"after": "Go on behind after_token and after_seq.", "after_seq": "See after_token.", "until": "When it will be over, where that is known.",
		"request_no": "Number of the request within its session.", "start": "When the lease began.", "end": "When the lease ends.",
		"retention_seconds": "How long completed and cancelled tasks are kept.", "at": "The instant.", "paused": "It is paused.",
		"from": "The first instant.", "to": "The last instant.", "machine": "Name of the machine.", "lock": "Directory of the lock file on its machine.",
		"started_at": "When it began.", "draining": "It takes nothing new.", "slots": "Tasks that it runs at once.", "prefetch": "Tasks that it holds beyond its slots.",
		"hash": "Over all of the set.", "quarantined_bytes": "Bytes of the facts that are kept aside.", "compared": "Comparisons that have ended well.",
		"failed": "Comparisons that have failed.", "PartitionStatus.id": "Number of the partition.", "VerifiedPartition.id": "Number of the partition.",
		"epoch": "Number of the leader's term.", "leader": "Name of the node that leads; empty: none does.", "cohort": "Names of the nodes that keep it.",
		"enqueue_available": "It takes enqueues.", "claim_available": "It hands out claims.", "handed_over": "Copies that were handed over and deleted.",
		"incarnation": "Which life of the node's directory, as a UUID.", "facts": "Facts that it keeps.",
	}
}
