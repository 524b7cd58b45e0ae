package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Peak is the most that a node took of its machine during a run (I18).
type Peak struct {
	Node                 string
	Memory               int64 // resident, bytes
	Descriptors, Threads int
	Disk                 int64 // bytes of files
}

// Ceiling is what no node of the laboratory may take, whatever is done to it: each
// limit of a node that clients could drive it to is far below.
var Ceiling = Peak{Memory: 1 << 30, Descriptors: 4096, Threads: 512, Disk: 4 << 30}

// Over says what of it is above the ceiling; "" is nothing.
func (p *Peak) Over() string {
	switch {
	case p.Memory > Ceiling.Memory:
		return fmt.Sprintf("%s took %d MiB of memory, over %d", p.Node, p.Memory>>20, Ceiling.Memory>>20)
	case p.Descriptors > Ceiling.Descriptors:
		return fmt.Sprintf("%s had %d open files and connections, over %d", p.Node, p.Descriptors, Ceiling.Descriptors)
	case p.Threads > Ceiling.Threads:
		return fmt.Sprintf("%s had %d threads, over %d", p.Node, p.Threads, Ceiling.Threads)
	case p.Disk > Ceiling.Disk:
		return fmt.Sprintf("%s took %d MiB of its disk, over %d", p.Node, p.Disk>>20, Ceiling.Disk>>20)
	}
	return ""
}

// raise takes over what is more.
func (p *Peak) raise(by Peak) {
	p.Memory, p.Disk = max(p.Memory, by.Memory), max(p.Disk, by.Disk)
	p.Descriptors, p.Threads = max(p.Descriptors, by.Descriptors), max(p.Threads, by.Threads)
}

// taken is what a process has of its machine now; nothing where the system does
// not tell, and of one that has ended.
func taken(pid int) (p Peak) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if b, err := os.ReadFile(filepath.Join(dir, "status")); err == nil {
		for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
			name, rest, _ := bytes.Cut(lines.Bytes(), []byte(":"))
			words := bytes.Fields(rest)
			if len(words) == 0 {
				continue
			}
			n, err := strconv.ParseInt(string(words[0]), 10, 64)
			switch {
			case err != nil:
			case string(name) == "VmRSS":
				p.Memory = n << 10
			case string(name) == "Threads":
				p.Threads = int(n)
			}
		}
	}
	if open, err := os.ReadDir(filepath.Join(dir, "fd")); err == nil {
		p.Descriptors = len(open)
	}
	return p
}

// sizeOf is how much the files of a directory take; those that go meanwhile are
// not counted.
func sizeOf(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it has gone
		}
		if i, err := d.Info(); err == nil && i.Mode().IsRegular() {
			sum += i.Size()
		}
		return nil
	})
	return sum
}

// Pauses between two looks at what nodes take.
const (
	lookAtProcess = time.Second
	lookAtDisk    = 10 // times as long
)

// gauges note what nodes take of the machine. The zero ones are ready.
type gauges struct {
	mu    sync.Mutex // guards what follows
	peaks map[*Process]*Peak
}

// Watch looks at the nodes that there are, until clients stop.
func (g *gauges) Watch(ctx context.Context, nodes func() []*Process) {
	for tick, n := time.Tick(lookAtProcess), 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		for _, p := range nodes() {
			now := Peak{}
			if pid := p.pid(); pid > 0 {
				now = taken(pid)
			}
			if n%lookAtDisk == 0 {
				now.Disk = sizeOf(p.Disk())
			}
			g.Note(p, now)
		}
	}
}

func (g *gauges) Note(p *Process, now Peak) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.peaks == nil {
		g.peaks = make(map[*Process]*Peak)
	}
	if g.peaks[p] == nil {
		g.peaks[p] = &Peak{Node: p.Name}
	}
	g.peaks[p].raise(now)
}

// Of gives the peaks of nodes in their order.
func (g *gauges) Of(nodes []*Process) (all []Peak) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range nodes {
		if peak := g.peaks[p]; peak != nil {
			all = append(all, *peak)
		}
	}
	return all
}
