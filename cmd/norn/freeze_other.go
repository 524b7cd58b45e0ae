//go:build !unix

package main

import (
	"errors"
	"os"
)

// errNoFreeze is returned where no process can be made to stand still.
var errNoFreeze = errors.New("no process can be frozen on this system: ask for --freezes 0")

func freeze(*os.Process) error { return errNoFreeze }

func thaw(*os.Process) error { return errNoFreeze }
