package jsonform

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	norn "github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func at(s string) *timestamppb.Timestamp {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return timestamppb.New(t)
}

func task() *nornv1.Task {
	return &nornv1.Task{
		Id: "3ZyfAz4TTlNLdMEJYWbpzCDKw1p", Queue: "mail", Payload: []byte("hello"), Priority: -7,
		State: nornv1.State_STATE_CLAIMED, Attempts: 1, MaxAttempts: 25,
		CreatedAt: at("2026-11-21T10:00:00.000000001+02:00"), NotBefore: at("2026-11-21T08:00:01.5Z"),
		Claims: []*nornv1.Claim{{
			Token: math.MaxUint64, Worker: "w \"1\" ü\n<&>", Start: at("2026-11-21T08:00:02Z"), End: at("2026-11-21T08:00:32Z"),
			Outcome: nornv1.ClaimOutcome_CLAIM_OUTCOME_ACTIVE,
		}},
		Headers: map[string]string{"b": "2", "a": "1"},
		AttemptLog: []*nornv1.Attempt{{
			Number: 1, Token: 1<<32 | 1, Worker: "w", Start: at("2026-11-21T08:00:00.5Z"), End: at("2026-11-21T08:00:01Z"), DurationSeconds: 0.5,
			Outcome: nornv1.ClaimOutcome_CLAIM_OUTCOME_FAILED, Error: "no luck", WaitSeconds: 0.25, Counted: true,
		}},
	}
}

const goldenTask = `{
  "id": "3ZyfAz4TTlNLdMEJYWbpzCDKw1p",
  "queue": "mail",
  "payload": "aGVsbG8=",
  "payload_text": "hello",
  "priority": -7,
  "state": "claimed",
  "attempts": 1,
  "max_attempts": 25,
  "created_at": "2026-11-21T08:00:00.000000001Z",
  "not_before": "2026-11-21T08:00:01.5Z",
  "dependencies": [],
  "claims": [
    {
      "token": "18446744073709551615",
      "worker": "w \"1\" ü\n<&>",
      "start": "2026-11-21T08:00:02Z",
      "end": "2026-11-21T08:00:32Z",
      "outcome": "active",
      "principal": ""
    }
  ],
  "updates": [],
  "completed_at": null,
  "error": "",
  "headers": {
    "a": "1",
    "b": "2"
  },
  "result": "",
  "result_text": "",
  "on_dependency_failure": "cancel",
  "key": "",
  "key_window_seconds": 0,
  "retries": "0",
  "finished_at": null,
  "attempt_log": [
    {
      "number": "1",
      "token": "4294967297",
      "worker": "w",
      "start": "2026-11-21T08:00:00.5Z",
      "end": "2026-11-21T08:00:01Z",
      "duration_seconds": 0.5,
      "outcome": "failed",
      "error": "no luck",
      "stack": "",
      "wait_seconds": 0.25,
      "counted": true,
      "principal": "",
      "completed_by": ""
    }
  ],
  "kind": "",
  "tags": []
}
`

func TestTask(t *testing.T) {
	if got := string(Marshal(task())); got != goldenTask {
		t.Errorf("got\n%s\nwant\n%s", got, goldenTask)
	}
}

func TestEmptyMessages(t *testing.T) {
	want := `{"task":null,"token":"0","lease_seconds":0,"start":null,"end":null,"eta_seconds":0,"checkpoint":"","checkpoint_text":""}` + "\n"
	if got := string(Of(&nornv1.Grant{}).Line()); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if got := string(Marshal(&nornv1.Ping{})); got != "{}\n" {
		t.Errorf("a message without fields: %s", got)
	}
	if got := string(MarshalList([]*nornv1.Task(nil))); got != "[]\n" {
		t.Errorf("no messages: %s", got)
	}
	if got := string(Of(nil).Line()) + string(Of((*nornv1.Task)(nil)).Line()); got != "null\nnull\n" {
		t.Errorf("nil messages: %s", got)
	}
}

func TestListIsIndented(t *testing.T) {
	want := "[\n  {\n    \"min_version\": 0,\n    \"max_version\": 1,\n    \"cluster_id\": \"\",\n    \"auth_token\": \"\",\n    \"agent\": \"\",\n    \"only_cluster\": false\n  }\n]\n"
	if got := string(MarshalList([]*nornv1.Hello{{MaxVersion: 1}})); got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if got := string(Of(&nornv1.Hello{MaxVersion: 1}).AppendJSON(nil, 1)) + "\n"; "[\n  "+got+"]\n" != want {
		t.Errorf("a list written item by item differs: %s", got)
	}
}

