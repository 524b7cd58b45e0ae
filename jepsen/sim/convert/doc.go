// Package convert turns requests and answers of the client protocol into the words of
// package jepsen/history.
package convert
