// Licenses writes the licences of all modules that norn links, each text once, to standard
// output: go run .ci/licenses.go > cmd/norn/licenses.txt
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// legal are the names of files with a licence, or what one wants to be told.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-.].*)?$`)

func main() {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/norn").Output()
	if err != nil {
		log.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		log.Fatal(err)
	}
	lines = append(lines, "the Go standard library and runtime\t\t"+strings.TrimSpace(string(root)))
	users := make(map[string][]string) // of each text
	var texts []string
	for _, line := range slices.Compact(lines) {
		of := strings.Split(line, "\t")
		if len(of) != 3 {
			continue
		}
		entries, err := os.ReadDir(of[2])
		if err != nil {
			log.Fatal(err)
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !legal.MatchString(e.Name()) {
				continue
			}
			b, err := os.ReadFile(filepath.Join(of[2], e.Name()))
			if err != nil {
				log.Fatal(err)
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
			if users[text] == nil {
				texts = append(texts, text)
			}
			users[text], found = append(users[text], strings.TrimSpace(of[0]+" "+of[1])), true
		}
		if !found {
			log.Fatal("no licence in ", of[0])
		}
	}
	slices.SortStableFunc(texts, func(a, b string) int { return cmp.Compare(users[a][0], users[b][0]) })
	fmt.Println("Norn is under the Apache License 2.0. Its program contains what follows, under these licences.")
	for _, text := range texts {
		fmt.Printf("\n%s\n\n%s\n\n%s\n", strings.Repeat("=", 78), strings.Join(users[text], "\n"), text)
	}
}
