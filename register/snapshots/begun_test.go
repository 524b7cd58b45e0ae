package snapshots_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/snapshots"
	"github.com/norn-dev/norn/register/wire"
)

// TestBegun: a node's own notes count, the last of them, also below those of others; and one
// that cannot be read now is no answer.
func TestBegun(t *testing.T) {
	to, _ := place(t)
	h := save(t, to, state(5), 5)
	other := register.Member{Node: "n2"}
	for i, who := range []register.Member{other, self, self, other} {
		if g, err := snapshots.Begin(t.Context(), to, &h, who, false, at); err != nil || g != uint64(i+1) {
			t.Fatal(g, err)
		}
	}
	for node, want := range map[string]uint64{"n1": 3, "n2": 4, "n3": 0} {
		g, when, err := snapshots.Begun(t.Context(), to, h.Cluster, node)
		if err != nil || g != want || want > 0 && !when.Equal(at) {
			t.Errorf("%s has begun generation %d at %v, %v; want %d", node, g, when, err, want)
		}
	}
	if g, _, err := snapshots.Begun(t.Context(), failing{to, "get"}, h.Cluster, "n1"); !errors.Is(err, errPlace) {
		t.Errorf("while nothing can be read: generation %d, %v", g, err)
	}
}

var errPlace = errors.New("the place is out of reach")

// failing is a place in which one kind of call fails.
type failing struct {
	objects.Store
	what string
}

func (f failing) Get(ctx context.Context, name string) ([]byte, error) {
	if f.what == "get" {
		return nil, errPlace
	}
	return f.Store.Get(ctx, name)
}

func (f failing) Create(context.Context, string, []byte) error { return errPlace }

// List names one more, which is deleted before it is read.
func (f failing) List(ctx context.Context, prefix string) ([]objects.Info, error) {
	all, err := f.Store.List(ctx, prefix)
	if f.what == "gone" {
		h, _, _ := snapshots.Encode(state(99), at, "n1")
		all = append(all, objects.Info{Name: h.Name()})
	}
	return all, err
}

// TestAGenerationThatCannotBeNoted is not taken, nor is another one instead.
func TestAGenerationThatCannotBeNoted(t *testing.T) {
	to, _ := place(t)
	h := save(t, to, state(5), 5)
	if g, err := snapshots.Begin(t.Context(), failing{Store: to}, &h, self, false, at); !errors.Is(err, errPlace) {
		t.Errorf("generation %d, %v", g, err)
	}
}

// TestTheNewestIsDeletedMeanwhile: the one before it is taken, and it is said. What is only
// out of reach is no reason to take an older one.
func TestTheNewestIsDeletedMeanwhile(t *testing.T) {
	to, _ := place(t)
	save(t, to, state(5), 5)
	s, passed, err := snapshots.Latest(t.Context(), failing{to, "gone"}, "")
	if err != nil || s.Revision != 5 || len(passed) != 1 || !errors.Is(passed[0], objects.ErrNotFound) {
		t.Errorf("revision %d, %v, %v", s.Revision, passed, err)
	}
	if s, _, err := snapshots.Latest(t.Context(), failing{to, "get"}, ""); !errors.Is(err, errPlace) {
		t.Errorf("revision %d, %v", s.Revision, err)
	}
}

// TestAHeaderOfAnotherState is found though the checksum is right, and so is a state that
// goes on behind its end.
func TestAHeaderOfAnotherState(t *testing.T) {
	_, b := encode(t, state(12), at)
	body := b[:len(b)-sha256.Size]
	for from, to := range map[string]string{
		`"revision":12`:  `"revision":13`,
		`"generation":0`: `"generation":1`,
		`"cluster":"07`:  `"cluster":"08`,
		`"state_bytes":`: `"state_bytes":1`,
	} {
		if bytes.Count(body, []byte(from)) != 1 {
			t.Fatalf("no %s in %q", from, body)
		}
		changed := bytes.Replace(body, []byte(from), []byte(to), 1)
		sum := sha256.Sum256(changed)
		if s, err := snapshots.Decode(append(changed, sum[:]...)); !errors.Is(err, snapshots.ErrDamaged) {
			t.Errorf("%s: revision %d, %v", to, s.Revision, err)
		}
	}
	s, err := snapshots.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	var w wire.Writer
	register.AppendState(&w, &s.State)
	if _, _, err := snapshots.Pack(append(w.B, 0), at, "n1"); !errors.Is(err, snapshots.ErrVersion) {
		t.Errorf("one byte too many: %v", err)
	}
}
