package house

import (
	"bufio"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxFits is how many packages at most may have all words of a question: a stranger who has
// seen the doc.go files alone tries no more of them.
const maxFits = 3

var keyWords = regexp.MustCompile(`\*([^*]+)\*`)

// TestAStrangerFindsTheWay: of 40 questions "where is …" each is answered by a doc.go that has
// its words, and by hardly any other one.
func TestAStrangerFindsTheWay(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{} // by directory: what its doc.go says, and its path
	err = filepath.WalkDir(root, func(p string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "node_modules" || e.Name() == "testdata"):
			return filepath.SkipDir
		case e.Name() != "doc.go":
			return nil
		}
		b, err := os.ReadFile(p)
		dir, _ := filepath.Rel(root, filepath.Dir(p))
		text := strings.ReplaceAll(string(b), "\n//", " ") + " " + dir
		docs[filepath.ToSlash(dir)] = strings.ToLower(strings.Join(strings.Fields(text), " "))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/stranger.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	asked := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		question, answer, is := strings.Cut(s.Text(), " | ")
		if strings.HasPrefix(s.Text(), "#") || !is {
			continue
		}
		asked++
		info, err := os.Stat(filepath.Join(root, answer))
		if err != nil {
			t.Errorf("%s\n\tthe answer is gone: %v", question, err)
			continue
		}
		dir := answer
		if !info.IsDir() {
			dir = path.Dir(answer)
		}
		var words []string
		for _, w := range keyWords.FindAllStringSubmatch(question, -1) {
			if words = append(words, strings.ToLower(w[1])); !strings.Contains(docs[dir], words[len(words)-1]) {
				t.Errorf("%s\n\t%s/doc.go does not say %q", question, dir, w[1])
			}
		}
		var fits []string
		for dir, text := range docs {
			all := true
			for _, w := range words {
				all = all && strings.Contains(text, w)
			}
			if all {
				fits = append(fits, dir)
			}
		}
		if len(words) == 0 || len(fits) > maxFits {
			t.Errorf("%s\n\tmore than %d packages fit: %v", question, maxFits, fits)
		}
	}
	if asked < 40 {
		t.Errorf("%d questions, want 40", asked)
	}
}
