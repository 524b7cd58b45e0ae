package core

import (
	"strings"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestAWriteThatNobodyElseCanKeep: a node that knows itself out of reach of too many
// others says soon that it cannot tell, so that somebody else can be asked; with enough
// of them in reach it waits for the one that is slow.
func TestAWriteThatNobodyElseCanKeep(t *testing.T) {
	for name, cut := range map[string][]int{"one in reach": {2}, "none": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			for _, i := range cut {
				r.cut[[2]int{i, 0}], r.cut[[2]int{0, i}] = true, true
			}
			slow := func(l letter) bool { return l.from == 1 && l.to == 0 }
			r.tell()
			r.settleBut(slow)
			from := r.enqueue(0, r.in(0), nil)
			r.live(time.Second, 100*time.Millisecond, slow)
			res := r.result(0, from)
			if len(cut) == 1 {
				if res != nil {
					t.Errorf("with one in reach that has not answered: %v", res)
				}
				return
			}
			if e := res.GetError(); e.GetEffect() != nornv1.Effect_EFFECT_UNKNOWN || !strings.Contains(e.GetMessage(), "in reach") {
				t.Errorf("with nobody in reach: %v", res)
			}
		})
	}
}
