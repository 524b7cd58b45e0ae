// Package storage is what lies between a node of a laboratory and the machine's disk:
// file systems that are full, that lose power, and that fail.
//
//   - A [Mood] is a file system of ours (FUSE): reads, writes and fsync fail, are late,
//     are only said to be done, or go astray.
//   - [PowerOff] shuts ext4 down without a flush; [Fill] leaves so many bytes free.
package storage
