package repair

import (
	"testing"

	"github.com/norn-dev/norn/antientropy"
)

// TestPagesOfACopyDoNotWaitForTheDisk: a question, or facts and nothing else, may
// leave before the sync of the round; what says that something is here may not.
func TestPagesOfACopyDoNotWaitForTheDisk(t *testing.T) {
	for _, c := range []struct {
		m    antientropy.Message
		soon bool
	}{
		{antientropy.Message{Kind: antientropy.KindHello}, false},
		{antientropy.Message{Kind: antientropy.KindWelcome}, false},
		{antientropy.Message{Kind: antientropy.KindRefusal}, false},
		{antientropy.Message{Kind: antientropy.KindRequest, Wants: make([]antientropy.Want, 1)}, true},
		{antientropy.Message{Kind: antientropy.KindRequest, Asks: make([]antientropy.Ask, 1)}, true},
		{antientropy.Message{Kind: antientropy.KindAnswer, Done: 1}, true},
		{antientropy.Message{Kind: antientropy.KindAnswer, Splits: make([]antientropy.Split, 1)}, false},
		{antientropy.Message{Kind: antientropy.KindAnswer, New: 1, Done: 1}, false},
	} {
		if promisesNothing(&c.m) != c.soon {
			t.Errorf("%s: leaves before the sync: %v", c.m.String(), !c.soon)
		}
	}
}
