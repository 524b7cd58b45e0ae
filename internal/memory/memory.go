package memory

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// share is the part of the limit, in percent, from which on Go's collector works harder: the
// rest is for what it does not count, and for what is allocated while it works.
const share = 90

// none is more than any limit: version 1 says there is none with about 2^63.
const none = 1 << 60

// Apply has Go's collector heed the limit of the cgroup, where there is one and GOMEMLIMIT does
// not say otherwise. It gives the bytes that this process is to make do with, 0: any number,
// and where that comes from.
func Apply() (bytes uint64, from string) {
	if os.Getenv("GOMEMLIMIT") != "" {
		soft := debug.SetMemoryLimit(-1)
		if soft == math.MaxInt64 { // it says off
			return 0, ""
		}
		return uint64(soft) / share * 100, "GOMEMLIMIT"
	}
	limit := Limit()
	if limit == 0 {
		return 0, ""
	}
	debug.SetMemoryLimit(Soft(limit))
	return limit, "cgroup"
}

// Soft is what to tell Go's collector of a limit, both in bytes.
func Soft(limit uint64) int64 { return int64(limit / 100 * share) }

// Limit is what the cgroup of this process allows, bytes; 0: there is no limit.
func Limit() uint64 { return limitIn(os.DirFS("/")) }

// limitIn reads from the root of a file system.
func limitIn(root fs.FS) uint64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return 0
	}
	least := uint64(none)
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy, controllers, path
		if len(fields) != 3 {
			continue
		}
		file, v2 := "memory.max", fields[0] == "0" && fields[1] == ""
		if !v2 {
			file = "memory.limit_in_bytes"
			if !has(fields[1], "memory") {
				continue
			}
		}
		for _, dir := range places(string(mounts), v2, fields[2]) {
			text, err := fs.ReadFile(root, path.Join(strings.TrimPrefix(dir, "/"), file))
			if n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 { // "max" is none
				least = min(least, n)
			}
		}
	}
	if least == none {
		return 0
	}
	return least
}

func has(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// places are the directories of a cgroup and of those above it, as far as this process sees
// them: in a container its own is often the root of what is mounted.
func places(mounts string, v2 bool, group string) (dirs []string) {
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ") // …, root, mount point, … - type, source, options
		at, what := strings.Fields(before), strings.Fields(after)
		if !ok || len(at) < 5 || len(what) < 3 {
			continue
		}
		if v2 && what[0] != "cgroup2" || !v2 && (what[0] != "cgroup" || !has(what[2], "memory")) {
			continue
		}
		top := unescaped(at[4])
		dirs = append(dirs, top)
		rest, below := under(unescaped(at[3]), group)
		if !below {
			continue
		}
		for dir := path.Join(top, rest); len(dir) > len(top); dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// under is the part of a cgroup's path below what is mounted.
func under(root, group string) (rest string, ok bool) {
	if root == "/" {
		return group, true
	}
	rest, ok = strings.CutPrefix(group, root)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// unescaped is a path of mountinfo as it is: blanks are octal there.
func unescaped(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(s)
}
