// Command norn is the server and everything a person or a script does with it:
// flags, wiring and output. See `norn --help`.
//
// What scripts rely on: the names of commands and flags, the JSON of -o json
// (package proto/jsonform), and the exit codes (package cli). Errors are on standard
// error, one line each, beginning with "norn: ".
package main
