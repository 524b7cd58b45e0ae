package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/jepsen/hunt"
)

func main() {
	only := flag.String("only", "", "numbers of the mistakes to make, with commas: m1,m7; empty: all")
	limit := flag.Duration("limit", 10*time.Minute, "how long each is looked for")
	sound := flag.Uint64("sound", 20, "seeds of each ground on which nothing may be found without a mistake")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "walks at once")
	flag.Parse()
	debug.SetGCPercent(400)
	os.Exit(all(split(*only), *limit, *sound, *workers))
}

func split(only string) []string {
	if only == "" {
		return nil
	}
	return strings.Split(only, ",")
}

// all hunts, and gives the exit status: 1 when something was not found by what is there for
// it, or when something was found that is not there.
func all(only []string, limit time.Duration, sound uint64, workers int) int {
	if !mutant.Built {
		fmt.Fprintln(os.Stderr, "hunt: this program cannot make mistakes: build it with -tags mutants")
		return 2
	}
	quarries := hunt.Quarries()
	if len(only) > 0 {
		quarries = slices.DeleteFunc(quarries, func(q hunt.Quarry) bool { return !slices.Contains(only, q.Mistake.Number()) })
	}
	units := &hunt.Units{Root: ".", Bin: "bin/mutants"}
	status := 0
	if sound > 0 && !clean(quarries, units, limit, sound, workers) {
		status = 1
	}
	found := 0
	fmt.Println("| | mistake | who must find it | found by | where | seed | after |\n|---|---|---|---|---|---|---|")
	for _, q := range quarries {
		t := hunt.Trophy{}
		if q.Unit.Test != "" {
			t = units.Hunt(q)
		} else {
			t = hunt.Hunt(q, workers, limit, 0)
		}
		tell(&t)
		if t.Found != nil {
			found++
		}
	}
	if found < len(quarries) {
		status = 1
	}
	fmt.Printf("%d of %d found\n", found, len(quarries))
	return status
}

// clean walks where the mistakes are looked for without one, and tells whether nothing is
// found there.
func clean(quarries []hunt.Quarry, units *hunt.Units, limit time.Duration, sound uint64, workers int) (ok bool) {
	ok = true
	for _, g := range hunt.Grounds() {
		if !slices.ContainsFunc(quarries, func(q hunt.Quarry) bool { return q.Ground.Name == g.Name }) {
			continue
		}
		t := hunt.Hunt(hunt.Quarry{Mistake: mutant.None, Ground: g}, workers, limit, max(1, sound/g.Cost()))
		fmt.Fprintf(os.Stderr, "%s without a mistake: %d seeds, %.0f s\n", g.Name, t.Seeds, t.Took.Seconds())
		if t.Found != nil {
			fmt.Printf("%s: seed %d finds what is not there: %v\n", g.Name, t.Seed, t.Found)
			ok = false
		}
	}
	for _, pkg := range hunt.Packages(quarries) {
		began := time.Now()
		if what := units.Sound(pkg, quarries); what != "" {
			fmt.Printf("tests without a mistake fail: %s\n", what)
			ok = false
		}
		fmt.Fprintf(os.Stderr, "tests of %s without a mistake: %.0f s\n", pkg, time.Since(began).Seconds())
	}
	return ok
}

// tell prints what came of a hunt.
func tell(t *hunt.Trophy) {
	q := &t.Quarry
	for _, what := range slices.Sorted(maps.Keys(t.Wrong)) {
		fmt.Fprintf(os.Stderr, "%s: found by the wrong checker, which does not count: %s, in %d of %d seeds\n", q.Mistake.Number(), what, t.Wrong[what], t.Seeds)
	}
	by, seed := "**not found**", fmt.Sprintf("%d seeds", t.Seeds)
	if t.Found != nil {
		by, seed = t.Found.Invariant, fmt.Sprint(t.Seed)
		fmt.Fprintf(os.Stderr, "%s: %v\n", q.Mistake.Number(), t.Found)
	}
	where := q.Ground.Name
	if q.Unit.Test != "" {
		where, seed = q.Unit.Package, ""
		if t.Found != nil {
			by = t.Found.Text
		}
	}
	fmt.Printf("| %s | %s | %s | %s | %s | %s | %.1f s |\n", q.Mistake.Number(), q.Mistake, strings.Join(q.Breaks, ", "), by, where, seed, t.Took.Seconds())
}
