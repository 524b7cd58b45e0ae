// Package memory finds how much memory this process may have: what its cgroup, of either
// version, and those above it allow.
//
// Contract. [Limit] reads files of the system and changes nothing; [Apply] sets the soft limit
// of Go's collector once, unless GOMEMLIMIT does.
package memory
