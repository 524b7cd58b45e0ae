package tasks

import (
	"io"
	"os"
)

// inputWaits tells whether bytes can be read from in right now, without reading any:
// standard input may be that of a loop, which has its next lines there. A terminal has none
// until somebody types.
func inputWaits(in io.Reader) bool {
	switch in := in.(type) {
	case *os.File:
		info, err := in.Stat()
		switch {
		case err != nil || info.Mode()&os.ModeCharDevice != 0:
			return false
		case info.Mode().IsRegular():
			at, err := in.Seek(0, io.SeekCurrent)
			return err == nil && at < info.Size()
		}
		return readable(in)
	case interface{ Len() int }: // of tests
		return in.Len() > 0
	}
	return false
}
