package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is who runs in the image: that of the chart and of docs/how-to/containers.md.
const user = 65532

// authorities are the certificates that Debian trusts, for logins and snapshots over https.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

type release struct {
	version, commit string
	at              time.Time
}

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "version of the release")
	flag.StringVar(&r.commit, "commit", "", "its commit")
	at := flag.Int64("at", 0, "time of all files, in seconds since 1970")
	to := flag.String("to", "", "file to write")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: image -version V -commit C -at SECONDS -to FILE linux/amd64=PROGRAM…")
		flag.PrintDefaults()
	}
	flag.Parse()
	r.at = time.Unix(*at, 0).UTC()
	if flag.NArg() == 0 || *to == "" || r.version == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := r.write(*to, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write makes the archive of the images of all programs, each given as platform=file.
func (r release) write(to string, programs []string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		platform, file, ok := strings.Cut(p, "=")
		osName, arch, slash := strings.Cut(platform, "/")
		if !ok || !slash {
			return fmt.Errorf("%s: not of the form linux/amd64=FILE", p)
		}
		image, err := r.image(osName, arch, file)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: osName, Architecture: arch},
			Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version},
		}})
	}
	dir, err := os.MkdirTemp("", "norn-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	return r.archive(to, dir)
}

// image is that of one platform: an empty one, a layer and how to run it.
func (r release) image(osName, arch, program string) (v1.Image, error) {
	files, err := r.layer(program)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "packaging/image", Created: v1.Time{Time: r.at}}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = osName, arch, v1.Time{Time: r.at}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Entrypoint: []string{"/usr/local/bin/norn"},
		Cmd:        []string{"server"},
		WorkingDir: "/var/lib/norn",
		Volumes:    map[string]struct{}{"/var/lib/norn": {}},
		Env: []string{
			"PATH=/usr/local/bin",
			"NORN_SERVER_DATA=/var/lib/norn/data",
			"NORN_SERVER_LISTEN=0.0.0.0:7711",
			"NORN_SERVER_HTTP_LISTEN=0.0.0.0:7713",
		},
		ExposedPorts: map[string]struct{}{"7711/tcp": {}, "7712/tcp": {}, "7712/udp": {}, "7713/tcp": {}},
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/usr/local/bin/norn", "healthcheck", "--timeout", "3s"}, Interval: 10 * time.Second,
			Timeout: 5 * time.Second, StartPeriod: 10 * time.Second, Retries: 6,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "norn",
			"org.opencontainers.image.source":   "https://github.com/norn-dev/norn",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.created":  r.at.Format(time.RFC3339),
		},
	}
	return mutate.ConfigFile(image, config)
}

// layer is the file system of the image, as a tar archive.
func (r release) layer(program string) ([]byte, error) {
	norn, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	trusted, err := os.ReadFile(authorities)
	if err != nil {
		return nil, fmt.Errorf("the authorities that the image trusts (install ca-certificates): %w", err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name    string
		mode    int64
		owner   int
		content []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/group", 0o644, 0, []byte("root:x:0:\nnorn:x:65532:\n")},
		{"etc/nsswitch.conf", 0o644, 0, []byte("hosts: files dns\n")},
		{"etc/passwd", 0o644, 0, []byte("root:x:0:0:root:/:/sbin/nologin\nnorn:x:65532:65532:Norn:/var/lib/norn:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{strings.TrimPrefix(authorities, "/"), 0o644, 0, trusted},
		{"usr/", 0o755, 0, nil},
		{"usr/local/", 0o755, 0, nil},
		{"usr/local/bin/", 0o755, 0, nil},
		{"usr/local/bin/norn", 0o755, 0, norn},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/norn/", 0o700, user, nil},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: r.at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// archive puts a layout into one file, as `podman load`, `docker load` and skopeo read it.
func (r release) archive(to, dir string) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: r.at, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
