//go:build !mutants

package mutant

// Built tells whether this program can make mistakes on purpose.
const Built = false

// On tells whether this mistake is to be made: never in this build.
func (m ID) On() bool { return false }

// Chosen is the mistake that this process makes: none in this build.
func Chosen() ID { return None }

// Choose does nothing in this build.
func Choose(ID) {}
