// Package rights reads what the register keeps of roles and tokens.
//
// Contract. What a newer build has written that this one does not know allows nothing.
package rights
