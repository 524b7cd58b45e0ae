package jsonform

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestContentIsReadAsTextAndJSON: one of three names, for each field that people fill.
func TestContentIsReadAsTextAndJSON(t *testing.T) {
	for in, want := range map[string]proto.Message{
		`{"payload_text":"h\u00e9 \"x\"\n"}`:                      &nornv1.TaskSpec{Payload: []byte("hé \"x\"\n")},
		`{"payload_text":""}`:                                     &nornv1.TaskSpec{Payload: []byte{}},
		`{"payload_text":null,"queue":"q"}`:                       &nornv1.TaskSpec{Queue: "q"},
		`{"payload_json": {"b": 1.0, "a": [ "<" ]}, "queue":"q"}`: &nornv1.TaskSpec{Payload: []byte(`{"b":1.0,"a":["<"]}`), Queue: "q"},
		`{"payload_json": 12345678901234567890}`:                  &nornv1.TaskSpec{Payload: []byte(`12345678901234567890`)},
		`{"payload_json": null}`:                                  &nornv1.TaskSpec{Payload: []byte(`null`)},
		`{"payload":"aGk="}`:                                      &nornv1.TaskSpec{Payload: []byte("hi")},
		`{"result_json": [] }`:                                    &nornv1.Completion{Result: []byte(`[]`)},
		`{"data_text":"half","more":[{"data_json":{ }}]}`:         &nornv1.UpdateRequest{Data: []byte("half"), More: []*nornv1.FurtherUpdate{{Data: []byte("{}")}}},
	} {
		m := want.ProtoReflect().New().Interface()
		if err := Unmarshal([]byte(in), m); err != nil || !proto.Equal(m, want) {
			t.Errorf("%s: got %v, %v", in, m, err)
		}
	}
	for in, want := range map[string]string{
		`{"payload":"aGk=","payload_text":"hi"}`:  "give one of payload, payload_text, payload_json",
		`{"payload_text":"hi","payload_json":1}`:  "give one of payload, payload_text, payload_json",
		`{"payload_json":null,"payload":null}`:    "give one of payload, payload_text, payload_json",
		`{"payload_text":"a","payload_text":"b"}`: "payload_text is there twice",
		`{"payload_text":7}`:                      "payload_text is a number, not a string",
		`{"payload_text":{}}`:                     "payload_text is an object, not a string",
		`{"payload_json":}`:                       "line 1, column",
		`{"payload_json":{"a":1}`:                 "it ends too early",
		`{"payload":"hello world"}`:               "not base64 (payload_text takes text)",
		`{"queue_text":"q"}`:                      `unknown name "queue_text"`,
		`{"id_text":"q"}`:                         `unknown name "id_text"`,
		`{"payloads":"q"}`:                        "payload, payload_text, payload_json, priority",
	} {
		if err := Unmarshal([]byte(in), &nornv1.TaskSpec{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
}

// TestTextIsShownWhereItIsText: null else; what is asked for in a schedule can be sent as it came.
func TestTextIsShownWhereItIsText(t *testing.T) {
	for in, want := range map[string]string{"": `""`, "hé\n": `"hé\n"`, "\xff": `null`, "a\x00": `"a\u0000"`} {
		if got := string(Of(&nornv1.Task{Payload: []byte(in)}).Line()); !strings.Contains(got, `"payload_text":`+want+`,`) {
			t.Errorf("%q: %s", in, got)
		}
	}
	if got := string(Of(&nornv1.TaskSpec{Payload: []byte("x")}).Line()); strings.Contains(got, "payload_text") {
		t.Errorf("a specification: %s", got)
	}
}

// TestRoomIsEnough for the message, its tree and its text.
func TestRoomIsEnough(t *testing.T) {
	for _, fill := range []string{"x", "\x00", "\"", "\xff", "é"} {
		content := []byte(strings.Repeat(fill, 100_000/len(fill)))
		m := &nornv1.ListReply{Tasks: []*nornv1.Task{{Payload: content, Result: content, Updates: []*nornv1.Update{{Data: content}}}}}
		v := Of(m)
		if got, least := Room(m), proto.Size(m)+proto.Size(m)*4/3+len(v.Line()); got < least {
			t.Errorf("%q: room for %d bytes of %d", fill, got, least)
		}
	}
}
