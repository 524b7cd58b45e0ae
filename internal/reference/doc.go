// Package reference writes the pages under docs/reference that follow from the source:
// commands, settings, metrics, errors and limits.
//
// Contract. Each function gives a whole page, always the same one for the same source. The
// tests of this package and of cmd/norn compare the pages with the files and fail when one
// is stale; `make reference` writes them anew. No program imports this package.
package reference
