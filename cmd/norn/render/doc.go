// Package render writes what commands have to say: tables for people, and JSON,
// lines of JSON or YAML for programs.
//
// Contract.
//
//   - json is one document: an object for one thing, an array for what can be
//     several, [] for none. jsonl is one item per line. yaml has the same tree.
//   - A list is written while it grows: nothing is kept but the page of a table.
//   - Tables never pass on control characters of users' data to a terminal.
package render
