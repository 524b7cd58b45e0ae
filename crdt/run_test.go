package crdt

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// TestARunStandsAmongFurtherFields: it is found there, the client's fields stay as they are,
// the whole is canonical, and neither a second one nor one that a client has sent stays.
func TestARunStandsAmongFurtherFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		client := drawFurther(t)
		want := Run{Worker: drawText(t, "worker"), Start: drawTime(t, "start"), Principal: drawText(t, "principal"), Completer: drawText(t, "completer")}
		all := AppendRun(nil, AppendRun(nil, client, Run{Worker: "another"}), want)
		if got, ok := RunOf(all); !ok || got != want {
			t.Fatalf("%+v (%v), want %+v", got, ok, want)
		}
		if got := WithoutRun(all); !bytes.Equal(got, WithoutRun(client)) {
			t.Fatalf("the client's fields %x became %x", client, got)
		}
		canonical, err := Further(all)
		if err != nil || !bytes.Equal(canonical, all) {
			t.Fatalf("%x is not canonical: %x, %v", all, canonical, err)
		}
		for _, f := range []Fact{
			Failed{Token: 1, Further: all}.Fact(someTask()), Expired{Token: 1, Further: all}.Fact(someTask()), Completed{Token: 1, Further: all}.Fact(someTask()),
		} {
			if err := f.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestWhoHadTheClaimIsNoContent: a retry through a node that does not know who had the claim
// says the same.
func TestWhoHadTheClaimIsNoContent(t *testing.T) {
	run := AppendRun(nil, nil, Run{Worker: "w", Start: 7, Principal: "ci", Completer: "ann"})
	for kind, bodies := range map[Kind][2][]byte{
		KindCompleted: {Completed{Token: 1}.Encode(), Completed{Token: 1, Further: run}.Encode()},
		KindFailed:    {Failed{Token: 1}.Encode(), Failed{Token: 1, Further: run}.Encode()},
		KindExpired:   {Expired{Token: 1}.Encode(), Expired{Token: 1, Further: run}.Encode()},
	} {
		if !SameContent(kind, bodies[0], bodies[1]) {
			t.Errorf("kind %d: the two say the same", kind)
		}
	}
}

// TestAnExpiryOfBeforeIsRead: it has no further fields, and its body is what it was; one with
// them is of a version that older builds say they do not know.
func TestAnExpiryOfBeforeIsRead(t *testing.T) {
	old := []byte{version, 3, 9}
	if e, err := DecodeExpired(old); err != nil || e.Token != 3 || e.At != 9 || !bytes.Equal(e.Encode(), old) {
		t.Errorf("%+v, %v", e, err)
	}
	with := Expired{Token: 3, At: 9, Further: AppendRun(nil, nil, Run{Start: 1})}.Encode()
	if r := read(with); !errors.Is(r.err, ErrUnknown) {
		t.Errorf("an older build says %v", r.err)
	}
	for _, b := range [][]byte{{furtherVersion, 3, 9}, append(bytes.Clone(old), 2, 8, 1)} {
		if _, err := DecodeExpired(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", b, err)
		}
	}
}
