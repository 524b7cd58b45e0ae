// Package jwts verifies JSON Web Tokens of one issuer.
//
// Contract. A [Verifier] accepts a token whose signature one of the issuer's keys has made, by one
// of the algorithms in [Algorithms], and whose issuer, audience and times are what its [Config]
// says: all of them are required. It reads the keys again while it runs: a key that it does not
// know makes it look, at most every few seconds. Keys that cannot be read leave those of before
// in use. Signatures are judged by go-jose; nothing here computes with keys.
package jwts
