package web

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestDeleteNeedsNoBody: as clients send it; with one it is as any other request.
func TestDeleteNeedsNoBody(t *testing.T) {
	for _, c := range []struct {
		at, body string
		code     int
		want     *nornv1.SetQueueRequest
	}{
		{"a%2Fb", "", http.StatusOK, &nornv1.SetQueueRequest{Name: "a/b", Delete: true}},
		{"q", `{"if_version": "3"}`, http.StatusOK, &nornv1.SetQueueRequest{Name: "q", Delete: true, IfVersion: 3}},
		{"q", `{"delete": false}`, http.StatusOK, &nornv1.SetQueueRequest{Name: "q", Delete: true}},
		{"q", `{"name": "other"}`, http.StatusBadRequest, nil},
		{"q?if_version=3", "", http.StatusBadRequest, nil},
		{"q", `{`, http.StatusBadRequest, nil},
	} {
		var got *nornv1.SetQueueRequest
		b := &backend{registry: prometheus.NewRegistry(), call: func(_ context.Context, _ nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error, func()) {
			got = request.(*nornv1.SetQueueRequest)
			return &nornv1.QueuesReply{}, nil, func() {}
		}}
		var body io.Reader
		if c.body != "" {
			body = strings.NewReader(c.body)
		}
		r := localRequest(http.MethodDelete, "/api/v1/queues/"+c.at, body)
		if c.body != "" || c.code != http.StatusOK {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		NewServer(b, Options{}).Handler.ServeHTTP(w, r)
		if w.Code != c.code || !gproto.Equal(got, c.want) {
			t.Errorf("DELETE %s %s: %d %s, called with %v", c.at, c.body, w.Code, w.Body, got)
		}
	}
}
