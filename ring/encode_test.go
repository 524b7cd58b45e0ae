package ring

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestPlanRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := begin(t, 20, 64).plan
		b := p.AppendTo([]byte("before"))
		q, err := DecodePlan(b[len("before"):])
		if err != nil || !q.Equal(p) {
			t.Fatalf("%v, or it is another plan", err)
		}
		if at := rapid.IntRange(len("before"), len(b)-1).Draw(t, "cut"); at < len(b) {
			if _, err := DecodePlan(b[len("before"):at]); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%d of %d bytes: %v", at, len(b), err)
			}
		}
	})
}

func TestPlanSize(t *testing.T) {
	for _, c := range []struct{ nodes, partitions, replicas, want int }{
		{3, 64, 3, 6 + 3*25 + 192}, {200, 4096, 3, 17_294}, {256, 4096, 3, 6 + 256*25 + 12_288}, {257, 4096, 3, 6 + 257*25 + 24_576},
	} {
		p := place(t, Plan{}, some(c.nodes, 3), c.partitions, c.replicas)
		b := p.AppendTo(nil)
		q, err := DecodePlan(b)
		if len(b) != c.want || err != nil || !q.Equal(p) {
			t.Errorf("%v: %d bytes, want %d; %v", c, len(b), c.want, err)
		}
	}
	if b := (Plan{}).AppendTo(nil); len(b) != 6 {
		t.Errorf("an empty plan has %d bytes", len(b))
	}
}

// stored is a plan of two partitions with two replicas on three members, byte
// by byte: stores that exist hold it.
func stored() []byte {
	b := []byte{1, 0, 2, 2, 0, 3}
	for _, name := range []string{"a", "b", "bb"} {
		b = append(b, byte(len(name)))
		b = append(b, name...)
		b = append(b, bytes.Repeat([]byte{7}, 16)...)
	}
	return append(b, 2, 0, 0, 1)
}

func TestPlanBytesAreStable(t *testing.T) {
	p, err := DecodePlan(stored())
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for q := range p.Partitions() {
		for _, m := range p.Cohort(Partition(q)) {
			text += fmt.Sprint(m.Name, m.Key[0], " ")
		}
		text += "; "
	}
	if want := "bb7 a7 ; a7 b7 ; "; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

func TestDecodePlanRefuses(t *testing.T) {
	for name, change := range map[string]func(b []byte) []byte{
		"nothing":               func([]byte) []byte { return nil },
		"another version":       func(b []byte) []byte { b[0] = 2; return b },
		"too many partitions":   func(b []byte) []byte { b[1] = 255; return b },
		"no replicas":           func(b []byte) []byte { b[3] = 0; return b },
		"more than members":     func(b []byte) []byte { b[3] = 4; return b },
		"no members":            func(b []byte) []byte { b[5] = 0; return b },
		"too many members":      func(b []byte) []byte { b[4] = 255; return b },
		"no name":               func(b []byte) []byte { b[6] = 0; return b },
		"members out of order":  func(b []byte) []byte { b[7] = 'c'; return b },
		"member named twice":    func(b []byte) []byte { b[7] = 'b'; return b },
		"twice in a cohort":     func(b []byte) []byte { b[len(b)-1] = 0; return b },
		"no such member":        func(b []byte) []byte { b[len(b)-1] = 3; return b },
		"member holds nothing":  func(b []byte) []byte { b[len(b)-1] = 2; return b },
		"bytes after the end":   func(b []byte) []byte { return append(b, 0) },
		"empty plan, and bytes": func([]byte) []byte { return []byte{1, 0, 0, 0, 0, 0, 9} },
		"partitions of nobody":  func([]byte) []byte { return []byte{1, 0, 1, 0, 0, 0} },
		"cohort out of order": func(b []byte) []byte {
			b = append(b[:len(b)-4], 2, 1, 0, 0, 1, 2) // as one of three replicas each
			b[3] = 3
			return b
		},
	} {
		if p, err := DecodePlan(change(stored())); !errors.Is(err, ErrMalformed) || p.Partitions() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodePlan(f *testing.F) {
	f.Add(stored())
	f.Add((Plan{}).AppendTo(nil))
	if p, err := Place(Plan{}, some(257, 3), 128, 3); err == nil {
		f.Add(p.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePlan(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		if !bytes.Equal(p.AppendTo(nil), b) {
			t.Fatalf("%x encodes to %x", b, p.AppendTo(nil))
		}
		if p.Partitions() == 0 {
			return
		}
		// Whatever is decoded can be placed on from.
		nodes := []Node{node("new", "", 1)}
		for _, m := range p.Members() {
			nodes = append(nodes, Node{Member: m, Weight: 1})
		}
		if nodes[0].Member == p.members[0] || len(nodes) > 50 {
			return
		}
		if q, err := Place(p, nodes, p.Partitions(), p.Replicas()); err == nil {
			judge(t, q, nodes, p.Partitions(), p.Replicas())
		} else if !errors.Is(err, ErrMember) {
			t.Fatal(err)
		}
	})
}
