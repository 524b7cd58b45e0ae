// Package record has the stored form of what a vnode knows of a queue.
//
// Contract. What Append* wrote the other function of its name reads back, and nothing else: [ErrDamaged], or
// false where what is stored is only a note. A change of a form is one of the data directory's format.
package record
