// Package intake turns what users type, pipe or keep in files into tasks.
//
// Contract.
//
//   - A [Source] gives one task after the other and holds one line at a time,
//     whatever the size of the input.
//   - A line that is no task is an [*Error] with its number, and the column where
//     there is one; the source goes on with the next line. Any other error ends it.
//   - Nothing is read ahead of what was asked for, buffers apart.
package intake
