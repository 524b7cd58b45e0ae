// Package antientropy finds what two replicas of a partition have not in
// common, and moves exactly that, both ways, while writes go on.
package antientropy
