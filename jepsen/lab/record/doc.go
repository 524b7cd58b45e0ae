// Package record writes down what clients of a laboratory see: a history of package
// jepsen/history with one monotonic clock, and the replies of the protocol in its words.
package record
