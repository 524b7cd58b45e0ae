package intake

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Keys explains the objects that [JSONLines] reads, for --help.
const Keys = `  payload             base64
  payload_text        text, instead of payload
  payload_json        any JSON, instead of payload; white space between its parts goes
  queue               instead of -q
  id                  27 characters
  kind                a string: what is to be done
  tags                an array of strings to find the task by
  priority            a number, high first
  delay               a duration: "90s", "2h"
  at                  RFC 3339, instead of delay
  headers             an object of strings
  key, key_window     unique key, and how long it is taken ("1h")
  after               an array of IDs that must be completed first
  on_dep_failure      "cancel", "run" or "wait"
  max_attempts        a number`

// object is one line of input.
type object struct {
	Payload     *[]byte           `json:"payload"`
	PayloadText *string           `json:"payload_text"`
	PayloadJSON json.RawMessage   `json:"payload_json"`
	Queue       *string           `json:"queue"`
	ID          *string           `json:"id"`
	Kind        *string           `json:"kind"`
	Tags        []string          `json:"tags"`
	Priority    *int32            `json:"priority"`
	Delay       *string           `json:"delay"`
	At          *string           `json:"at"`
	Headers     map[string]string `json:"headers"`
	Key         *string           `json:"key"`
	KeyWindow   *string           `json:"key_window"`
	After       []string          `json:"after"`
	OnFailure   *string           `json:"on_dep_failure"`
	MaxAttempts *uint32           `json:"max_attempts"`
}

func trimmed(b []byte) []byte { return bytes.TrimSpace(b) }

// parse reads one object. The column is that of the mistake, 0 when it is in
// no one place.
// doubtful tells that the payload may not be what was meant.
func parse(b []byte, base client.Task) (t client.Task, doubtful bool, column int, err error) {
	if at := notText(b); at >= 0 {
		return client.Task{}, false, at + 1, errors.New("malformed JSON: it is not UTF-8 (payload takes any bytes, in base64)")
	}
	if at := jsonform.HalfCharacter(b); at >= 0 {
		return client.Task{}, false, at + 1, errors.New("malformed JSON: half a character (payload takes any bytes, in base64)")
	}
	var o object
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		column, err := locate(b, d, err)
		return client.Task{}, false, column, err
	}
	if rest := trimmed(b[d.InputOffset():]); len(rest) > 0 {
		return client.Task{}, false, bytes.Index(b[d.InputOffset():], rest) + int(d.InputOffset()) + 1, errors.New("something follows the JSON object")
	}
	if trimmed(b)[0] != '{' { // null
		return client.Task{}, false, 1, errors.New("expected a JSON object")
	}
	if column, err := checkKeys(b); err != nil {
		return client.Task{}, false, column, err
	}
	t, err = o.task(base)
	return t, o.Payload != nil && looksLikeText(*o.Payload), 0, err
}

