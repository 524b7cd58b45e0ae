package objectstest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
)

// The credentials that the server knows, and its bucket.
const (
	AccessKey = "norn-test"
	SecretKey = "norn-test-secret"
	Bucket    = "backups"
)

// Server is a running server.
type Server struct {
	// URL is its endpoint.
	URL string
	// Status, when it is not 0, answers every request.
	Status atomic.Int32
	// Unconditional has it answer conditional writes as a store that does not
	// know them.
	Unconditional atomic.Bool
}

// Serve starts a server that ends with the test. It has an empty bucket.
func Serve(t testing.TB) *Server {
	t.Helper()
	memory := s3mem.New()
	if err := memory.CreateBucket(context.Background(), Bucket); err != nil {
		t.Fatal(err)
	}
	s3 := gofakes3.New(memory, gofakes3.WithV4Auth(map[string]string{AccessKey: SecretKey})).Server()
	s := &Server{}
	var puts sync.Mutex // the store in memory looks for an object and puts it in two steps
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := int(s.Status.Load())
		if s.Unconditional.Load() && r.Method == http.MethodPut && r.Header.Get("If-None-Match") != "" {
			status = http.StatusNotImplemented
		}
		if status != 0 {
			w.WriteHeader(status)
			return
		}
		if r.Method == http.MethodPut {
			puts.Lock()
			defer puts.Unlock()
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Address is that of a place in the bucket.
func (s *Server) Address(prefix string) string {
	return "s3://" + Bucket + "/" + prefix + "?region=us-east-1&endpoint=" + s.URL
}

// Environ are the credentials as environment variables.
func Environ() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey}
}

// Login sets the credentials for the process of a test.
func Login(t testing.TB) {
	t.Setenv("AWS_ACCESS_KEY_ID", AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", SecretKey)
}
