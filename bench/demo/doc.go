// Package demo is the guided tour behind `norn demo`: Norn's main job on real
// input, with a server that is killed in the middle, checked against a direct
// walk over the same files.
package demo
