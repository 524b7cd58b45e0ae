package hunt

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/jepsen/check"
)

// Unit is a test that is there for a rule: with the mistake it must fail, by its own
// judgement and not by a panic or because its time is over.
type Unit struct {
	Package string // below the module, as "node/core"
	Test    string // its name, or several with "|"
}

// ByTest is the invariant of what a [Unit] finds.
const ByTest = "test"

// unitLimit is how long a run of the tests of one mistake may take.
const unitLimit = 90 * time.Second

// Units runs tests of packages in programs that are built once each, with the tag
// "mutants". Root is the directory of the module, Bin where programs go.
type Units struct {
	Root, Bin string
	built     map[string]error
}

// Packages are those whose tests find some of the mistakes, by name.
func Packages(all []Quarry) (names []string) {
	for _, q := range all {
		if q.Unit.Package != "" {
			names = append(names, q.Unit.Package)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Build makes the test program of a package.
func (u *Units) Build(pkg string) error {
	if err, done := u.built[pkg]; done {
		return err
	}
	if u.built == nil {
		u.built = make(map[string]error)
	}
	c := exec.CommandContext(context.Background(), "go", "test", "-tags", "mutants", "-c", "-o", u.program(pkg), "./"+pkg)
	c.Dir = u.Root
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", pkg, err, out)
	}
	u.built[pkg] = err
	return err
}

func (u *Units) program(pkg string) string {
	bin, err := filepath.Abs(u.Bin) // tests run in the directory of their package
	if err != nil {
		bin = u.Bin
	}
	return filepath.Join(bin, strings.ReplaceAll(pkg, "/", "_")+".test")
}

// Hunt looks for a mistake with the tests that are there for it.
func (u *Units) Hunt(q Quarry) Trophy {
	t, began := Trophy{Quarry: q, Wrong: map[string]uint64{}, Seeds: 1}, time.Now()
	defer func() { t.Took = time.Since(began) }()
	if err := u.Build(q.Unit.Package); err != nil {
		t.Wrong[err.Error()]++
		return t
	}
	began = time.Now()
	out, err := u.run(q.Mistake, q.Unit)
	t.Took = time.Since(began)
	name := failed(out, q.Unit)
	switch {
	case err == nil:
	case name == "":
		t.Wrong[check.Internal]++
	default:
		t.Found = &check.Violation{Invariant: ByTest, Text: name}
	}
	return t
}

// Sound gives what tests say that must pass: those of a package for all of some mistakes,
// without any of them; "" when they do.
func (u *Units) Sound(pkg string, all []Quarry) string {
	if err := u.Build(pkg); err != nil {
		return err.Error()
	}
	var names []string
	for _, q := range all {
		if q.Unit.Package == pkg {
			names = append(names, strings.Split(q.Unit.Test, "|")...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	out, err := u.run(mutant.None, Unit{pkg, strings.Join(names, "|")})
	if err != nil {
		return fmt.Sprintf("%s: %v\n%s", pkg, err, out)
	}
	for _, name := range names {
		if !strings.Contains(out, "--- PASS: "+name+" ") {
			return fmt.Sprintf("%s: %s does not pass: is there such a test?", pkg, name)
		}
	}
	return ""
}

func (u *Units) run(m mutant.ID, unit Unit) (out string, err error) {
	ctx, stop := context.WithTimeout(context.Background(), unitLimit+30*time.Second)
	defer stop()
	c := exec.CommandContext(ctx, u.program(unit.Package), "-test.v", "-test.run=^("+unit.Test+")$", "-test.timeout="+unitLimit.String())
	c.Dir = filepath.Join(u.Root, filepath.FromSlash(unit.Package))
	c.Env = append(os.Environ(), "NORN_MUTANT="+m.Number(), "RAPID_SEED=1")
	defer tidy(c.Dir)()
	b, err := c.CombinedOutput()
	return string(b), err //nolint:wrapcheck // it is told with the output
}

// tidy notes which failures of properties a package keeps to try again, and removes those that
// a mistake has left beside them when what it gives is called.
func tidy(dir string) (remove func()) {
	kept := func() []string {
		files, _ := filepath.Glob(filepath.Join(dir, "testdata", "rapid", "*", "*.fail")) // the pattern is a good one
		return files
	}
	before := kept()
	return func() {
		for _, f := range kept() {
			if !slices.Contains(before, f) {
				_ = os.Remove(f) // else it is tried again, and passes
			}
		}
	}
}

// failed gives the test of a unit that has failed by its own judgement; "": none has.
func failed(out string, unit Unit) string {
	if strings.Contains(out, "\npanic: ") || strings.Contains(out, "\nfatal error: ") {
		return ""
	}
	for _, name := range strings.Split(unit.Test, "|") {
		if strings.Contains(out, "--- FAIL: "+name+" ") {
			return name
		}
	}
	return ""
}
