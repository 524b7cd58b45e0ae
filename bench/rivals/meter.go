package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// meter measures the processor time of servers and of this program.
type meter struct {
	servers processes
	before  float64
	own     float64
}

func newMeter(servers processes) meter {
	return meter{servers, servers.seconds(), ownSeconds()}
}

// per is what each of n tasks has cost since, µs.
func (m meter) per(n int) (servers, load float64) {
	each := 1e6 / float64(max(1, n))
	return (m.servers.seconds() - m.before) * each, (ownSeconds() - m.own) * each
}

// seconds is what the servers have used of processors, by /proc.
func (p processes) seconds() (sum float64) {
	for _, cmd := range p {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		_, rest, ok := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if err != nil || !ok || len(fields) < 13 {
			continue
		}
		for _, f := range fields[11:13] { // utime, stime, in hundredths of a second
			n, _ := strconv.ParseFloat(f, 64)
			sum += n / 100
		}
	}
	return sum
}

func ownSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
