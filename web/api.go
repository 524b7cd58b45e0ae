package web

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// patience is how long an answer is waited for, beyond the wait that was asked
// for: more than any time-out within a cluster, so that the node's own answer
// comes first.
const patience = 60 * time.Second

// api serves /api/v1.
type api struct {
	b     Backend
	o     Options
	guard *guard
	room  *room
	waits *waits
}

// serve adds the routes, by path: which verb a path takes is decided here, so that
// a wrong one is answered like everything else.
func (a *api) serve(mux *paths, m *metrics) {
	byPath := make(map[string][]route)
	for _, rt := range routes() {
		byPath[rt.path] = append(byPath[rt.path], rt)
	}
	for path, all := range byPath {
		mux.HandleFunc(path, m.counted(path, func(w http.ResponseWriter, r *http.Request) { a.pick(w, r, all) }))
	}
	mux.HandleFunc("/api/", m.counted("/api/", func(w http.ResponseWriter, _ *http.Request) {
		a.refuse(w, failed(http.StatusNotFound, proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no such path; /openapi.json lists those that there are")))
	}))
}

// pick finds the route for the verb.
func (a *api) pick(w http.ResponseWriter, r *http.Request, all []route) {
	verb := r.Method
	if verb == http.MethodHead {
		verb = get
	}
	i := slices.IndexFunc(all, func(rt route) bool { return rt.verb == verb })
	if i < 0 {
		var allowed []string
		for _, rt := range all {
			allowed = append(allowed, rt.verb)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		a.refuse(w, failed(http.StatusMethodNotAllowed, proto.Invalid("%.20q is not for this path; use %s", r.Method, strings.Join(allowed, " or "))))
		return
	}
	a.run(w, r, &all[i])
}

// run carries out one operation.
func (a *api) run(w http.ResponseWriter, r *http.Request, rt *route) {
	place := placeOf(r)
	defer place.rest()
	if a.guard.knows(r) { // others once their request is whole
		if f := place.keep(); f != nil {
			w.Header().Set("Connection", "close") // its body is not read
			a.refuse(w, f)
			return
		}
	}
	if rt.streams && wantsEvents(r) {
		a.stream(w, r, rt)
		return
	}
	request, leave, f := a.read(w, r, rt)
	defer leave()
	if f != nil {
		a.refuse(w, f)
		return
	}
	during, wait := r.Context(), waitOf(request)
	if wait > 0 {
		var over func()
		if during, over, f = a.waits.enter(r); f != nil {
			a.refuse(w, f)
			return
		}
		defer over()
	}
	ctx, cancel := context.WithTimeout(during, wait+patience)
	defer cancel()
	c := a.call(ctx, rt, request)
	if c.err != nil && context.Cause(during) == errYield {
		a.refuse(w, yielded())
		return
	}
	a.answer(w, r, rt, c)
}

// answered is what came of a call.
type answered struct {
	reply   gproto.Message
	err     *proto.Error
	dropped func()
}

func (a *api) call(ctx context.Context, rt *route, request gproto.Message) (c answered) {
	c.reply, c.err, c.dropped = a.b.Call(ctx, callerOf(ctx), rt.method, request)
	return c
}

// waitOf is how long a request may wait for something to happen.
func waitOf(request gproto.Message) time.Duration {
	if m, ok := request.(interface{ GetWaitSeconds() float64 }); ok {
		return min(max(proto.Seconds(m.GetWaitSeconds()), 0), proto.MaxWait)
	}
	return 0
}

// read makes the request's message. leave gives back the room that it takes.
func (a *api) read(w http.ResponseWriter, r *http.Request, rt *route) (m gproto.Message, leave func(), f *failure) {
	leave = func() {}
	m = rt.request.ProtoReflect().New().Interface()
	var err error
	switch {
	case rt.verb == http.MethodDelete && r.ContentLength == 0 && r.URL.RawQuery == "":
	case rt.verb == get:
		if r.ContentLength != 0 {
			return nil, leave, failed(http.StatusBadRequest, proto.Invalid("a request by GET has no body; its fields are parameters of the address"))
		}
		err = parameters(m, r)
	default:
		t, params, bad := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii") {
			return nil, leave, failed(http.StatusUnsupportedMediaType, proto.Invalid("the body is to be UTF-8: send Content-Type: application/json, not with charset=%.40q", charset))
		}
		if bad != nil || t != "application/json" || r.Header.Get("Content-Encoding") != "" {
			return nil, leave, failed(http.StatusUnsupportedMediaType, proto.Invalid("the body is to be JSON, plain: send Content-Type: application/json and no Content-Encoding"))
		}
		if r.URL.RawQuery != "" {
			return nil, leave, failed(http.StatusBadRequest, proto.Invalid("a request with a body has no parameters in its address; put them into the body"))
		}
		body, held, f := a.room.read(w, r)
		leave = held.leave
		if f != nil {
			return nil, leave, f
		}
		err = jsonform.Unmarshal(body, m)
		held.decoded()
	}
	gproto.Merge(m, rt.request)
	if err == nil {
		err = named(m, rt, r)
	}
	if err != nil {
		return nil, leave, failed(http.StatusBadRequest, proto.Invalid("the request is no %s: %v", rt.request.ProtoReflect().Descriptor().Name(), err))
	}
	if f := placeOf(r).keep(); f != nil {
		return nil, leave, f
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it may wait for longer than its body may take
	return m, leave, nil
}

// parameters sets fields from those of the address.
func parameters(m gproto.Message, r *http.Request) error {
	if strings.Contains(r.URL.RawQuery, ";") {
		return errors.New("parameters are joined by &, not by semicolons")
	}
	query, err := url.ParseQuery(r.URL.RawQuery) // a parameter that cannot be read must not count as none
	if err != nil {
		return fmt.Errorf("the parameters of the address: %w", err)
	}
	for name, texts := range query {
		if err := jsonform.SetText(m, name, texts...); err != nil {
			return err
		}
	}
	return nil
}

// named sets the field that stands in the path.
func named(m gproto.Message, rt *route, r *http.Request) error {
	if rt.field == "" {
		return nil
	}
	f := m.ProtoReflect().Descriptor().Fields().ByName(protoName(rt.field))
	given := m.ProtoReflect().Has(f)
	before := m.ProtoReflect().Get(f)
	if f.IsList() && given {
		return errors.New(rt.field + " stands in the path already")
	}
	if err := jsonform.SetText(m, rt.field, r.PathValue("name")); err != nil {
		return err
	}
	if given && !before.Equal(m.ProtoReflect().Get(f)) {
		return errors.New(rt.field + " is another one than in the path")
	}
	return nil
}
