//go:build !unix

package main

import "os"

// readable is not known here.
func readable(*os.File) bool { return false }
