// Package debug has the commands that look into the files of a node that does not run:
// the logs of its stores, and what a start of this version would change in a data directory
// of the version before. They change nothing.
package debug
