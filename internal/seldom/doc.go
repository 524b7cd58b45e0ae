// Package seldom keeps strangers from filling a log.
//
// Contract. What somebody can cause as often as they like is given to a [Line]. It lets one
// through at once, and of those that come within the next second the last one at its end,
// with how many it stands for. Nothing is lost of the number, and at most one line a second
// is written. [Line.Close] says what is left to be said.
package seldom
