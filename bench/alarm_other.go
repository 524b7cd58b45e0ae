//go:build !linux

package bench

import "time"

// alarm sleeps as well as the runtime can.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) sleep(d time.Duration) { time.Sleep(d) }

func (*alarm) stop() {}
