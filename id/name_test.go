package id

import (
	"testing"

	"pgregory.net/rapid"
)

// The names of launches and keys are a promise to every SDK and to clusters
// that live through an upgrade: these values never change.
func TestNamesAreStable(t *testing.T) {
	cluster, schedule := [16]byte{1, 2, 3}, [16]byte{4, 5, 6}
	for _, c := range []struct {
		name string
		got  ID
		want string
	}{
		{"launch", Launch(cluster, schedule, someWall), "3Jdnq4arA0TzRRFNRS30NA7ldwv"},
		{"key with a window", UniqueKey(cluster, "mail", "user-7", someWall, 0), "3Jdnq4arA0UrDujN0vELIV02tFE"},
		{"key without a window", UniqueKey(cluster, "mail", "user-7", 0, 3), "00000000004aOQdxfoDFfl12aLr"},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestLaunchSaysItsInstant(t *testing.T) {
	i := Launch([16]byte{1}, [16]byte{2}, someWall)
	if i.Nanos() != someWall || i.Kind() != KindLaunch {
		t.Errorf("%d of kind %d", i.Nanos(), i.Kind())
	}
	if again := Launch([16]byte{1}, [16]byte{2}, someWall); again != i {
		t.Errorf("the same launch is %s and %s", i, again)
	}
}

func TestKeySaysItsWindow(t *testing.T) {
	i := UniqueKey([16]byte{1}, "q", "k", someWall, 0)
	if i.Nanos() != someWall || i.Kind() != KindKey {
		t.Errorf("%d of kind %d", i.Nanos(), i.Kind())
	}
	if again := UniqueKey([16]byte{1}, "q", "k", someWall, 8); again != i {
		t.Error("with a window the key is taken once, whatever the generation")
	}
	if i := UniqueKey([16]byte{1}, "q", "k", 0, 8); i.Nanos() != firstNanos {
		t.Errorf("without a window the time is %d", i.Nanos())
	}
}

func TestDifferentNamesDiffer(t *testing.T) {
	type name struct {
		cluster, schedule byte
		queue, key        string
		window            int64
		generation        uint64
	}
	// A small domain, so that fields flow into each other unless they are kept
	// apart: ("ab", "c") and ("a", "bc").
	text := rapid.SampledFrom([]string{"", "a", "b", "ab", "ba", "aab", "\x00", "\x00a"})
	draw := rapid.Custom(func(t *rapid.T) name {
		n := name{
			cluster: rapid.ByteRange(0, 1).Draw(t, "cluster"), schedule: rapid.ByteRange(0, 1).Draw(t, "schedule"),
			queue: text.Draw(t, "queue"), key: text.Draw(t, "key"),
			window: rapid.Int64Range(0, 2).Draw(t, "window"),
		}
		if n.window == 0 {
			n.generation = rapid.Uint64Range(0, 2).Draw(t, "generation")
		}
		return n
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		key := func(n name) ID { return UniqueKey([16]byte{n.cluster}, n.queue, n.key, n.window, n.generation) }
		launch := func(n name) ID { return Launch([16]byte{n.cluster}, [16]byte{n.schedule}, n.window) }
		keyA, keyB := a, b
		keyA.schedule, keyB.schedule = 0, 0
		if (key(a) == key(b)) != (keyA == keyB) {
			t.Fatalf("keys %+v and %+v: %s and %s", a, b, key(a), key(b))
		}
		same := a.cluster == b.cluster && a.schedule == b.schedule && a.window == b.window
		if (launch(a) == launch(b)) != same {
			t.Fatalf("launches %+v and %+v: %s and %s", a, b, launch(a), launch(b))
		}
		if key(a) == launch(b) {
			t.Fatal("a key is a launch")
		}
	})
}
