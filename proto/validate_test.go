package proto

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	for _, c := range []struct {
		in, want string
		most     int
	}{
		{"a\xffb", "a\uFFFDb", 10},
		{strings.Repeat("é", 10), "éé", 5},
		{"abc", "bc", 2},
		{"é", "", 1},
	} {
		if got := Tail(c.in, c.most); got != c.want {
			t.Errorf("the last %d bytes of %q are %q, want %q", c.most, c.in, got, c.want)
		}
	}
}

func TestSplitError(t *testing.T) {
	for _, c := range []struct{ in, message, stack string }{
		{"", "", ""},
		{"exit status 1: one\n\ntwo", "exit status 1: one\n\ntwo", ""},
		{"panic: a\nb\n\ngoroutine 7 [running]:\nmain.main()\n", "panic: a\nb", "goroutine 7 [running]:\nmain.main()\n"},
	} {
		if message, stack := SplitError(c.in); message != c.message || stack != c.stack {
			t.Errorf("%q: %q, %q", c.in, message, stack)
		}
	}
}
