package guard

import (
	"fmt"
	"math/bits"
	"strings"
)

// Verbs is a set of what can be allowed.
type Verbs uint16

// The verbs, one bit each.
const (
	Enqueue Verbs = 1 << iota
	Work
	See
	Read // payloads, results, errors and logs, which See leaves out
	Operate
	Schedule
	Control // of workers
	Cluster
	Access
	endOfVerbs

	None Verbs = 0
	All        = endOfVerbs - 1
)

var verbNames = [...]string{"enqueue", "work", "see", "read", "operate", "schedule", "control", "cluster", "access"}

// Each calls fn for each verb, in their order.
func (v Verbs) Each(fn func(Verbs)) {
	for b := Enqueue; b < endOfVerbs; b <<= 1 {
		if v&b != 0 {
			fn(b)
		}
	}
}

// String is the verbs joined by commas; all of them are a star.
func (v Verbs) String() string {
	if v == All {
		return "*"
	}
	var names []string
	v.Each(func(b Verbs) { names = append(names, verbNames[bits.TrailingZeros16(uint16(b))]) })
	return strings.Join(names, ",")
}

// ParseVerbs reads what [Verbs.String] wrote.
func ParseVerbs(text string) (v Verbs, err error) {
	if text == "*" {
		return All, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		b := None
		for i := range verbNames {
			if verbNames[i] == name {
				b = 1 << i
			}
		}
		if b == None {
			return None, fmt.Errorf("%.40q is no verb; they are %s", name, strings.Join(verbNames[:], ", "))
		}
		v |= b
	}
	return v, nil
}
