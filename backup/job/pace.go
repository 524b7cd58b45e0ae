package job

import (
	"context"
	"sync"
	"time"
)

// pace bounds bytes a second.
type pace struct {
	rate int64

	mu   sync.Mutex // guards free
	free time.Time  // when the next bytes may come
}

func newPace(rate int64) *pace { return &pace{rate: rate} }

// spend waits until so many bytes more are within the rate.
func (p *pace) spend(ctx context.Context, bytes int) error {
	if p.rate <= 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(int64(bytes) * int64(time.Second) / p.rate))
	wait := p.free.Sub(now)
	p.mu.Unlock()
	return sleep(ctx, wait)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
