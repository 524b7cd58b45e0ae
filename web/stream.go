package web

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// followWait is between two signs of life of a stream in seconds: middlemen cut
// what is silent for a minute.
const followWait = 25

// wantsEvents tells whether a client asks for server-sent events.
func wantsEvents(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept") {
		for accepted := range strings.SplitSeq(header, ",") {
			if t, _, err := mime.ParseMediaType(accepted); err == nil && t == "text/event-stream" {
				return true
			}
		}
	}
	return false
}

// stream gives the updates of a task as they come, until it is finished: events
// update, then end with its state, or error. An update's id is TOKEN:SEQ, so that
// a client that connects again goes on where it was (Last-Event-ID).
func (a *api) stream(w http.ResponseWriter, r *http.Request, rt *route) {
	m, leave, f := a.read(w, r, rt)
	defer leave()
	request, _ := m.(*nornv1.LogRequest)
	if f == nil {
		f = resume(r, request)
	}
	if f != nil {
		a.refuse(w, f)
		return
	}
	during, over, f := a.waits.enter(r)
	if f != nil {
		a.refuse(w, f)
		return
	}
	defer over()
	s := &events{a: a, w: w, c: http.NewResponseController(w)}
	for {
		request.WaitSeconds = 0 // the first answer is quick: it decides between a status and a stream
		if s.begun && !s.over {
			request.WaitSeconds = followWait
		}
		ctx, cancel := context.WithTimeout(during, waitOf(request)+patience)
		c := a.call(ctx, rt, request)
		cancel()
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
		if during.Err() != nil {
			s.refuse(yielded())
			return
		}
		if c.err != nil {
			s.refuse(failed(statusOf(c.err.Kind), c.err))
			return
		}
		size := jsonform.Room(c.reply) // see [api.answer]: whoever reads slowly keeps all of it here
		if size > smallAnswer && !a.room.take(size) {
			s.refuse(full(a.room))
			return
		}
		more := s.page(request, c.reply.(*nornv1.LogReply))
		if size > smallAnswer {
			a.room.give(size)
		}
		if !more {
			return
		}
	}
}

// resume makes a request go on after the event that the client has seen last.
func resume(r *http.Request, request *nornv1.LogRequest) *failure {
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		return nil
	}
	token, seq, _ := strings.Cut(last, ":")
	t, bad := strconv.ParseUint(token, 10, 64)
	n, worse := strconv.ParseUint(seq, 10, 64)
	if bad != nil || worse != nil {
		return failed(http.StatusBadRequest, proto.Invalid("Last-Event-ID %.60q is not TOKEN:SEQ", last))
	}
	request.After, request.AfterToken, request.AfterSeq = true, t, n
	return nil
}

// events is a stream that is being written.
type events struct {
	a     *api
	w     http.ResponseWriter
	c     *http.ResponseController
	begun bool
	over  bool // the task has ended: what is left of its updates is there
}

// page writes one page of a log, and moves the request behind it. It gives false
// when the stream has ended.
func (s *events) page(request *nornv1.LogRequest, reply *nornv1.LogReply) bool {
	if !s.begun {
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store, no-transform") // who compresses it holds it back
		h.Set("X-Accel-Buffering", "no")                 // so does nginx, which is told so
		s.begun = true
	}
	for _, u := range reply.GetUpdates() {
		if s.send("update", fmt.Sprintf("%d:%d", u.GetToken(), u.GetSeq()), jsonform.Of(u)) != nil {
			return false
		}
		request.After, request.AfterToken, request.AfterSeq = true, u.GetToken(), u.GetSeq()
	}
	s.over = false // it may have been retried
	switch reply.GetState() {
	case nornv1.State_STATE_COMPLETED, nornv1.State_STATE_DEAD, nornv1.State_STATE_CANCELLED:
		// One replica tells who waits of the end, which may be yet to hear the last updates. A
		// majority says that there are none after all that were sent.
		s.over = true
		if request.GetWaitSeconds() == 0 && len(reply.GetUpdates()) == 0 && !reply.GetMore() {
			_ = s.send("end", "", jsonform.Object(jsonform.Field{Name: "state", Value: jsonform.String(jsonform.EnumName(reply.GetState()))}))
			return false
		}
	}
	return s.write(":\n\n") == nil
}

// refuse ends a stream, or answers with an error where it has not begun.
func (s *events) refuse(f *failure) {
	if !s.begun {
		s.a.refuse(s.w, f)
		return
	}
	_ = s.send("error", "", jsonform.Object(errorField(f.err)))
}

func (s *events) send(event, id string, data jsonform.Value) error {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return s.write("event: " + event + "\n" + id + "data: " + string(data.Line()) + "\n")
}

func (s *events) write(text string) error {
	if err := s.a.pieces(s.w, []byte(text)); err != nil {
		return err
	}
	return s.c.Flush()
}
