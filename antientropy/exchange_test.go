package antientropy

import (
	"testing"

	"pgregory.net/rapid"
)

// tiny makes every bound of an exchange bite.
func drawConfig(t *rapid.T) Config {
	c := Config{
		PageBytes: rapid.SampledFrom([]int{1, 300, 0}).Draw(t, "page"),
		ScanFacts: rapid.SampledFrom([]int{1, 7, 0}).Draw(t, "scan"),
	}
	if rapid.Bool().Draw(t, "limited") {
		c.Timeout = 1e18 // a slow answer is no lost one
		c.Bucket = NewBucket(rapid.Int64Range(1, 1e6).Draw(t, "rate"), rapid.Int64Range(1, 1e4).Draw(t, "burst"))
	}
	return c
}

// Without writes one round is enough: both hold the union.
func TestRoundGivesUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newReplica(), newReplica()
		union := newReplica()
		crowds := rapid.SampledFrom([]int{5, 60, 400}).Draw(t, "most")
		for _, f := range rapid.SliceOfN(rapid.Custom(drawFact), 0, crowds).Draw(t, "facts") {
			where := rapid.IntRange(0, 4).Draw(t, "where")
			if where != 0 {
				a.put(f)
			}
			if where != 1 {
				b.put(f)
			}
			union.put(f)
		}
		a.commit()
		b.commit()
		l := newLink(a, b, drawConfig(t))
		r := l.round(t)
		if r.Err != nil || len(r.Suspects) > 0 {
			t.Fatalf("%+v", r)
		}
		l.wantEqual(t)
		if !same(a.all(), union.all()) {
			t.Fatal("not the union")
		}
		if again := l.round(t); !again.Equal || again.Moved > 0 {
			t.Fatalf("again: %+v", again)
		}
	})
}
