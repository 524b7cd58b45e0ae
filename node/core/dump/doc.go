// Package dump reads and writes whole partitions for backups: a page of what one
// replica holds, the union of the pages of a majority, and what a restore brings.
//
// It is pure: it reads views and gives messages. Who may be asked, and whose answer
// counts, its caller decides.
package dump
