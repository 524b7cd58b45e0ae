package daemonlog

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a writer that fails, or that takes its time, as a test says.
type gate struct {
	bytes.Buffer
	err  error
	hold chan struct{} // nil: nothing is held up
}

func (g *gate) Write(b []byte) (int, error) {
	if g.hold != nil {
		<-g.hold
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.Buffer.Write(b)
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if n, err := io.WriteString(w, text); n != len(text) || err != nil {
		t.Errorf("writing %q gives %d, %v", text, n, err)
	}
}

// TestLostLinesAreCounted, and told of when a line is taken again.
func TestLostLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &gate{}
		var heard []uint64
		w := New(to, func(lines uint64) { heard = append(heard, lines) })
		write(t, w, "first\n")
		to.err = errors.New("broken pipe")
		write(t, w, "second\n")
		write(t, w, "third\nfourth\n")
		write(t, w, "a part of a line")
		if w.Lost() != 4 {
			t.Errorf("%d lines are lost, want 4", w.Lost())
		}
		to.err = nil
		write(t, w, "last\n")
		write(t, w, "very last\n")
		synctest.Wait()
		if len(heard) != 1 || heard[0] != 4 || to.String() != "first\nlast\nvery last\n" {
			t.Errorf("heard %v, and there is %q", heard, to)
		}
	})
}

// TestNobodyReads: a reader that is stopped holds the daemon up for a second, once, and
// what was on its way then is not lost.
func TestNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &gate{hold: make(chan struct{})}
		w := New(to, nil)
		began := time.Now()
		for range 100 {
			write(t, w, "line\n")
		}
		if took := time.Since(began); took != Patience || w.Lost() != 99 {
			t.Errorf("it took %v, and %d lines are lost", took, w.Lost())
		}
		close(to.hold)
		synctest.Wait()
		write(t, w, "last\n")
		if to.String() != "line\nlast\n" || w.Lost() != 99 {
			t.Errorf("there is %q, and %d lines are lost", to, w.Lost())
		}
	})
}
