package node

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/norn-dev/norn/node/inbox"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// spread repeats a field of a body that is not length checked.
func spread(n int, field string) []byte { return bytes.Repeat([]byte(field), n) }

// headers makes a task with many headers that differ.
func headers(n int) []byte {
	var task []byte
	for i := range n {
		task = append(task, 0x4a, 6, 0x0a, 4)
		task = binary.BigEndian.AppendUint32(task, 0x61616161+uint32(i%26)+uint32(i/26%26)<<8+uint32(i/676%26)<<16+uint32(i/17576%26)<<24)
	}
	return append(binary.AppendUvarint([]byte{0x0a}, uint64(len(task))), task...)
}

// TestWeightCoversTheMemory compares the scale with what decoding really takes.
func TestWeightCoversTheMemory(t *testing.T) {
	s := inbox.NewScale(carried)
	const n = 50_000
	dependencies := append(binary.AppendUvarint([]byte{0x0a}, 2*n), spread(n, "\x32\x00")...)
	states := append(binary.AppendUvarint([]byte{0x12}, n), spread(n, "\x01")...)
	batch := &nornv1.EnqueueRequest{}
	for range proto.MaxBatchTasks {
		batch.Tasks = append(batch.Tasks, &nornv1.TaskSpec{
			Id: make([]byte, 20), Queue: "queue", Payload: make([]byte, 100), Headers: map[string]string{"a": "b"},
			Retry: &nornv1.RetryPolicy{MaxAttempts: 1}, Dependencies: [][]byte{make([]byte, 20)},
		})
	}
	ordinary, err := gproto.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		method nornv1.Method
		body   []byte
	}{
		"empty tasks":        {nornv1.Method_METHOD_ENQUEUE, spread(n, "\x0a\x00")},
		"empty dependencies": {nornv1.Method_METHOD_ENQUEUE, dependencies},
		"headers":            {nornv1.Method_METHOD_ENQUEUE, headers(n)},
		"times":              {nornv1.Method_METHOD_ENQUEUE, spread(n, "\x0a\x02\x2a\x00")},
		"queues":             {nornv1.Method_METHOD_CLAIM, spread(n, "\x0a\x00")},
		"claims":             {nornv1.Method_METHOD_RENEW, spread(n, "\x0a\x00")},
		"completions":        {nornv1.Method_METHOD_COMPLETE, spread(n, "\x0a\x00")},
		"failures":           {nornv1.Method_METHOD_FAIL, spread(n, "\x0a\x02\x22\x00")},
		"packed states":      {nornv1.Method_METHOD_LIST, states},
		"states":             {nornv1.Method_METHOD_LIST, spread(n, "\x10\x01")},
		"nothing":            {nornv1.Method_METHOD_STATUS, nil},
		"ordinary":           {nornv1.Method_METHOD_ENQUEUE, ordinary},
	} {
		weight, longest := s.Weigh(tc.method, tc.body)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := carried(tc.method).Request()
		if err := gproto.Unmarshal(tc.body, m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		took := int(after.HeapAlloc) - int(before.HeapAlloc)
		runtime.KeepAlive(m)
		t.Logf("%s: %d bytes weigh %d and take %d", name, len(tc.body), weight, took)
		if took > weight+64<<10 { // what else goes on in the process
			t.Errorf("%s: it takes %d bytes, the scale says %d", name, took, weight)
		}
		if heavy := inbox.TooHeavy(weight, longest); (heavy != nil) != (longest == n) {
			t.Errorf("%s: %d items: %v", name, longest, heavy)
		}
	}
}

// TestFullBatchIsNotTooHeavy: what the limits allow is no burden, all of them
// used up at once.
func TestFullBatchIsNotTooHeavy(t *testing.T) {
	s := inbox.NewScale(carried)
	task := []byte("\x12\x01q")
	for range proto.MaxDependencies {
		task = append(append(task, 0x32, 20), make([]byte, 20)...)
	}
	task = append(binary.AppendUvarint([]byte{0x0a}, uint64(len(task))), task...)
	body := bytes.Repeat(task, proto.MaxFrame/len(task))
	if weight, longest := s.Weigh(nornv1.Method_METHOD_ENQUEUE, body); longest == 0 || inbox.TooHeavy(weight, longest) != nil {
		t.Errorf("a frame full of dependencies: %d tasks, %v", longest, inbox.TooHeavy(weight, longest))
	}
	one := headers(proto.MaxHeaders)
	body = bytes.Repeat(one, proto.MaxBatchTasks)
	if weight, longest := s.Weigh(nornv1.Method_METHOD_ENQUEUE, body); inbox.TooHeavy(weight, longest) != nil {
		t.Errorf("%d headers: %v", proto.MaxHeaders*proto.MaxBatchTasks, inbox.TooHeavy(weight, longest))
	}
}

// lists gives the length of the longest list of a message.
func lists(m protoreflect.Message) (longest int) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.IsList() {
			longest = max(longest, v.List().Len())
		}
		return true
	})
	return longest
}

// FuzzWeigh checks that the scale reads bytes as the decoder does.
func FuzzWeigh(f *testing.F) {
	f.Add(uint16(nornv1.Method_METHOD_ENQUEUE), spread(3, "\x0a\x04\x32\x00\x4a\x00"))
	f.Add(uint16(nornv1.Method_METHOD_LIST), []byte("\x12\x03\x01\x02\x03\x10\x01"))
	f.Add(uint16(nornv1.Method_METHOD_CLAIM), []byte("\x0a\x01q\x0a\x00\x0b\x0c"))
	f.Add(uint16(nornv1.Method_METHOD_RENEW), []byte("\x0a\x7f"))
	f.Add(uint16(0), []byte{})
	s := inbox.NewScale(carried)
	f.Fuzz(func(t *testing.T, method uint16, body []byte) {
		weight, longest := s.Weigh(nornv1.Method(method), body)
		if weight < inbox.RequestCost+len(body) || longest > len(body) {
			t.Fatalf("%d bytes weigh %d and have %d items", len(body), weight, longest)
		}
		of := carried(nornv1.Method(method))
		if of == nil {
			return
		}
		m := of.Request()
		if gproto.Unmarshal(body, m) != nil {
			return
		}
		if n := lists(m.ProtoReflect()); longest < n {
			t.Fatalf("%d items were counted, the decoder finds %d", longest, n)
		}
	})
}

func BenchmarkWeigh(b *testing.B) {
	batch := &nornv1.EnqueueRequest{}
	for range 100 {
		batch.Tasks = append(batch.Tasks, &nornv1.TaskSpec{Id: make([]byte, 20), Queue: "queue", Payload: make([]byte, 100)})
	}
	body, err := gproto.Marshal(batch)
	if err != nil {
		b.Fatal(err)
	}
	s := inbox.NewScale(carried)
	b.ReportAllocs()
	for b.Loop() {
		s.Weigh(nornv1.Method_METHOD_ENQUEUE, body)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/task")
}
