// Package cli is what all commands of norn have in common: the global flags, the way to the
// nodes, output, completion by the shell, and exit codes with their advice.
package cli
