//go:build mutants

package mutant

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// Built tells whether this program can make mistakes on purpose.
const Built = true

// chosen is the mistake that this process makes. A program that is started with
// NORN_MUTANT=m7 makes that one.
var chosen = fromEnv()

func fromEnv() *atomic.Uint32 {
	var id atomic.Uint32
	if n, err := strconv.ParseUint(strings.TrimPrefix(os.Getenv("NORN_MUTANT"), "m"), 10, 8); err == nil && n < uint64(last) {
		id.Store(uint32(n))
	}
	return &id
}

// On tells whether this mistake is to be made.
func (m ID) On() bool { return Chosen() == m }

// Chosen is the mistake that this process makes.
func Chosen() ID { return ID(chosen.Load()) }

// Choose has this process make one mistake from now on, and no other.
func Choose(m ID) { chosen.Store(uint32(m)) }
