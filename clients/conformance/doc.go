// Package conformance reads the list of what every client of Norn does, whatever its
// language, and has the client in Go do it. README.md says what the words of cases.yaml mean.
//
// Contract.
//
//   - The list is data: a client in another language reads the same file.
//   - Cases run against a real server, those with lies through an [internal/liar]; each has a
//     queue of its own, so that they may run beside each other.
package conformance