func TestEnums(t *testing.T) {
	for want, v := range map[string]Value{
		`"ready"`:       enum(nornv1.State_STATE_READY.Descriptor(), 3),
		`"unspecified"`: enum(nornv1.State_STATE_READY.Descriptor(), 0),
		`"expired"`:     enum(nornv1.ClaimOutcome_CLAIM_OUTCOME_EXPIRED.Descriptor(), 5),
		`"cancel"`:      enum(nornv1.DependencyFailure_DEPENDENCY_FAILURE_CANCEL.Descriptor(), 0),
		`99`:            enum(nornv1.State_STATE_READY.Descriptor(), 99),
	} {
		if got := strings.TrimSpace(string(v.Line())); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := EnumName(nornv1.State_STATE_DEAD); got != "dead" {
		t.Errorf("EnumName: %q", got)
	}
}

func TestNumbers(t *testing.T) {
	for f, want := range map[float64]string{30: "30", 0.25: "0.25", 1e21: "1e+21", math.Inf(1): `"Infinity"`, math.Inf(-1): `"-Infinity"`} {
		if got := strings.TrimSpace(string(float(f, 64).Line())); got != want {
			t.Errorf("%v: got %s, want %s", f, got, want)
		}
	}
	if got := string(float(math.NaN(), 64).Line()); got != "\"NaN\"\n" {
		t.Errorf("NaN: %s", got)
	}
}

func TestWith(t *testing.T) {
	base := Of(&nornv1.PingReply{})
	one, two := base.With("a", Bool(true)), base.With("b", Seconds(1500*time.Millisecond))
	if got := string(one.Line()) + string(two.Line()); got != `{"placement":null,"now":null,"a":true}`+"\n"+`{"placement":null,"now":null,"b":1.5}`+"\n" {
		t.Errorf("got %s", got)
	}
}

func TestYAML(t *testing.T) {
	got, err := ListOf([]*nornv1.Task{task()}).YAML()
	if err != nil {
		t.Fatal(err)
	}
	want := `- id: 3ZyfAz4TTlNLdMEJYWbpzCDKw1p
  queue: mail
  payload: aGVsbG8=
  payload_text: hello
  priority: -7
  state: claimed
  attempts: 1
  max_attempts: 25
  created_at: "2026-11-21T08:00:00.000000001Z"
  not_before: "2026-11-21T08:00:01.5Z"
  dependencies: []
  claims:
    - token: "18446744073709551615"
`
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestJSONAndYAMLSayTheSame checks with any strings and numbers that JSON is
// valid, that the one-line form is the indented one, and that YAML has the
// same tree.
func TestJSONAndYAMLSayTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &nornv1.Task{
			Id: rapid.String().Draw(t, "id"), Queue: rapid.SampledFrom([]string{"true", "0x1", "null", "1e3", "~", "- a", "a: b", "2026-11-21"}).Draw(t, "queue"),
			Payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload"), Priority: rapid.Int32().Draw(t, "priority"),
			Error: rapid.StringMatching(`[ -~\n\t]{0,40}`).Draw(t, "error"), Headers: rapid.MapOf(rapid.StringMatching(`[a-z:]{1,5}`), rapid.StringMatching(`.{0,9}`)).Draw(t, "headers"),
		}
		if !proto.Equal(m, m) {
			t.Fatal("not equal to itself")
		}
		var pretty, line, fromYAML any
		if err := json.Unmarshal(Marshal(m), &pretty); err != nil {
			t.Fatalf("indented: %v", err)
		}
		if err := json.Unmarshal(Of(m).Line(), &line); err != nil {
			t.Fatalf("one line: %v", err)
		}
		if !reflect.DeepEqual(pretty, line) {
			t.Fatalf("the two forms of JSON differ: %v, %v", pretty, line)
		}
		b, err := Of(m).YAML()
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(b, &fromYAML); err != nil {
			t.Fatalf("YAML: %v\n%s", err, b)
		}
		again, err := json.Marshal(fromYAML)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(again, &tree); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(tree, pretty) {
			t.Fatalf("YAML\n%s\nJSON\n%s", b, Marshal(m))
		}
	})
}

// TestKindAndTagsHaveTheirNames: what else stands among the further fields of a spec is base64,
// and they are not there twice.
func TestKindAndTagsHaveTheirNames(t *testing.T) {
	own := norn.AppendKind(nil, "send-<b>", []string{"vip", "a\u2028b"})
	for _, c := range []struct {
		further []byte
		want    string
	}{{own, ""}, {append(slices.Clone(own), 0xa0, 0x06, 1), `"further_spec": "oAYB"`}} {
		got := string(Marshal(&nornv1.Task{Kind: "send-<b>", Tags: []string{"vip", "a\u2028b"}, FurtherSpec: c.further}))
		if strings.Contains(got, "further_spec") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%x: %s", c.further, got)
		}
		if !strings.Contains(got, `"kind": "send-`) || !strings.Contains(got, `"vip"`) {
			t.Errorf("its kind and its tags are missing in %s", got)
		}
	}
}

// TestFurtherFieldsAreThereWhenTheySaySomething, unlike all others.
func TestFurtherFieldsAreThereWhenTheySaySomething(t *testing.T) {
	for _, c := range []struct {
		further []byte
		want    bool
	}{{nil, false}, {[]byte{}, false}, {[]byte{8, 1}, true}} {
		if got := string(Marshal(&nornv1.Update{Further: c.further})); strings.Contains(got, `"further": "CAE="`) != c.want || strings.Contains(got, "further") != c.want {
			t.Errorf("%v: %s", c.further, got)
		}
	}
}
