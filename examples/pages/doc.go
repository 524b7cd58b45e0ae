// Package pages holds the Go code that pages under docs show. Its tests run it against a
// server in the process; a rule of internal/house compares it with the pages.
package pages
