package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// step runs a program in a directory, and ends the test when it fails.
func step(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// taken is a copy of files of the tree, in a directory of its own: tools write beside them.
func taken(t *testing.T, from string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		} else if info.IsDir() {
			err = os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(from, name)))
			if err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, filepath.Join(from, name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPythonPackage builds the package, installs it where nothing else of the tree is, and runs
// the first task of its README. Nothing is fetched.
func TestPythonPackage(t *testing.T) {
	python := pythonWithProtobuf(t)
	if exec.CommandContext(t.Context(), python, "-c", "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('pip', 'setuptools', 'wheel'))))").Run() != nil {
		t.Skip("no pip, setuptools and wheel for " + python + ": apt-get install python3-pip")
	}
	source, installed := taken(t, pythonClient, "pyproject.toml", "README.md", "src"), t.TempDir()
	env := environment("NORN_ADDR="+the.server.addr, "PYTHONPATH="+installed, "PYTHONDONTWRITEBYTECODE=1")
	step(t, source, env, python, "-m", "pip", "install", "--no-build-isolation", "--no-index", "--no-deps", "--target", installed, ".")
	for _, file := range []string{"norn/py.typed", "norn/v1/service_pb2.py"} {
		if _, err := os.Stat(filepath.Join(installed, file)); err != nil {
			t.Error(err)
		}
	}
	first, err := filepath.Abs(pythonClient + "/examples/first_task.py")
	if err != nil {
		t.Fatal(err)
	}
	if said := step(t, t.TempDir(), env, python, first); !strings.Contains(said, "Hello, Ada!") {
		t.Errorf("it says %q", said)
	}
}

// TestTypeScriptPackage builds and packs the package, unpacks it where nothing else of the tree
// is, and runs the first task of its README. Nothing is fetched.
func TestTypeScriptPackage(t *testing.T) {
	node, npm := inPath(t, "node"), inPath(t, "npm")
	modules, err := filepath.Abs(typescriptClient + "/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(modules); err != nil {
		t.Skip("the packages of clients/typescript are not installed: (cd clients/typescript && npm ci)")
	}
	source, project := taken(t, typescriptClient, "package.json", "README.md", "tsconfig.json", "tsconfig.build.json", "src"), t.TempDir()
	if err := os.Symlink(modules, filepath.Join(source, "node_modules")); err != nil {
		t.Fatal(err)
	}
	env := environment("NORN_ADDR=" + the.server.addr)
	step(t, source, env, npm, "run", "build")
	step(t, source, env, npm, "pack", "--offline")
	at := filepath.Join(project, "node_modules", "norn-queue")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	step(t, source, env, "tar", "-xzf", "norn-queue-0.1.0.tgz", "-C", at, "--strip-components=1")
	for _, of := range []string{"@bufbuild", "openapi-fetch", "openapi-typescript-helpers"} {
		if err := os.Symlink(filepath.Join(modules, of), filepath.Join(project, "node_modules", of)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(project, "first.mjs"), []byte(read(t, typescriptClient+"/examples/first-task.ts")), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := step(t, project, env, node, "first.mjs"); !strings.Contains(said, "Hello, Ada!") {
		t.Errorf("it says %q", said)
	}
	if said := step(t, project, env, node, "--input-type=module", "-e", `import { httpClient } from "norn-queue/http"; console.log(typeof httpClient)`); strings.TrimSpace(said) != "function" {
		t.Errorf("norn-queue/http: %q", said)
	}
}
