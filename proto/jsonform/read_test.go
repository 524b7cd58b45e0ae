package jsonform

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// messages are all that travel between clients and nodes.
var messages = []proto.Message{
	&nornv1.EnqueueRequest{}, &nornv1.ClaimRequest{}, &nornv1.RenewRequest{}, &nornv1.UpdateRequest{}, &nornv1.CompleteRequest{}, &nornv1.FailRequest{},
	&nornv1.ReleaseRequest{}, &nornv1.GetRequest{}, &nornv1.ListRequest{}, &nornv1.LogRequest{}, &nornv1.CancelRequest{}, &nornv1.SetQueueRequest{},
	&nornv1.ChangeSchedulesRequest{}, &nornv1.ClusterRequest{}, &nornv1.VerifyRequest{}, &nornv1.SetWorkerRequest{}, &nornv1.LinesRequest{},
	&nornv1.ClaimReply{}, &nornv1.WriteReply{}, &nornv1.StatusReply{}, &nornv1.SchedulesReply{}, &nornv1.WorkersReply{},
}

// fill sets some fields of a message to anything they can hold.
func fill(t *rapid.T, m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if !rapid.Bool().Draw(t, "set") || f.ContainingOneof() != nil && m.WhichOneof(f.ContainingOneof()) != nil {
			continue
		}
		value := func(f protoreflect.FieldDescriptor, message func() protoreflect.Message) protoreflect.Value {
			if f.Kind() == protoreflect.MessageKind {
				return protoreflect.ValueOfMessage(filled(t, message()))
			}
			return drawn(t, f)
		}
		switch {
		case f.IsList():
			list := m.Mutable(f).List()
			for range rapid.IntRange(0, 2).Draw(t, "length") {
				list.Append(value(f, func() protoreflect.Message { return list.NewElement().Message() }))
			}
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString(rapid.StringMatching(`.{0,5}`).Draw(t, "key")).MapKey(), drawn(t, f.MapValue()))
		default:
			m.Set(f, value(f, func() protoreflect.Message { return m.NewField(f).Message() }))
		}
	}
}

func filled(t *rapid.T, m protoreflect.Message) protoreflect.Message {
	if _, ok := m.Interface().(*timestamppb.Timestamp); ok {
		return (&timestamppb.Timestamp{Seconds: rapid.Int64Range(0, 4e9).Draw(t, "seconds"), Nanos: rapid.Int32Range(1, 999_999_999).Draw(t, "nanos")}).ProtoReflect()
	}
	fill(t, m)
	return m
}

func drawn(t *rapid.T, f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, "string"))
	case protoreflect.BytesKind:
		sizes := []int{0, 1, 3, 16, 19, 20, 21, 40}
		if isID(f) {
			sizes = []int{0, 20}
		}
		n := rapid.SampledFrom(sizes).Draw(t, "size")
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.OneOf(rapid.Float64(), rapid.Just(math.Inf(1)), rapid.Just(math.Inf(-1))).Draw(t, "double"))
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(rapid.IntRange(0, values.Len()-1).Draw(t, "enum")).Number())
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "uint64"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "uint32"))
	}
	return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int32"))
}

// TestWhatIsWrittenIsRead reads what was written of any message, in all forms of
// JSON.
func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := proto.Clone(rapid.SampledFrom(messages).Draw(t, "message"))
		fill(t, m.ProtoReflect())
		for _, b := range [][]byte{Marshal(m), Of(m).Line()} {
			again := m.ProtoReflect().New().Interface()
			if err := Unmarshal(b, again); err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			if !proto.Equal(m, again) {
				t.Fatalf("written %v\nread %v", m, again)
			}
		}
	})
}

