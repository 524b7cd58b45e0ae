package packaging

import (
	"bufio"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// released is the directory that `make release` has filled; `make release` runs these tests.
func released(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("NORN_RELEASE")
	if dir == "" {
		t.Skip("NOT RUN: NORN_RELEASE names no release (make release runs these tests)")
	}
	return dir
}

// one is the only file that fits a pattern.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(released(t), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %d files, %v", pattern, len(found), err)
	}
	return found[0]
}

// norn is the program of this machine's platform, unpacked from its archive.
func norn(t *testing.T) string {
	t.Helper()
	archive := one(t, "norn_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	dir := t.TempDir()
	run(t, "tar", "-xzf", archive, "-C", dir, "--strip-components=1")
	return filepath.Join(dir, "norn")
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestArchives: each has the program, its man pages, its completions and its licences, and the
// program of this platform says the version.
func TestArchives(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(released(t), "norn_*.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	for _, a := range archives {
		list := run(t, "tar", "-tzf", a)
		program := "/norn\n"
		if strings.Contains(a, "windows") {
			program = "/norn.exe\n"
		}
		for _, want := range []string{program, "/LICENSE\n", "/licenses.txt\n", "/norn.example.yaml\n", "/man/norn-server.1.gz\n", "/completions/norn.bash\n", "/CHANGELOG.md\n"} {
			if !strings.Contains(list, want) {
				t.Errorf("%s has no %s", filepath.Base(a), strings.TrimSpace(want))
			}
		}
	}
	program := norn(t)
	if said := run(t, program, "version"); !strings.HasPrefix(said, "norn "+version(t)+" (commit ") {
		t.Errorf("version says %s", said)
	}
	if f, err := elf.Open(program); runtime.GOOS == "linux" && (err != nil || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })) {
		t.Errorf("the program is not static: %v", err)
	}
}

// version is that of the release, as its checksums are named.
func version(t *testing.T) string {
	t.Helper()
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(one(t, "norn_*_SHA256SUMS")), "norn_"), "_SHA256SUMS")
}

// TestChecksums: the one file to be signed names all others, rightly.
func TestChecksums(t *testing.T) {
	sums := one(t, "norn_*_SHA256SUMS")
	f, err := os.Open(sums)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	named := map[string]bool{filepath.Base(sums): true}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		b, err := os.ReadFile(filepath.Join(released(t), name))
		if err != nil || !ok {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s: the sum is another one", name)
		}
		named[name] = true
	}
	all, err := os.ReadDir(released(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if !named[e.Name()] {
			t.Errorf("%s has no checksum", e.Name())
		}
	}
}

// TestBills: each archive has a bill of materials, which names what is linked.
func TestBills(t *testing.T) {
	archives, _ := filepath.Glob(filepath.Join(released(t), "norn_*.tar.gz"))
	for _, a := range archives {
		b, err := os.ReadFile(strings.TrimSuffix(a, ".tar.gz") + ".sbom.json")
		if err != nil {
			t.Fatal(err)
		}
		var bill struct {
			BOMFormat  string `json:"bomFormat"`
			Components []struct{ Name, Version, Purl string }
		}
		if err := json.Unmarshal(b, &bill); err != nil {
			t.Fatal(err)
		}
		linked := map[string]bool{}
		for _, c := range bill.Components {
			linked[c.Name] = c.Version != "" && c.Purl != ""
		}
		for _, m := range []string{"github.com/cockroachdb/pebble/v2", "github.com/spf13/cobra", "google.golang.org/protobuf"} {
			if bill.BOMFormat != "CycloneDX" || !linked[m] {
				t.Errorf("the bill of %s does not name %s with its version", filepath.Base(a), m)
			}
		}
	}
}

// mountsOfItsOwn skips where a process cannot have mounts of its own: not root, or in a
// container that may not.
func mountsOfItsOwn(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("unshare", "--mount", "--propagation", "private", "true").CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no mount namespace of its own: %v: %s", err, out)
	}
}

// TestThreeNodesOfThePackage: testdata/three.sh, with the lines that docs/how-to/install.md
// shows for /etc/norn/norn.yaml.
func TestThreeNodesOfThePackage(t *testing.T) {
	file := one(t, "norn_*_"+runtime.GOARCH+".deb")
	for _, tool := range []string{"dpkg", "ip"} {
		if _, err := exec.LookPath(tool); err != nil || os.Getuid() != 0 {
			t.Skipf("NOT RUN: it takes root and %s: %v", tool, err)
		}
	}
	mountsOfItsOwn(t)
	page, err := os.ReadFile("../docs/how-to/install.md")
	must(t, err)
	_, after, _ := strings.Cut(string(page), "```yaml\nname: a\n")
	block, _, ok := strings.Cut(after, "```")
	if !ok {
		t.Fatal("install.md does not show the lines of node a")
	}
	lines := filepath.Join(t.TempDir(), "lines")
	must(t, os.WriteFile(lines, []byte("name: a\n"+block), 0o600))
	out, err := exec.Command("unshare", "--mount", "--net", "--propagation", "private", "sh", "testdata/three.sh", file, t.TempDir(), lines).CombinedOutput()
	t.Logf("%s", out)
	if strings.Contains(string(out), "NOT RUN: no overlay") {
		t.Skip("NOT RUN: no overlay can be mounted here")
	}
	if err != nil {
		t.Error(err)
	}
}

// TestPackagesInstalled installs the deb and the rpm into a throw-away root, runs a node as
// the unit says, upgrades and removes: testdata/installed.sh.
func TestPackagesInstalled(t *testing.T) {
	arch := runtime.GOARCH
	for kind, pattern := range map[string]string{"deb": "norn_*_" + arch + ".deb", "rpm": "norn-*." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch] + ".rpm"} {
		t.Run(kind, func(t *testing.T) {
			file := one(t, pattern)
			tool := map[string]string{"deb": "dpkg", "rpm": "rpm"}[kind]
			if _, err := exec.LookPath(tool); err != nil || os.Getuid() != 0 {
				t.Skipf("NOT RUN: it takes root and %s: %v", tool, err)
			}
			mountsOfItsOwn(t)
			out, err := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "testdata/installed.sh", file, kind, t.TempDir()).CombinedOutput()
			t.Logf("%s", out)
			if strings.Contains(string(out), "NOT RUN: no overlay") {
				t.Skip("NOT RUN: no overlay can be mounted here")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
