// Package dnstest has a name server for tests: slow, silent or without an answer, as told.
//
// Contract. [Start] listens on loopback; what it returns ends with the test.
package dnstest
