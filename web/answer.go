package web

import (
	"math"
	"net/http"
	"strconv"
	"time"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func protoName(s string) protoreflect.Name { return protoreflect.Name(s) }

// failure is an error with the status that it is answered with.
type failure struct {
	status int
	err    *proto.Error
}

func failed(status int, err *proto.Error) *failure { return &failure{status, err} }

// statusOf is the status of an error of the wire.
func statusOf(k nornv1.ErrorKind) int {
	switch k {
	case nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT, nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW, nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE:
		return http.StatusBadRequest
	case nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED:
		return http.StatusUnauthorized
	case nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED:
		return http.StatusForbidden
	case nornv1.ErrorKind_ERROR_KIND_NOT_FOUND:
		return http.StatusNotFound
	case nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS, nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, nornv1.ErrorKind_ERROR_KIND_CONFLICT:
		return http.StatusConflict
	case nornv1.ErrorKind_ERROR_KIND_OVERLOADED:
		return http.StatusTooManyRequests
	case nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED:
		return http.StatusNotImplemented
	case nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, nornv1.ErrorKind_ERROR_KIND_CANCELLED:
		return http.StatusServiceUnavailable
	case nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED:
		return http.StatusGatewayTimeout
	case nornv1.ErrorKind_ERROR_KIND_DISK_FULL:
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}

// refuse answers with an error.
func (a *api) refuse(w http.ResponseWriter, f *failure) {
	deadline(w, a.o.WriteTimeout)
	refuse(w, f)
}

// refuse answers with an error, in one write.
func refuse(w http.ResponseWriter, f *failure) {
	text := jsonform.Object(append(problemFields(f.status, f.err), errorField(f.err))...).Line()
	head(w, f.status, f.err, len(text))
	_, _ = w.Write(text) // else the client is gone
}

func errorField(err *proto.Error) jsonform.Field {
	return jsonform.Field{Name: "error", Value: jsonform.Of(err.Proto())}
}

// answer writes what came of a call. A reply that nobody is left to take is
// dropped before a byte of it is written, so that grants in it are free at once.
func (a *api) answer(w http.ResponseWriter, r *http.Request, rt *route, c answered) {
	if r.Context().Err() != nil {
		c.dropped()
		panic(http.ErrAbortHandler) // without it the client would get an empty 200
	}
	if c.err != nil {
		a.refuse(w, failed(statusOf(c.err.Kind), c.err))
		return
	}
	if rt.field == "names" && noneOf(c.reply) {
		a.refuse(w, failed(http.StatusNotFound, proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is none with the name %.260q", r.PathValue("name"))))
		return
	}
	size := jsonform.Room(c.reply)
	if size > smallAnswer {
		if !a.room.take(size) {
			c.dropped()
			f := full(a.room)
			f.err.Effect = nornv1.Effect_EFFECT_UNKNOWN
			a.refuse(w, f)
			return
		}
		defer a.room.give(size)
	}
	form := jsonform.Of(c.reply)
	if err := onlyError(c.reply); err != nil {
		status := statusOf(err.Kind)
		more := problemFields(status, err)
		if c.reply.ProtoReflect().Descriptor().Fields().ByName("error") == nil {
			more = append(more, errorField(err))
		}
		for _, f := range more {
			form = form.With(f.Name, f.Value)
		}
		a.write(w, status, err, form)
		return
	}
	a.write(w, http.StatusOK, nil, form)
}

// noneOf tells whether the list that a reply is about is empty: it is the first
// field of each.
func noneOf(reply gproto.Message) bool {
	f := reply.ProtoReflect().Descriptor().Fields().Get(0)
	return f.IsList() && reply.ProtoReflect().Get(f).List().Len() == 0
}

// onlyError is the error of an answer that has one, or one result, which is an error. Who
// sends one item wants to see by the status what became of it; the answer to
// several is 200, and each result speaks for itself.
func onlyError(reply gproto.Message) *proto.Error {
	if own, ok := reply.(interface{ GetError() *nornv1.Error }); ok && own.GetError() != nil {
		return proto.FromProto(own.GetError())
	}
	m := reply.ProtoReflect()
	f := m.Descriptor().Fields().ByName("results")
	if f == nil || m.Get(f).List().Len() != 1 {
		return nil
	}
	if one, ok := m.Get(f).List().Get(0).Message().Interface().(interface{ GetError() *nornv1.Error }); ok && one.GetError() != nil {
		return proto.FromProto(one.GetError())
	}
	return nil
}

// writeChunk is what one time-out for writing is for.
const writeChunk = 256 << 10

// write writes an answer: err is what its status is about, nil for success.
func (a *api) write(w http.ResponseWriter, status int, err *proto.Error, form jsonform.Value) {
	text := form.Line()
	head(w, status, err, len(text))
	_ = a.pieces(w, text) // else the client is gone
}

// head writes the head of an answer of so many bytes.
func head(w http.ResponseWriter, status int, err *proto.Error, size int) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if err != nil {
		h.Set("Content-Type", problemType)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if err != nil && err.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(min(err.RetryAfter, time.Hour).Seconds()))))
	}
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="norn"`)
	}
	h.Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(status)
}

// pieces writes a text of any length: a client has the time-out for each chunk of it, so
// that a slow one gets a long text too.
func (a *api) pieces(w http.ResponseWriter, text []byte) error {
	for len(text) > 0 {
		n := min(len(text), writeChunk)
		deadline(w, a.o.WriteTimeout)
		if _, err := w.Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	deadline(w, a.o.WriteTimeout) // what the server still holds of it
	return nil
}
