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
	"strings"
)

// File is one input file and what a direct look finds in it.
type File struct {
	Path  string // absolute
	Lines int    // newline bytes, as `wc -l` counts
	Bytes int64
}

// ErrNoFiles is returned when a tree holds no .go files.
var ErrNoFiles = errors.New("demo: no .go files")

// ErrSource is returned when there is no tree to walk over.
var ErrSource = errors.New("demo: no source tree")

// GoSource is the src directory of the installed Go toolchain. It returns
// ErrSource where there is none.
func GoSource(ctx context.Context) (string, error) {
	root := os.Getenv("GOROOT")
	ask := exec.CommandContext(ctx, "go", "env", "GOROOT")
	// Outside of any module, which might ask for another toolchain.
	ask.Dir, ask.Env = os.TempDir(), append(os.Environ(), "GOTOOLCHAIN=local")
	if out, err := ask.Output(); err == nil {
		root = strings.TrimSpace(string(out))
	}
	if root == "" {
		return "", fmt.Errorf("%w: there is no go command; name a tree with --source", ErrSource)
	}
	src := filepath.Join(root, "src")
	if _, err := os.Stat(src); err != nil {
		return "", fmt.Errorf("%w: the Go toolchain's is not at %s; name one with --source: %w", ErrSource, src, err)
	}
	return src, nil
}

// Walk reads every .go file below a directory, in the order of their paths;
// symbolic links are followed for the directory itself only. It returns
// ErrNoFiles when there is none.
func Walk(ctx context.Context, dir string) ([]File, error) {
	root, err := filepath.Abs(dir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, fmt.Errorf("demo: walk: %w", err)
	}
	var files []File
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return errors.Join(err, ctx.Err())
		}
		if strings.Contains(path, "\n") {
			return fmt.Errorf("%q: the demo's command reads a path as one line", path)
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