func TestFormsThatAreRead(t *testing.T) {
	task, err := id.Parse("37dGamhT6KhgeCdJ3yaFwZAimIC")
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]proto.Message{
		`{}`:           &nornv1.ListRequest{},
		" {\n}\n":      &nornv1.ListRequest{},
		`{"queue":""}`: &nornv1.ListRequest{},
		`{"states":["ready",4],"limit":3,"cursor":null,"filter":null}`: &nornv1.ListRequest{States: []nornv1.State{3, 4}, Limit: 3},
		`{"queue":"\uD83D\ude00\\ud800\ufffd"}`:                        &nornv1.ListRequest{Queue: "😀\\ud800\ufffd"},
		`{"filter":{}}`:                                                &nornv1.ListRequest{Filter: &nornv1.Filter{}},
		`{"cursor":"_-8="}`:                                            &nornv1.ListRequest{Cursor: []byte{0xff, 0xef}},
		`{"cursor":"/+8"}`:                                             &nornv1.ListRequest{Cursor: []byte{0xff, 0xef}},
		`{"id":"37dGamhT6KhgeCdJ3yaFwZAimIC"}`:                         &nornv1.GetRequest{Id: task.Bytes()},
		`{"id":"FeNrAB1vNFShssPUAQIDBAUGBwg="}`:                        &nornv1.GetRequest{Id: task.Bytes()},
		`{"token":18446744073709551615,"seq":"7"}`:                     &nornv1.UpdateRequest{Token: math.MaxUint64, Seq: 7},
		`{"wait_seconds":1e1}`:                                         &nornv1.LogRequest{WaitSeconds: 10},
		`{"repair":{},"dry_run":true}`:                                 &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Repair{Repair: &nornv1.Repair{}}, DryRun: true},
		`{"leave":null,"remove":{"node":"\u00e4"}}`:                    &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Remove{Remove: &nornv1.RemoveNode{Node: "ä"}}},
	} {
		got := want.ProtoReflect().New().Interface()
		if err := Unmarshal([]byte(in), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestFormsThatAreRefused(t *testing.T) {
	for in, want := range map[string]string{
		``:                               "ends too early",
		`{`:                              "ends too early",
		`{"queue"`:                       "ends too early",
		`[]`:                             "an array, not an object",
		`null`:                           "null, not an object",
		`{"queue":"a"} {}`:               "follows the end",
		"{\n  \"qeue\": 1\n}":            `line 2, column 9: unknown name "qeue"; known are: queue, states`,
		`{"Queue":"a"}`:                  "unknown name",
		`{"queue":"a","queue":"b"}`:      "queue is there twice",
		`{"queue":1}`:                    "queue is a number, not a string",
		`{"queue":["a"]}`:                "queue is an array, not a string",
		`{"queue":"a",}`:                 "invalid character",
		`{queue:"a"}`:                    "invalid character",
		"{\"queue\":\"\xff\"}":           "not UTF-8",
		"{\n \"queue\":\"a\\ud800\"}":    "line 2, column 12: half a character",
		`{"queue":"\uD83Dx\uDE00"}`:      "half a character",
		`{"queue":"\uDE00\uD83D"}`:       "half a character",
		`{"queue":"\\\uDE00"}`:           "half a character",
		`{"\ud800":1}`:                   "half a character",
		`{"states":"ready"}`:             "states is a string, not an array",
		`{"states":["redy"]}`:            "not one of unspecified, waiting",
		`{"states":[99]}`:                "not one of",
		`{"states":[null]}`:              "not one of",
		`{"limit":"3"}`:                  "not a whole number",
		`{"limit":-1}`:                   "not a whole number",
		`{"limit":4294967296}`:           "not a whole number",
		`{"limit":1.5}`:                  "not a whole number",
		`{"cursor":"="}`:                 "",
		`{"cursor":"a b"}`:               "not base64",
		`{"cursor":"a\nb"}`:              "not base64",
		`{"ids_only":"true"}`:            "not true or false",
		`{"filter":[]}`:                  "filter is an array, not an object",
		`{"filter":{"headers":[]}}`:      "headers is an array",
		`{"filter":{"headers":{"a":1}}}`: "a number, not a string",
		`{"filter":{"headers":{"a":"1","a":"2"}}}`:         "is there twice",
		`{"filter":{"created_before":"yesterday"}}`:        "not a time in RFC 3339",
		`{"filter":{"created_before":1}}`:                  "not a time in RFC 3339",
		`{"filter":` + strings.Repeat(`{"a":`, 100_000):    "unknown name",
		`{"consistency":{"level":"count","replicas":1e3}}`: "not a whole number",
	} {
		err := Unmarshal([]byte(in), &nornv1.ListRequest{})
		if want == "" && err == nil {
			continue // no bytes
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", in, err, want)
		}
	}
	for in, want := range map[string]string{
		`{"leave":{},"remove":{}}`: "exclude each other",
		`{"leave":true}`:           "not an object",
	} {
		if err := Unmarshal([]byte(in), &nornv1.ClusterRequest{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	for in, want := range map[string]string{
		`{"id":"37dGamhT6KhgeCdJ3yaFwZAim!C"}`: "id:",
		`{"id":"37dGamhT6Kh!"}`:                "not a task ID",
		`{"id":"nonsense"}`:                    "not a task ID",
		`{"wait_seconds":"10"}`:                "not a number",
		`{"wait_seconds":1e999}`:               "not a number",
	} {
		if err := Unmarshal([]byte(in), &nornv1.LogRequest{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

func TestSetText(t *testing.T) {
	m := &nornv1.ListRequest{}
	for _, p := range []struct {
		path  string
		texts []string
	}{
		{"queue", []string{"mail"}}, {"states", []string{"ready", "4"}}, {"limit", []string{"5"}}, {"ids_only", []string{"true"}}, {"cursor", []string{" -8"}},
		{"consistency.level", []string{"all"}}, {"consistency.at_least_token", []string{"18446744073709551615"}},
		{"filter.created_before", []string{"2026-01-02T03:04:05Z"}}, {"filter.headers.a.b", []string{"1"}}, {"filter.headers.", []string{"2"}},
	} {
		if err := SetText(m, p.path, p.texts...); err != nil {
			t.Errorf("%s: %v", p.path, err)
		}
	}
	want := &nornv1.ListRequest{
		Queue: "mail", States: []nornv1.State{3, 4}, Limit: 5, IdsOnly: true, Cursor: []byte{0xfb, 0xef},
		Consistency: &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ALL, AtLeastToken: math.MaxUint64},
		Filter:      &nornv1.Filter{CreatedBefore: at("2026-01-02T03:04:05Z"), Headers: map[string]string{"a.b": "1", "": "2"}},
	}
	if !proto.Equal(m, want) {
		t.Errorf("got %v\nwant %v", m, want)
	}
	for path, texts := range map[string][]string{
		"": {"x"}, "qeue": {"x"}, "queue.": {"x"}, "queue": {"a", "b"}, "states": {"x"}, "limit": {"x"}, "ids_only": {"1"}, "consistency": {"x"},
		"filter": {"x"}, "filter.headers": {"x"}, "filter.headers.a": {"x", "y"}, "filter.key": {"\xff"}, "consistency.": {"x"},
	} {
		if err := SetText(&nornv1.ListRequest{}, path, texts...); err == nil {
			t.Errorf("%q = %q is not refused", path, texts)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, m := range messages {
		f.Add(Marshal(m))
	}
	f.Add([]byte(goldenTask))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range messages {
			got := m.ProtoReflect().New().Interface()
			if Unmarshal(b, got) != nil {
				continue
			}
			again := m.ProtoReflect().New().Interface()
			if err := Unmarshal(Marshal(got), again); err != nil {
				t.Errorf("%s is read, and what it is written as is not: %v", b, err)
			}
		}
	})
}
