// Package disk is the virtual disk of a simulated node: what is applied is visible at
// once, and survives a crash only after a sync that began later. A record that has rotted
// ends the process that reads it.
package disk
