//go:build !unix

package access

import (
	"errors"
	"io"
)

// OpenSyslog says that there is none.
func OpenSyslog() (io.WriteCloser, error) {
	return nil, errors.New("this system has no syslog; give audit-log a FILE")
}
