package tasks

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
)

// TestClaimWithin: what no server waits for in one piece is asked for in several.
func TestClaimWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		empty := func(r client.ClaimRequest) ([]*client.Claim, error) {
			waits = append(waits, r.Wait)
			<-time.After(r.Wait)
			return nil, nil
		}
		got, err := claimWithin(client.ClaimRequest{Wait: 11 * time.Minute}, empty)
		if got != nil || err != nil || !slices.Equal(waits, []time.Duration{5 * time.Minute, 5 * time.Minute, time.Minute}) {
			t.Errorf("%v, %v after waits of %v", got, err, waits)
		}
		waits = nil
		if _, err := claimWithin(client.ClaimRequest{}, empty); err != nil || !slices.Equal(waits, []time.Duration{0}) {
			t.Errorf("without a wait: %v, %v", waits, err)
		}
		lost := errors.New("lost")
		if _, err := claimWithin(client.ClaimRequest{Wait: time.Hour}, func(client.ClaimRequest) ([]*client.Claim, error) { return nil, lost }); !errors.Is(err, lost) {
			t.Errorf("got %v", err)
		}
	})
}
