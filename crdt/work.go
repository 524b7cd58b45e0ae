package crdt

import "github.com/norn-dev/norn/id"

// Facts that workers bring about. Any node may write Update and Completed;
// Failed and Expired only the leader of the task's partition.

// Update is one entry of the log of a claim. Key: Token, Seq.
type Update struct {
	Token, Seq uint64 // Seq counts from 0 within the claim
	Data       []byte
	At         int64  // wall ns
	Output     bool   // a captured line of output, not a checkpoint
	Further    []byte // fields of the client's UpdateRequest that are not above, see [Further]
}

func (u Update) key() Key { return Key{Kind: KindUpdate, A: u.Token, B: u.Seq} }

// AppendTo appends the canonical bytes.
func (u Update) AppendTo(dst []byte) []byte {
	dst = appendUint(append(dst, version), u.Token)
	dst = appendUint(dst, u.Seq)
	dst = appendUint(dst, uint64(u.At))
	return appendFurther(appendBytes(appendBool(dst, u.Output), u.Data), u.Further)
}

// Encode gives the canonical bytes.
func (u Update) Encode() []byte { return encode(u, len(u.Data)+furtherSize(u.Further)) }

// Fact gives the fact of this task.
func (u Update) Fact(task id.ID) Fact { return NewFact(task, u.key(), u.Encode()) }

// DecodeUpdate is the inverse of [Update.Encode]. The data shares b. Errors as
// [DecodeEnqueued].
func DecodeUpdate(b []byte) (Update, error) {
	r := read(b)
	u := Update{Token: r.uint(), Seq: r.uint(), At: r.int64(), Output: r.bool(), Data: r.bytes(), Further: r.further()}
	if err := r.end(); err != nil {
		return Update{}, err
	}
	return u, nil
}

// Completed states that the task is done. It wins over everything, however
// late it comes. Key: Token.
type Completed struct {
	Token, Seq uint64 // Seq follows the last update of the claim
	At         int64  // wall ns
	Result     []byte
	Further    []byte // fields of the client's Completion that are not above, see [Further]
}

func (c Completed) key() Key { return Key{Kind: KindCompleted, A: c.Token} }

// AppendTo appends the canonical bytes.
func (c Completed) AppendTo(dst []byte) []byte {
	dst = appendUint(append(dst, version), c.Token)
	dst = appendUint(dst, uint64(c.At))
	return appendFurther(appendBytes(appendUint(dst, c.Seq), c.Result), c.Further)
}

// Encode gives the canonical bytes.
func (c Completed) Encode() []byte { return encode(c, len(c.Result)+furtherSize(c.Further)) }

// Fact gives the fact of this task.
func (c Completed) Fact(task id.ID) Fact { return NewFact(task, c.key(), c.Encode()) }

// DecodeCompleted is the inverse of [Completed.Encode]. The result shares b.
// Errors as [DecodeEnqueued].
func DecodeCompleted(b []byte) (Completed, error) {
	r := read(b)
	c := Completed{Token: r.uint(), At: r.int64(), Seq: r.uint(), Result: r.bytes(), Further: r.further()}
	if err := r.end(); err != nil {
		return Completed{}, err
	}
	return c, nil
}

// Failed states that a claim ended with a failure. Key: Token.
type Failed struct {
	Token   uint64
	Error   string
	At      int64  // wall ns
	RetryAt int64  // wall ns from which it may be tried again; 0: at once
	Counted bool   // uses up an attempt
	Further []byte // fields of the client's Failure that are not above, see [Further]
}

func (f Failed) key() Key { return Key{Kind: KindFailed, A: f.Token} }

// AppendTo appends the canonical bytes.
func (f Failed) AppendTo(dst []byte) []byte {
	dst = appendUint(append(dst, version), f.Token)
	dst = appendUint(dst, uint64(f.At))
	dst = appendUint(dst, uint64(f.RetryAt))
	return appendFurther(appendBytes(appendBool(dst, f.Counted), f.Error), f.Further)
}

// Encode gives the canonical bytes.
func (f Failed) Encode() []byte { return encode(f, len(f.Error)+furtherSize(f.Further)) }

// Fact gives the fact of this task.
func (f Failed) Fact(task id.ID) Fact { return NewFact(task, f.key(), f.Encode()) }

// DecodeFailed is the inverse of [Failed.Encode]. Errors as [DecodeEnqueued].
func DecodeFailed(b []byte) (Failed, error) {
	r := read(b)
	f := Failed{Token: r.uint(), At: r.int64(), RetryAt: r.int64(), Counted: r.bool(), Error: r.text(), Further: r.further()}
	if err := r.end(); err != nil {
		return Failed{}, err
	}
	return f, nil
}

// Expired states that a claim lapsed. It uses up an attempt. Key: Token.
type Expired struct {
	Token   uint64
	At      int64  // wall ns
	Further []byte // who had the claim, see [Run]; a body that has some is of version 2
}

func (e Expired) key() Key { return Key{Kind: KindExpired, A: e.Token} }

// AppendTo appends the canonical bytes.
func (e Expired) AppendTo(dst []byte) []byte {
	v := byte(version)
	if len(e.Further) > 0 {
		v = furtherVersion
	}
	return appendFurther(appendUint(appendUint(append(dst, v), e.Token), uint64(e.At)), e.Further)
}

// Encode gives the canonical bytes.
func (e Expired) Encode() []byte { return encode(e, furtherSize(e.Further)) }

// Fact gives the fact of this task.
func (e Expired) Fact(task id.ID) Fact { return NewFact(task, e.key(), e.Encode()) }

// DecodeExpired is the inverse of [Expired.Encode]. Errors as [DecodeEnqueued].
func DecodeExpired(b []byte) (Expired, error) {
	r := readUpTo(b, furtherVersion)
	e := Expired{Token: r.uint(), At: r.int64()}
	if r.version == furtherVersion {
		if e.Further = r.further(); e.Further == nil {
			r.fail("version 2 without further fields")
		}
	}
	if err := r.end(); err != nil {
		return Expired{}, err
	}
	return e, nil
}
