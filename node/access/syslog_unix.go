//go:build unix

package access

import (
	"io"
	"log/syslog"
)

// OpenSyslog gives what writes lines to the system's log.
func OpenSyslog() (io.WriteCloser, error) {
	return syslog.New(syslog.LOG_AUTHPRIV|syslog.LOG_NOTICE, "norn")
}
