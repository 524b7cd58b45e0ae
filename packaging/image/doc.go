// Command image writes the OCI image of a release, for several platforms, without an engine:
// a layout in a tar archive with one layer, the static program, its user and its directories.
package main
