package command

import (
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client/worker"
)

// TestOrphansThatHaveEnded are nobody, also where they are ours, as in a container whose
// first process this is.
func TestOrphansThatHaveEnded(t *testing.T) {
	const setChildSubreaper = 36 // prctl(2)
	adopt := func(on uintptr) {
		if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, on, 0); err != 0 {
			t.Fatal(err)
		}
	}
	adopt(1)
	defer adopt(0)
	began := time.Now()
	_, e := runShell(t, Config{Grace: time.Minute}, `
		(trap 'exit 0' TERM
		echo ready >&2
		exec > /dev/null 2>&1
		while :; do sleep 0.05; done) & wait`, (*worker.Worker).StopNow)
	if took := time.Since(began); e.Kind != worker.Released || took > 20*time.Second {
		t.Errorf("got %+v after %v", e, took)
	}
}
