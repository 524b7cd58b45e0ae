package gossip

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/register"
)

// TestDescriptionsReadBack: what a node tells of itself is what others read, or
// it is refused where it starts.
func TestDescriptionsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 200, 300)
		want := Peer{Address: rapid.StringN(1, 200, 300).Draw(t, "address"), Client: text.Draw(t, "client"), Zone: text.Draw(t, "zone")}
		want.Member.Node = rapid.StringN(1, 200, 300).Draw(t, "node")
		copy(want.Member.Incarnation[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "incarnation"))

		meta, err := appendMeta(nil, want)
		long := func(s string) bool { return len(s) > maxText || !utf8.ValidString(s) }
		if err != nil {
			if !errors.Is(err, ErrMeta) || !long(want.Address) && !long(want.Client) && !long(want.Zone) && len(want.Address)+len(want.Client)+len(want.Zone) < maxMeta-7 {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		got, err := parsePeer(memberName(want.Member), meta)
		if len(want.Member.Node) > maxText {
			if !errors.Is(err, ErrMeta) {
				t.Fatalf("a name of %d bytes passes", len(want.Member.Node))
			}
			return
		}
		if err != nil || got != want {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		// A later version adds fields at the end.
		if got, err := parsePeer(memberName(want.Member), append(meta[:len(meta):len(meta)], "more"...)); len(meta)+4 <= maxMeta && (err != nil || got != want) {
			t.Fatalf("with more at the end: %+v, %v", got, err)
		}
		for i := range meta {
			if _, err := parsePeer(memberName(want.Member), meta[:i]); !errors.Is(err, ErrMeta) {
				t.Fatalf("%d of %d bytes pass", i, len(meta))
			}
		}
	})
}

func TestNames(t *testing.T) {
	m := register.Member{Node: "a#b", Incarnation: register.Incarnation{0xab}}
	if got := memberName(m); got != "a#b#ab000000000000000000000000000000" {
		t.Errorf("got %s", got)
	}
	for _, bad := range []string{"", "a", "#ab000000000000000000000000000000", "a#ab", "a#AB000000000000000000000000000000", "a#xx000000000000000000000000000000", "\xff#ab000000000000000000000000000000"} {
		if m, err := parseName(bad); !errors.Is(err, ErrMeta) {
			t.Errorf("%q is read as %v", bad, m)
		}
	}
}

func FuzzDescription(f *testing.F) {
	good, err := appendMeta(nil, Peer{Address: "a:1", Client: "b:2", Zone: "c"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("n#ab000000000000000000000000000000", good)
	f.Add("n#ab000000000000000000000000000000", []byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add("n", []byte{2})
	f.Add("", []byte{})
	f.Fuzz(func(t *testing.T, name string, meta []byte) {
		p, err := parsePeer(name, meta)
		if err != nil {
			if !errors.Is(err, ErrMeta) || p != (Peer{}) {
				t.Fatalf("%+v, %v", p, err)
			}
			return
		}
		again, err := appendMeta(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := parsePeer(memberName(p.Member), again); err != nil || q != p {
			t.Fatalf("%+v is read again as %+v, %v", p, q, err)
		}
	})
}

func TestParseKeys(t *testing.T) {
	a, b := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)
	line := base64.StdEncoding.EncodeToString
	keys, err := ParseKeys("# new\n\n " + line(b) + " # since May\r\n" + line(a))
	if err != nil || len(keys) != 2 || !bytes.Equal(keys[0], b) || !bytes.Equal(keys[1], a) {
		t.Errorf("got %v, %v", keys, err)
	}
	for text, want := range map[string]string{
		"": "0 keys", "# none\n": "0 keys", line(a) + "\nsecret": "line 2", line(a[:15]): "line 1",
		strings.Repeat(line(a)+"\n", 9): "9 keys",
	} {
		if _, err := ParseKeys(text); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestTheAddressThatTheSocketHears: the name of a machine with both families leads to IPv6 first.
// A peer port that is bound to an IPv4 address was advertised there: the others heard of the
// node by TCP, found it dead, and heard of it again.
func TestTheAddressThatTheSocketHears(t *testing.T) {
	for _, c := range []struct{ bound, found, want string }{
		{"127.0.0.1:1", "[::1]:7 127.0.0.1:7", "127.0.0.1:7"},
		{"[::1]:1", "127.0.0.1:7 [::1]:7", "[::1]:7"},
		{"10.0.0.5:1", "10.0.0.4:7 10.0.0.5:7", "10.0.0.5:7"},
		{"10.0.0.5:1", "[2001:db8::1]:7 192.0.2.1:7 192.0.2.2:7", "192.0.2.1:7"}, // translated on the way
		{"10.0.0.5:1", "[2001:db8::1]:7", "[2001:db8::1]:7"},
		{"[::]:1", "192.0.2.1:7 [2001:db8::1]:7", "192.0.2.1:7"},
	} {
		var found []netip.AddrPort
		for _, a := range strings.Fields(c.found) {
			found = append(found, netip.MustParseAddrPort(a))
		}
		if got := nearest(found, netip.MustParseAddrPort(c.bound)); got.String() != c.want {
			t.Errorf("of %s, bound to %s: %s, not %s", c.found, c.bound, got, c.want)
		}
	}
}
