package core

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/norn-dev/norn/node/core/query"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestJunkCursorsAreRefused: in every list, also where they look like a name or an ID, are of
// another list, were cut or have grown. A page that no cursor of a node asks for began at the
// first item, or behind some.
func TestJunkCursorsAreRefused(t *testing.T) {
	r := newTrio(t)
	rig := newRig(t)
	for n := range 3 {
		rig.set(fmt.Sprintf("q%d", n), &nornv1.QueueSettings{Note: "x"}, "note")
	}
	good := must[*nornv1.QueuesReply](rig, &nornv1.QueuesRequest{Limit: 1}).GetNextCursor()
	if len(must[*nornv1.QueuesReply](rig, &nornv1.QueuesRequest{Cursor: good}).GetQueues()) != 2 {
		t.Fatal("the cursor of a page does not lead to the next")
	}
	junk := map[string][]byte{
		"a word": []byte("junk"), "a name": []byte("q1"), "zeros": make([]byte, 20), "ones": bytes.Repeat([]byte{255}, 20), "24 bytes": bytes.Repeat([]byte{7}, 24),
		"a byte": {1}, "long": bytes.Repeat([]byte("x"), 5000), "of queues, cut": good[:len(good)-1], "of queues, longer": append(bytes.Clone(good), 0),
		"of queues, changed": append([]byte("Q"), good[1:]...),
	}
	lists := map[string]func([]byte) gproto.Message{
		"tasks":           func(c []byte) gproto.Message { return &nornv1.ListRequest{Cursor: c} },
		"tasks of queue":  func(c []byte) gproto.Message { return &nornv1.ListRequest{Queue: "q", Cursor: c, IdsOnly: true} },
		"queues":          func(c []byte) gproto.Message { return &nornv1.QueuesRequest{Cursor: c} },
		"queues by name":  func(c []byte) gproto.Message { return &nornv1.QueuesRequest{Cursor: c, Names: []string{"q1"}} },
		"workers":         func(c []byte) gproto.Message { return &nornv1.WorkersRequest{Cursor: c} },
		"workers by name": func(c []byte) gproto.Message { return &nornv1.WorkersRequest{Cursor: c, Names: []string{"w"}} },
	}
	for list, ask := range lists {
		all := map[string][]byte{"of another list": good}
		if list == "queues" || list == "queues by name" {
			all["of another list"] = query.TaskCursor.Seal(make([]byte, 20))
		}
		for what, cursor := range junk {
			all[what] = cursor
		}
		for what, cursor := range all {
			for i := range 2 {
				from := r.send(i, ask(cursor))
				r.settle()
				if reply := r.peers[i].replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
					t.Errorf("%s, %s: %v", list, what, reply)
				}
			}
		}
	}
}
