package web

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Limits of the memory that requests and answers take.
const (
	// maxBody bounds one body: a full batch in base64, and some more.
	maxBody = proto.MaxFrame/3*4 + 1<<20
	// maxWeight bounds one request once it is read, as on the client port.
	maxWeight = 192 << 20
	// maxRoom bounds all requests that are being read or wait, and all large
	// answers and pages of streams that are being written. One that fits maxWeight always fits an
	// empty room.
	maxRoom = 256 << 20
	// smallAnswer and what is below needs no room: the limit on connections is
	// enough, and a write that was carried out is never refused its receipt.
	smallAnswer = 64 << 10
	// chunk is what is read of a body at once.
	chunk = 64 << 10
)

// What a part of a body takes in memory at most once it is a message.
const (
	objectCost = 320 // a message, or a map
	commaCost  = 192 // an entry of a map, an element of a list, a field
)

// room is the memory that requests and answers share.
type room struct {
	limit int64
	taken atomic.Int64
}

// take reserves bytes, or says that there are too few left.
func (m *room) take(n int) bool {
	if now := m.taken.Add(int64(n)); now > m.limit && now > int64(n) {
		m.taken.Add(-int64(n))
		return false
	}
	return true
}

func (m *room) give(n int) { m.taken.Add(-int64(n)) }

// hold is the room of one request: of its body, and of the message that it becomes.
type hold struct {
	m             *room
	body, message int
}

func (h *hold) take(part *int, n int) bool {
	if !h.m.take(n) {
		return false
	}
	*part += n
	return true
}

// decoded gives back the room of the body, which is garbage once it is a message: many
// requests wait for minutes as that.
func (h *hold) decoded() {
	h.m.give(h.body)
	h.body = 0
}

// leave gives everything back.
func (h *hold) leave() {
	h.decoded()
	h.m.give(h.message)
	h.message = 0
}

// read reads a body and reserves what it takes, before it is looked at.
func (m *room) read(w http.ResponseWriter, r *http.Request) (body []byte, h *hold, f *failure) {
	h = &hold{m: m}
	if r.ContentLength > maxBody {
		w.Header().Set("Connection", "close") // it is not read
		return nil, h, tooLarge(r.ContentLength)
	}
	from := http.MaxBytesReader(w, r.Body, maxBody)
	for {
		if cap(body)-len(body) < chunk {
			more := max(len(body), chunk)
			if !h.take(&h.body, more) {
				return nil, h, full(m)
			}
			body = append(make([]byte, 0, len(body)+more), body...)
		}
		n, err := from.Read(body[len(body) : len(body)+chunk])
		body = body[:len(body)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, h, unreadable(err)
		}
	}
	switch n := weigh(body); {
	case n > maxWeight:
		return nil, h, failed(http.StatusRequestEntityTooLarge, proto.Invalid("the request takes %d bytes of memory, over the limit of %d; send smaller batches", n, maxWeight))
	case !h.take(&h.message, n):
		return nil, h, full(m)
	}
	return body, h, nil
}

func full(m *room) *failure {
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "requests of %d bytes are being served over HTTP, the limit of this node is %d; try again", m.taken.Load(), m.limit)
	e.RetryAfter = time.Second
	return failed(http.StatusTooManyRequests, e)
}

func tooLarge(n int64) *failure {
	return failed(http.StatusRequestEntityTooLarge, proto.Invalid("the body has %d bytes, over the limit of %d; send smaller batches", n, maxBody))
}

// unreadable says why a body could not be read.
func unreadable(err error) *failure {
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return failed(http.StatusRequestEntityTooLarge, proto.Invalid("the body has over %d bytes, the limit; send smaller batches", large.Limit))
	}
	if wait := (interface{ Timeout() bool })(nil); errors.As(err, &wait) && wait.Timeout() {
		return failed(http.StatusRequestTimeout, proto.Invalid("the body did not come in time"))
	}
	return failed(http.StatusBadRequest, proto.Invalid("the body cannot be read: %v", err))
}

// weigh gives the bytes that a body takes once it is read, rather too many than
// too few: without looking, a few megabytes of empty objects would be gigabytes.
func weigh(body []byte) int {
	n, inText := len(body), false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{':
			n += objectCost
		case c == ',':
			n += commaCost
		}
	}
	return n
}
