// Package memdisk is a disk in memory for a log of package wal: what was not synced when its
// power fails is there or not, sector by sector, as somebody else decides.
package memdisk
