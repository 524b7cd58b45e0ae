package view

import (
	"maps"
	"slices"
	"strings"

	"github.com/norn-dev/norn/register"
)

// CohortKey names a cohort, for maps.
func CohortKey(cohort []register.Member) string {
	var b strings.Builder
	for _, m := range cohort {
		b.WriteString(m.Node)
		b.Write(m.Incarnation[:])
	}
	return b.String()
}

// MembersOf are the keys of a map in order.
func MembersOf[V any](m map[register.Member]V) []register.Member {
	return slices.SortedFunc(maps.Keys(m), register.Member.Compare)
}
