// Package digest makes one number of what simulated nodes want done, by its values and
// not by names: a commit that only moves or renames code leaves it as it is.
package digest
