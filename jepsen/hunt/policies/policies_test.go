package policies

import (
	"reflect"
	"testing"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/policy"
)

// TestEachRuleHasItsMistake: each rule of a policy is left out by one mistake, which has its
// name, and by no other; of most mistakes the machines know nothing.
func TestEachRuleHasItsMistake(t *testing.T) {
	left := map[string]int{}
	for m := range rules { // Any order: each is for itself.
		p := Of(m)
		v, out := reflect.ValueOf(p), 0
		for i := range v.NumField() {
			for k := range v.Field(i).NumField() {
				if v.Field(i).Field(k).Bool() {
					left[v.Type().Field(i).Name+"."+v.Field(i).Type().Field(k).Name]++
					out++
				}
			}
		}
		if out != 1 {
			t.Errorf("%v leaves out %d rules", m, out)
		}
	}
	all := reflect.TypeFor[policy.Policy]()
	for i := range all.NumField() {
		for k := range all.Field(i).Type.NumField() {
			if name := all.Field(i).Name + "." + all.Field(i).Type.Field(k).Name; left[name] != 1 {
				t.Errorf("%s is left out by %d mistakes", name, left[name])
			}
		}
	}
	if Of(mutant.FsyncRetried) != (policy.Policy{}) || !mutant.Built && Chosen() != (policy.Policy{}) {
		t.Error("a rule is left out that nobody has asked for")
	}
}
