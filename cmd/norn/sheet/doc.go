// Package sheet shows tasks to people: one on a page with all that is known of it, many one
// per row.
//
// Contract.
//
//   - What users have written, such as kinds, tags, names of workers and errors, stays text: no
//     control character of it reaches a terminal.
//   - What a task does not have takes no line.
package sheet
