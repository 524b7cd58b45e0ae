package packaging

import (
	"archive/tar"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// image unpacks the archive of the release and gives the image of a platform.
func image(t *testing.T, arch string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	run(t, "tar", "-xf", one(t, "norn_*_oci.tar"), "-C", dir)
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatalf("the layout is not whole: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifest.Manifests {
		if m.Platform.OS == "linux" && m.Platform.Architecture == arch {
			found, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
	}
	t.Fatalf("no image for linux/%s", arch)
	return nil
}

// TestImage: the layout is whole; what it starts runs as who it says, on a root that cannot
// be written, and its own health check says yes, and no once the process is gone.
func TestImage(t *testing.T) {
	found := image(t, runtime.GOARCH)
	file, err := found.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config := file.Config
	if config.User != "65532:65532" || config.StopSignal != "SIGTERM" || file.Architecture != runtime.GOARCH {
		t.Errorf("user %q, stop signal %q, architecture %q", config.User, config.StopSignal, file.Architecture)
	}
	check := config.Healthcheck
	if check == nil || len(check.Test) < 2 || check.Test[0] != "CMD" || !slices.Contains(check.Test, "healthcheck") {
		t.Fatalf("health check %+v", check)
	}
	if os.Getuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("NOT RUN: only root on Linux runs it in a root of its own")
	}
	mountsOfItsOwn(t)
	root := unpack(t, found)
	volume := filepath.Join(t.TempDir(), "volume")
	must(t, os.Mkdir(volume, 0o700))
	must(t, os.Chown(volume, 65532, 65532))
	ports := free(t, 3)
	env := append(slices.Clone(config.Env), "NORN_SERVER_LISTEN=127.0.0.1:"+ports[0], "NORN_SERVER_PEER_LISTEN=127.0.0.1:"+ports[1], "NORN_SERVER_HTTP_LISTEN=0.0.0.0:"+ports[2])
	inside := contained(root, volume, env)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	node := inside(append(slices.Clone(config.Entrypoint), config.Cmd...)...)
	node.Stdout, node.Stderr = log, log
	must(t, node.Start())
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }()
	t.Cleanup(func() { _ = node.Process.Kill() })
	healthy := func() (string, bool) {
		out, err := inside(check.Test[1:]...).CombinedOutput()
		return string(out), err == nil
	}
	becomes(t, healthy, log.Name())
	if out, err := inside("/usr/local/bin/norn", "--addr", "127.0.0.1:"+ports[0], "task", "enqueue", "-q", "mail", "hello").CombinedOutput(); err != nil {
		t.Errorf("a task in the image: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(volume, "data", "IDENTITY")); err != nil {
		t.Errorf("its data is not on the volume: %v", err)
	}
	must(t, node.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("SIGTERM ends it with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("SIGTERM does not end it")
	}
	if said, ok := healthy(); ok {
		t.Errorf("a node that has ended is healthy: %s", said)
	}
}

// becomes waits until something is so, and shows the log where it is not.
func becomes(t *testing.T, healthy func() (string, bool), log string) {
	t.Helper()
	limit, again := time.After(time.Minute), time.NewTicker(100*time.Millisecond)
	defer again.Stop()
	for {
		said, ok := healthy()
		if ok {
			break
		}
		select {
		case <-again.C:
		case <-limit:
			text, _ := os.ReadFile(log)
			t.Fatalf("not healthy: %s\n%s", said, text)
		}
	}
}

// contained makes commands in a mount namespace of their own: the root read-only, the volume
// where the image wants it, the user that the image names.
func contained(root, volume string, env []string) func(args ...string) *exec.Cmd {
	const script = `mount --bind "$0" "$0" && mount --bind "$1" "$0/var/lib/norn" && mount -o remount,ro,bind "$0" && root=$0 && shift && exec chroot --userspec=65532:65532 "$root" "$@"`
	return func(args ...string) *exec.Cmd {
		cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-ec", script, root, volume}, args...)...)
		cmd.Env = append(slices.Clone(env), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
		return cmd
	}
}

// TestImagePlatforms: one image per Linux program of the release.
func TestImagePlatforms(t *testing.T) {
	archives, _ := filepath.Glob(filepath.Join(released(t), "norn_*_linux_*.tar.gz"))
	for _, a := range archives {
		_, arch, _ := strings.Cut(strings.TrimSuffix(filepath.Base(a), ".tar.gz"), "_linux_")
		image(t, arch)
	}
}

// unpack writes the file system of an image into a directory.
func unpack(t *testing.T, from v1.Image) string {
	t.Helper()
	root := t.TempDir()
	r := mutate.Extract(from)
	defer func() { _ = r.Close() }()
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		at := filepath.Join(root, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(at, h.FileInfo().Mode().Perm()))
		} else {
			b, err := io.ReadAll(files)
			must(t, err)
			must(t, os.WriteFile(at, b, h.FileInfo().Mode().Perm()))
		}
		must(t, os.Chown(at, h.Uid, h.Gid))
	}
	for _, dir := range []string{root, filepath.Dir(root)} {
		must(t, os.Chmod(dir, 0o755))
	}
	return root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// free are ports that nobody listens on.
func free(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer func() { _ = l.Close() }()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports
}
