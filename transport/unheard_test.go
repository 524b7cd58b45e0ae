package transport

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnheard: who has said nothing about itself yet, though it has sent a frame, has no more
// time than others, and gives way like them.
func TestUnheard(t *testing.T) {
	for name, tt := range map[string]struct {
		more, crowd bool
		want        error
		after       time.Duration
	}{
		"silent":     {want: ErrHelloTimeout, after: 10 * time.Second},
		"gives way":  {crowd: true, want: ErrTooManyConns, after: 5 * time.Second},
		"says hello": {more: true, crowd: true, after: time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &handler{handle: func(c *Conn, f Frame) {
				if f.Method == 1 {
					c.Unheard()
				}
				echoFrame(c, f)
			}}
			_, ln := serve(t, Config{HelloTimeout: 10 * time.Second, MaxConns: 1}, h)
			nc := rawTo(t, ln)
			began := time.Now()
			send(t, nc, Frame{Request: 1, Method: 1})
			receive(t, nc)
			time.Sleep(4 * time.Second)
			if tt.more {
				send(t, nc, Frame{Request: 2, Method: 2})
				receive(t, nc)
			}
			time.Sleep(time.Second)
			if tt.crowd {
				rawTo(t, ln)
			}
			go func() {
				time.Sleep(time.Hour)
				nc.Close()
			}()
			_, err := readOne(nc)
			if took := time.Since(began).Round(time.Second); err == nil || took < tt.after || took > tt.after+5*time.Second {
				t.Errorf("%s: ended after %v: %v", name, took, err)
			}
			synctest.Wait()
			if r := h.reasons(); tt.want != nil && (len(r) != 1 || !errors.Is(r[0], tt.want)) {
				t.Errorf("%s: closed with %v", name, r)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}
