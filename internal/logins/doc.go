// Package logins counts, logs and slows failed logins.
//
// Contract. A port tells a [Watch] of each attempt, right or wrong, before it answers.
// Failures are counted (norn_auth_failures_total) and logged, at most a line a second for
// each port and reason. After some wrong secrets from one address, within a minute of each
// other, the answers to that address wait, for longer each time; so do right ones, as long as
// nobody has logged in from there, for else a guess that is not answered at once would be
// known to be wrong. Where somebody has, right logins never wait: the address may be one of
// many. Loopback, and addresses that a port knows not to be a client's own, never wait. What
// was not said at all is counted and slows nobody: it guesses nothing.
package logins