// notText is where the first byte is that is no UTF-8, -1 without one. Package json
// would put other characters in the place of such bytes.
func notText(b []byte) int {
	for at := 0; at < len(b); {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// checkKeys finds what package json lets pass in an object that it can read: a key
// that is there twice, of which it takes the last, and one in capitals.
func checkKeys(b []byte) (column int, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	type level struct {
		object, value bool // the next token of an object is a value
		seen          map[string]bool
	}
	var in []level
	for {
		before := d.InputOffset()
		token, err := d.Token()
		if err != nil {
			return 0, nil // the end: the rest was read before
		}
		delim, _ := token.(json.Delim)
		if delim == '}' || delim == ']' {
			in = in[:len(in)-1]
			continue
		}
		if top := len(in) - 1; top >= 0 && in[top].object {
			name, _ := token.(string)
			if in[top].value = !in[top].value; in[top].value { // then this is a name
				column := int(before) + bytes.IndexByte(b[before:], '"') + 1
				switch {
				case in[top].seen[name]:
					return column, fmt.Errorf("%q is there twice", name)
				case top == 0 && name != strings.ToLower(name):
					return column, fmt.Errorf("unknown key %q", name)
				}
				in[top].seen[name] = true
				continue
			}
		}
		if delim == '{' || delim == '[' {
			in = append(in, level{object: delim == '{', seen: make(map[string]bool)})
		}
	}
}

// locate finds the column of a mistake and says what it is in our words.
func locate(b []byte, d *json.Decoder, err error) (int, error) {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	var base base64.CorruptInputError
	switch {
	case errors.As(err, &base):
		return bytes.Index(b, []byte(`"payload"`)) + 1, errors.New("payload: it is not base64 (payload_text takes text)")
	case errors.As(err, &syntax):
		return int(syntax.Offset), fmt.Errorf("malformed JSON: %s", syntax)
	case errors.As(err, &typ) && typ.Field == "":
		return 1, fmt.Errorf("expected a JSON object, found %s", typ.Value)
	case errors.As(err, &typ):
		return int(typ.Offset), fmt.Errorf("%s: %s is not %s", typ.Field, typ.Value, wanted(typ.Field))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return len(b) + 1, errors.New("malformed JSON: it ends too early")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if i := bytes.Index(b, []byte(name)); i >= 0 {
			return i + 1, fmt.Errorf("unknown key %s", name)
		}
		return 0, fmt.Errorf("unknown key %s", name)
	}
	return int(d.InputOffset()) + 1, fmt.Errorf("malformed JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// wanted says what a key holds.
func wanted(key string) string {
	switch key, _, _ := strings.Cut(key, "."); key {
	case "priority":
		return fmt.Sprintf("a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	case "max_attempts":
		return fmt.Sprintf("a whole number from 0 to %d", uint32(math.MaxUint32))
	case "headers":
		return "an object of strings"
	case "after":
		return "an array of IDs"
	case "tags":
		return "an array of strings"
	case "payload":
		return "a base64 string"
	}
	return "a string"
}

func (o *object) task(t client.Task) (client.Task, error) {
	if err := o.payload(&t); err != nil {
		return t, err
	}
	if o.Queue != nil {
		t.Queue = *o.Queue
	}
	if t.Queue == "" {
		return t, errors.New("no queue: add the key, or give -q for all lines")
	}
	if o.Priority != nil {
		t.Priority = *o.Priority
	}
	if o.Headers != nil {
		t.Headers = o.Headers
	}
	if o.Kind != nil {
		t.Kind = *o.Kind
	}
	if o.Tags != nil {
		t.Tags = o.Tags
	}
	if o.Key != nil {
		t.Key = *o.Key
	}
	if o.MaxAttempts != nil {
		t.Retry = &nornv1.RetryPolicy{MaxAttempts: *o.MaxAttempts}
	}
	return t, errors.Join(o.names(&t), o.times(&t))
}

// payload reads the one key that says what the payload is.
func (o *object) payload(t *client.Task) error {
	given := 0
	for _, is := range []bool{o.Payload != nil, o.PayloadText != nil, o.PayloadJSON != nil} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("give one of payload, payload_text and payload_json")
	case o.Payload != nil:
		t.Payload = *o.Payload
	case o.PayloadText != nil:
		t.Payload = []byte(*o.PayloadText)
	case o.PayloadJSON != nil:
		var b bytes.Buffer
		if err := json.Compact(&b, o.PayloadJSON); err != nil {
			return fmt.Errorf("payload_json: %w", err) // it was read as JSON before
		}
		t.Payload = b.Bytes()
	}
	return nil
}

// looksLikeText tells whether base64 that was read into payload is rather a word that
// happens to be base64, such as "test": only letters of one case and digits, or no more than
// eight of them, and what comes out is no text.
func looksLikeText(payload []byte) bool {
	word := base64.StdEncoding.EncodeToString(payload)
	if len(payload) == 0 || strings.ContainsAny(word, "=+/") || text(payload) {
		return false
	}
	return len(word) <= 8 || strings.ToLower(word) == word || strings.ToUpper(word) == word
}

// text tells whether people could read it.
func text(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) })
}

// names reads IDs and words.
func (o *object) names(t *client.Task) (err error) {
	if o.ID != nil {
		if t.ID, err = id.ParseNew(*o.ID); err != nil {
			return fmt.Errorf("id: %w", err)
		}
	}
	if o.After != nil {
		if t.Dependencies, err = IDs(o.After); err != nil {
			return fmt.Errorf("after: %w", err)
		}
	}
	if o.OnFailure != nil {
		if t.OnDependencyFailure, err = OnFailure(*o.OnFailure); err != nil {
			return fmt.Errorf("on_dep_failure: %w", err)
		}
	}
	return nil
}

// times reads instants and durations.
func (o *object) times(t *client.Task) (err error) {
	if o.Delay != nil && o.At != nil {
		return errors.New("delay and at are both there")
	}
	if o.Delay != nil {
		t.NotBefore = time.Time{}
		if t.Delay, err = notNegative(*o.Delay); err != nil {
			return fmt.Errorf("delay: %w", err)
		}
	}
	if o.At != nil {
		t.Delay = 0
		if t.NotBefore, err = Instant(*o.At); err != nil {
			return fmt.Errorf("at: %w", err)
		}
	}
	if o.KeyWindow != nil {
		if t.KeyWindow, err = notNegative(*o.KeyWindow); err != nil {
			return fmt.Errorf("key_window: %w", err)
		}
	}
	return nil
}

func notNegative(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 90s or 2h", s)
	}
	return d, nil
}

// IDs reads IDs in their text form.
func IDs(texts []string) ([]id.ID, error) {
	out := make([]id.ID, len(texts))
	for i, s := range texts {
		var err error
		if out[i], err = id.Parse(strings.TrimSpace(s)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// OnFailure reads cancel, run or wait.
func OnFailure(s string) (nornv1.DependencyFailure, error) {
	n, ok := nornv1.DependencyFailure_value["DEPENDENCY_FAILURE_"+strings.ToUpper(s)]
	if !ok || s != strings.ToLower(strings.ToUpper(s)) { // in capitals ſ is an S
		return 0, fmt.Errorf("%q is not cancel, run or wait", s)
	}
	return nornv1.DependencyFailure(n), nil
}
