// Package model is an exhaustive explicit-state model checker of the election
// and claim protocol (design 5 to 7): it visits every state that a small cluster
// can reach, whatever is delayed, lost, repeated or reordered, and checks K1,
// K2, K6 and K7 on every step.
//
// The model is a second, independent writing-down of the protocol, small enough
// to be read beside it; it shares no code with package election. What it holds,
// what it leaves out and why, and what it found, is in docs/contributors/model.md.
//
// Contract: [Explore] visits each state once, breadth first, so that a
// counterexample is a shortest one; the correct protocol (no [Omission]) has
// none; each omission of [Experiments] has one, or is said to be subsumed. The
// result depends on the configuration only, never on time or chance; [Walk]
// depends on its seed too.
package model
