package node

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// newerField is a field that no message of this build has.
func newerField() []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 15000, protowire.BytesType), "newer")
}

// TestFieldsOfANewerClient: a request with them is carried out as if they were not there, and
// those of a task are kept with it (docs/how-to/versions.md); what cannot be told apart from nothing is
// refused.
func TestFieldsOfANewerClient(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	p := connect(t, n)
	spec, req := &nornv1.TaskSpec{Queue: "q", Payload: []byte("x")}, &nornv1.EnqueueRequest{}
	spec.ProtoReflect().SetUnknown(newerField())
	req.Tasks = []*nornv1.TaskSpec{spec}
	req.ProtoReflect().SetUnknown(newerField())
	var done nornv1.EnqueueReply
	if err := p.call(nornv1.Method_METHOD_ENQUEUE, req, &done); err != nil || done.GetResults()[0].GetError() != nil {
		t.Fatalf("%v, %v", &done, err)
	}
	g := p.claim(&nornv1.ClaimRequest{Queues: []string{"q"}})
	if len(g) != 1 || string(g[0].GetTask().GetPayload()) != "x" || string(g[0].GetTask().GetFurtherSpec()) != string(newerField()) {
		t.Errorf("the task is %v", g)
	}
	change := &nornv1.ClusterRequest{}
	change.ProtoReflect().SetUnknown(newerField()) // an action that it does not know
	var e *proto.Error
	if err := p.call(nornv1.Method_METHOD_CLUSTER, change, &nornv1.ClusterReply{}); !errors.As(err, &e) || e.Kind != invalid {
		t.Errorf("a newer action: %v", err)
	}
	set := &nornv1.SetQueueRequest{Name: "q", Fields: []string{"newer"}, Settings: &nornv1.QueueSettings{}}
	set.Settings.ProtoReflect().SetUnknown(newerField())
	if err := p.call(nornv1.Method_METHOD_SET_QUEUE, set, &nornv1.QueuesReply{}); !errors.As(err, &e) || e.Kind != invalid {
		t.Errorf("a newer setting: %v", err)
	}
}

// TestSettingsOfANewerNodeAreKept: a node that does not know a setting does not delete it
// when another one is changed through it.
func TestSettingsOfANewerNodeAreKept(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	ready(t, n)
	done := make(chan register.Result, 1)
	n.members.group.Load().Do(register.Request{Queues: []register.QueueChange{{Name: "q", Settings: newerField()}}}, func(r register.Result) { done <- r })
	if r := <-done; r.Err != nil || !r.QueuesWon[0] {
		t.Fatalf("%+v", r)
	}
	setNote(t, n, "q", "changed")
	set := &nornv1.QueueSettings{}
	if err := gproto.Unmarshal(n.members.group.Load().State().Queues["q"].Settings, set); err != nil {
		t.Fatal(err)
	}
	if string(set.ProtoReflect().GetUnknown()) != string(newerField()) || set.GetNote() != "changed" {
		t.Errorf("the settings are %v, with %q beside them", set, set.ProtoReflect().GetUnknown())
	}
}
