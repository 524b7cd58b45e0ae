package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// File is one input file and what a direct look finds in it.
type File struct {
	Path  string
	Lines int // newline bytes, as `wc -l` counts
	Bytes int64
}

// ErrNoFiles is returned when a tree holds no .go files.
var ErrNoFiles = errors.New("demo: no .go files")

// GoSource is the src directory of the installed Go toolchain.
func GoSource(ctx context.Context) (string, error) {
	root := os.Getenv("GOROOT")
	if out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output(); err == nil {
		root = strings.TrimSpace(string(out))
	}
	if root == "" {
		root = runtime.GOROOT() //nolint:staticcheck // the last resort where there is no go command
	}
	src := filepath.Join(root, "src")
	if _, err := os.Stat(src); err != nil {
		return "", fmt.Errorf("demo: the Go toolchain's source is not at %s; name a tree with --source: %w", src, err)
	}
	return src, nil
}

// Walk reads every .go file below a directory. It returns ErrNoFiles when
// there is none.
func Walk(dir string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, File{Path: path, Lines: bytes.Count(b, []byte("\n")), Bytes: int64(len(b))})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("demo: walk: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w below %s", ErrNoFiles, dir)
	}
	return files, nil
}
