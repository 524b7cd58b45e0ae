package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Limits is what the machine allows whoever wants an acknowledgement to mean
// "on disk" and to travel over a socket.
type Limits struct {
	Sync      Limit // 4 KiB appended to a file, then fdatasync
	RoundTrip Limit // 64 bytes there and back over one connection on loopback
}

// Limit is how long something takes that is done again and again.
type Limit struct {
	P50, P99 time.Duration
	Rate     float64 // per second
}

// limitFor is how long each limit is measured, after a tenth of it for warming
// up.
const limitFor = time.Second

// MeasureLimits measures the machine, with a file in dir. It takes some two
// seconds and wants the machine for itself.
func MeasureLimits(ctx context.Context, dir string) (*Limits, error) {
	synced, err := syncLimit(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("bench: fdatasync: %w", err)
	}
	trip, err := roundTripLimit(ctx)
	if err != nil {
		return nil, fmt.Errorf("bench: loopback: %w", err)
	}
	return &Limits{Sync: synced, RoundTrip: trip}, nil
}

// repeat measures op, in nanoseconds.
func repeat(ctx context.Context, op func() error) (Limit, error) {
	h := hdrhistogram.New(1, time.Minute.Nanoseconds(), 3)
	began := time.Now()
	for warm := began.Add(limitFor / 10); time.Now().Before(warm); {
		if err := op(); err != nil {
			return Limit{}, err
		}
	}
	began = time.Now()
	for at := began; at.Sub(began) < limitFor; {
		if err := errors.Join(op(), ctx.Err()); err != nil {
			return Limit{}, err
		}
		now := time.Now()
		if err := h.RecordValue(max(1, now.Sub(at).Nanoseconds())); err != nil {
			return Limit{}, err
		}
		at = now
	}
	return Limit{
		P50: time.Duration(h.ValueAtQuantile(50)), P99: time.Duration(h.ValueAtQuantile(99)),
		Rate: float64(h.TotalCount()) / time.Since(began).Seconds(),
	}, nil
}

func syncLimit(ctx context.Context, dir string) (l Limit, err error) {
	f, err := os.CreateTemp(dir, "norn-bench-")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	page := make([]byte, 4096)
	return repeat(ctx, func() error {
		if _, err := f.Write(page); err != nil {
			return err
		}
		return fdatasync(f)
	})
}

func roundTripLimit(ctx context.Context) (l Limit, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return l, err
	}
	echoed := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}, make([]byte, 64))
			err = errors.Join(err, conn.Close())
		}
		echoed <- err
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return l, errors.Join(err, listener.Close(), <-echoed)
	}
	message := make([]byte, 64)
	l, err = repeat(ctx, func() error {
		if _, err := conn.Write(message); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, message)
		return err
	})
	return l, errors.Join(err, conn.Close(), listener.Close(), <-echoed)
}
