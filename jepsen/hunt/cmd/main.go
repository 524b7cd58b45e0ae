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

// all hunts, and gives the exit status: 1 when something was not found by the checkers that
// are there for it, or when something was found that is not there.
func all(only []string, limit time.Duration, sound uint64, workers int) int {
	if !mutant.Built {
		fmt.Fprintln(os.Stderr, "hunt: this program cannot make mistakes: build it with -tags mutants")
		return 2
	}
	status, found, looked := 0, 0, 0
	for _, g := range hunt.Grounds() {
		if sound == 0 {
			break
		}
		t := hunt.Hunt(hunt.Quarry{Mistake: mutant.None, Ground: g}, workers, limit, sound)
		fmt.Fprintf(os.Stderr, "%s without a mistake: %d seeds, %.0f s\n", g.Name, t.Seeds, t.Took.Seconds())
		if t.Found != nil {
			fmt.Printf("%s: seed %d finds what is not there: %v\n", g.Name, t.Seed, t.Found)
			status = 1
		}
	}
	fmt.Println("| | mistake | who must find it | found by | where | seed | after |\n|---|---|---|---|---|---|---|")
	for _, q := range hunt.Quarries() {
		if len(only) > 0 && !slices.Contains(only, q.Mistake.Number()) {
			continue
		}
		looked++
		t := hunt.Hunt(q, workers, limit, 0)
		for _, what := range slices.Sorted(maps.Keys(t.Wrong)) {
			fmt.Fprintf(os.Stderr, "%s: found by the wrong checker, which does not count: %s, in %d of %d seeds\n", q.Mistake.Number(), what, t.Wrong[what], t.Seeds)
		}
		if t.Found == nil {
			fmt.Printf("| %s | %s | %s | **not found** | %s | %d seeds | %.1f s |\n", q.Mistake.Number(), q.Mistake, strings.Join(q.Breaks, ", "), q.Ground.Name, t.Seeds, t.Took.Seconds())
			status = 1
			continue
		}
		found++
		fmt.Printf("| %s | %s | %s | %s | %s | %d | %.1f s |\n", q.Mistake.Number(), q.Mistake, strings.Join(q.Breaks, ", "), t.Found.Invariant, q.Ground.Name, t.Seed, t.Took.Seconds())
		fmt.Fprintf(os.Stderr, "%s: %v\n", q.Mistake.Number(), t.Found)
	}
	fmt.Printf("%d of %d found\n", found, looked)
	return status
}
