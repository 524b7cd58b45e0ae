package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"testing"
)

// TestEveryMachineIsWokenAndAudited: a machine with a deadline that [Core.wake] does not ask sleeps
// until something else happens, and what an audit does not ask nobody looks at. Neither shows.
func TestEveryMachineIsWokenAndAudited(t *testing.T) {
	text, err := os.ReadFile("core.go")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "core.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{}
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Recv != nil {
			bodies[f.Name.Name] = string(text[f.Body.Pos()-1 : f.Body.End()-1])
		}
	}
	asked := map[string]int{}
	for i := range reflect.TypeFor[Core]().NumField() {
		group := reflect.TypeFor[Core]().Field(i)
		if !group.Anonymous {
			continue
		}
		for j := range group.Type.NumField() {
			machine := group.Type.Field(j)
			for method, in := range map[string]string{"Due": "wake", "Next": "wake", "Audit": "Audit"} {
				m, has := machine.Type.MethodByName(method)
				if !has || in == "wake" && (m.Type.NumIn() > 1 || m.Type.Out(0).Kind() != reflect.Int64) {
					continue // or it gives something else than a deadline
				}
				asked[method]++
				if !regexp.MustCompile(`c\.` + machine.Name + `\.` + method + `\(`).MatchString(bodies[in]) {
					t.Errorf("%s.%s is not asked in Core.%s", machine.Name, method, in)
				}
			}
		}
	}
	if asked["Due"] < 10 || asked["Next"] < 2 || asked["Audit"] < 10 {
		t.Errorf("of the methods of machines %v were found: this test looks at the wrong place", asked)
	}
}
