// Package policies makes mistakes (package internal/mutant) out of rules that machines of a
// node leave out: whoever makes a node for a test or a simulation gives it the policy of the
// mistake that this process is to make, which is none but in the hunt.
package policies
