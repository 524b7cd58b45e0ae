package liar

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Rule is one lie.
type Rule struct {
	// Method is the name of the method that it is about, such as ENQUEUE.
	Method string `json:"method" yaml:"method"`
	// Do is the lie, one of [Lies].
	Do string `json:"do" yaml:"do"`
	// Skip is how many requests of the method are left alone before.
	Skip int `json:"skip,omitempty" yaml:"skip"`
	// Times is how many requests it is done to; 0: one, below 0: all.
	Times int `json:"times,omitempty" yaml:"times"`
	// Seconds is how late an answer comes.
	Seconds float64 `json:"seconds,omitempty" yaml:"seconds"`
	// Error is what is answered instead of passing the request on.
	Error map[string]any `json:"error,omitempty" yaml:"error"`
	// Reply is likewise, a message of the type of the method's answer, as JSON of protobuf.
	Reply map[string]any `json:"reply,omitempty" yaml:"reply"`
}

// The lies. Unless it says otherwise the server gets the request first, so that it is carried out.
const (
	Cut       = "cut"        // the connection ends instead of the answer
	CutBefore = "cut-before" // the connection ends, and the server gets nothing
	Drop      = "drop"       // no answer comes
	Swallow   = "swallow"    // no answer comes, and the server gets nothing
	Late      = "late"       // the answer comes after Seconds
	Twice     = "twice"      // the answer comes twice
	Stranger  = "stranger"   // an answer to a request that nobody made comes first
	Garbage   = "garbage"    // the body is no message
	Misnamed  = "misnamed"   // the answer names another method
	Flags     = "flags"      // the answer has a flag that is reserved
	Short     = "short"      // its length is under the least
	Long      = "long"       // its length is beyond all limits
	Cropped   = "cropped"    // its length is one less than what comes
	Half      = "half"       // half of the answer comes, and then the end of the connection
	Greeting  = "greeting"   // the connection begins as one of SSH; Method is HELLO
	Fail      = "error"      // Error is answered, and the server gets nothing
	Say       = "reply"      // Reply is answered, and the server gets nothing
)

// Lies are all of them.
func Lies() []string {
	return []string{Cut, CutBefore, Drop, Swallow, Late, Twice, Stranger, Garbage, Misnamed, Flags, Short, Long, Cropped, Half, Greeting, Fail, Say}
}

// lie is a rule that was read, and how often it was applied.
type lie struct {
	Rule
	method uint16
	body   []byte // of Fail and Say
	passed int
	done   int
}

func read(r Rule) (*lie, error) {
	l := &lie{Rule: r}
	number, ok := nornv1.Method_value["METHOD_"+r.Method]
	if !ok {
		return nil, fmt.Errorf("liar: no method %q", r.Method)
	}
	l.method = uint16(number)
	if !slices.Contains(Lies(), r.Do) {
		return nil, fmt.Errorf("liar: no lie %q; there are %s", r.Do, strings.Join(Lies(), ", "))
	}
	var err error
	switch r.Do {
	case Fail:
		l.body, err = encode("Error", r.Error)
	case Say:
		l.body, err = encode(reply(r.Method), r.Reply)
	}
	return l, err
}

// reply is the name of the message that answers a method.
func reply(method string) string {
	switch method {
	case "UPDATE", "COMPLETE", "FAIL", "RELEASE", "CANCEL", "RETRY":
		return "WriteReply"
	case "SET_QUEUE":
		return "QueuesReply"
	}
	words := strings.Split(strings.ToLower(method), "_")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "") + "Reply"
}

func encode(name string, fields map[string]any) ([]byte, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByURL("norn.v1." + name)
	if err != nil {
		return nil, fmt.Errorf("liar: %s: %w", name, err)
	}
	text, err := marshal(fields)
	if err != nil {
		return nil, err
	}
	m := kind.New().Interface()
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("liar: %s: %w", name, err)
	}
	return protobuf.Marshal(m)
}

// takes tells whether the rule is for this request, and counts it.
func (l *lie) takes(method uint16) bool {
	if l.method != method || l.Times >= 0 && l.done >= max(1, l.Times) {
		return false
	}
	if l.passed < l.Skip {
		l.passed++
		return false
	}
	l.done++
	return true
}
