//go:build !norntest

package config

// ForTests tells whether this program was built to be tested: only then its
// clock can be set wrong.
const ForTests = false
