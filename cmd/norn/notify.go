package main

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// notifier tells a service manager how this process is, as sd_notify(3) says: a
// datagram to the socket that the environment names. Without one it does nothing.
type notifier struct {
	conn  net.Conn
	every time.Duration // of signs of life; 0: none are wanted
}

func newNotifier(environ []string) *notifier {
	env := func(name string) (text string) {
		for _, v := range environ {
			if n, t, ok := strings.Cut(v, "="); ok && n == name {
				text = t
			}
		}
		return text
	}
	n := &notifier{}
	path := env("NOTIFY_SOCKET")
	if path == "" {
		return n
	}
	// Go writes the zero byte of an abstract name for the @ itself.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return n // a manager that is gone cannot be told anything
	}
	n.conn = conn
	pid := env("WATCHDOG_PID")
	if us, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.every = time.Duration(us) * time.Microsecond / 2 // as sd_watchdog_enabled(3) advises
	}
	return n
}

// tell sends assignments such as READY=1.
func (n *notifier) tell(assignments ...string) {
	if n.conn != nil {
		_, _ = n.conn.Write([]byte(strings.Join(assignments, "\n"))) // nobody is there to be told
	}
}

// live gives signs of life until ctx ends.
func (n *notifier) live(ctx context.Context, running *sync.WaitGroup) {
	if n.conn == nil || n.every <= 0 {
		return
	}
	running.Go(func() {
		t := time.NewTicker(n.every)
		defer t.Stop()
		for {
			n.tell("WATCHDOG=1")
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

func (n *notifier) close() {
	if n.conn != nil {
		_ = n.conn.Close()
	}
}
