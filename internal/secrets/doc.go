// Package secrets holds what others must say to be let in: one secret, or several while
// one takes the place of another.
//
// Callers may rely on this: what is compared is compared in a time that tells nothing of
// the secrets, and no error names one.
package secrets
