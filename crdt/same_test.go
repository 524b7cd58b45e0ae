package crdt

import "testing"

func TestSameContent(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b content
		want bool
	}{
		{"update at another time", Update{Token: 1, Data: []byte("d"), At: 1}, Update{Token: 1, Data: []byte("d"), At: 2}, true},
		{"update with other data", Update{Token: 1, Data: []byte("d")}, Update{Token: 1, Data: []byte("e")}, false},
		{"update that is output", Update{Token: 1, Output: true}, Update{Token: 1}, false},
		{"completed at another time", Completed{Token: 1, Seq: 2, Result: []byte("r"), At: 1}, Completed{Token: 1, Seq: 2, Result: []byte("r"), At: 2}, true},
		{"completed after another update", Completed{Token: 1, Seq: 2}, Completed{Token: 1, Seq: 3}, false},
		{"completed with another result", Completed{Token: 1, Result: []byte("r")}, Completed{Token: 1}, false},
		{"cancelled at another time", Cancelled{At: 1, Reason: "r"}, Cancelled{At: 2, Reason: "r"}, true},
		{"cancelled for another reason", Cancelled{Reason: "r"}, Cancelled{Reason: "s"}, false},
		{"update with further fields", Update{Token: 1, Further: []byte{0x60, 1}}, Update{Token: 1}, false},
		{"completed with other further fields", Completed{Token: 1, Further: []byte{0x60, 1}}, Completed{Token: 1, Further: []byte{0x60, 2}}, false},
		{"completed at another time, with the same", Completed{Token: 1, At: 1, Further: []byte{0x60, 1}}, Completed{Token: 1, Further: []byte{0x60, 1}}, true},
		{"cancelled with further fields", Cancelled{Further: []byte{0x60, 1}}, Cancelled{}, false},
		{"a leader's fact at another time", Dead{At: 1}, Dead{At: 2}, false},
		{"a leader's fact again", Dead{At: 1}, Dead{At: 1}, true},
	} {
		if got := SameContent(c.a.key().Kind, c.a.AppendTo(nil), c.b.AppendTo(nil)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, k := range []Kind{KindUpdate, KindCompleted, KindCancelled} {
		if SameContent(k, nil, nil) {
			t.Errorf("kind %d: two broken bodies say the same", k)
		}
	}
}
