package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	dataExt     = ".zst"
	manifestExt = ".json"
	partialExt  = ".json.tmp"

	prefix     = "norn-"
	clusterLen = 32
	timeForm   = "20060102T150405.000000000"
	maxSeq     = 9999
	maxNode    = 255 // as in a server's configuration
	// tailLen is the length of "-TIME-SEQ".
	tailLen = 1 + len(timeForm) + 1 + 4
	// maxNodePart keeps a name within the 255 bytes that file systems allow,
	// whatever the node is called.
	maxNodePart = 100
	nodeHead    = 80
)

// name is what the name of a file says: see doc.go, Format 1.
type name struct {
	owner string // "norn-CLUSTER-NODE": whose file it is
	at    time.Time
	seq   int
}

// owner makes the first part of the names of one node's files.
func owner(cluster, node string) (string, error) {
	hexed := strings.ReplaceAll(cluster, "-", "")
	if len(cluster) != 36 || cluster != uuid(hexed) || strings.Trim(hexed, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%w: cluster %q is not a UUID in lower case", ErrInvalid, cluster)
	}
	if node == "" || len(node) > maxNode || !utf8.ValidString(node) {
		return "", fmt.Errorf("%w: the name of a node is text of 1 to %d bytes, not %q", ErrInvalid, maxNode, node)
	}
	return prefix + hexed + "-" + nodePart(node), nil
}

// uuid puts the dashes into 32 digits.
func uuid(hexed string) string {
	if len(hexed) != clusterLen {
		return ""
	}
	return hexed[:8] + "-" + hexed[8:12] + "-" + hexed[12:16] + "-" + hexed[16:20] + "-" + hexed[20:]
}

func nodePart(node string) string {
	var b strings.Builder
	for i := range len(node) {
		if c := node[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() <= maxNodePart {
		return b.String()
	}
	sum := sha256.Sum256([]byte(node))
	return b.String()[:nodeHead] + "~" + hex.EncodeToString(sum[:8])
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// stem is the name without its extension.
func (n name) stem() string {
	return fmt.Sprintf("%s-%s-%04d", n.owner, n.at.UTC().Format(timeForm), n.seq)
}

// parseName reads the name of a file of an archive. ok is false for files that
// are not part of one.
func parseName(file string) (n name, stem, ext string, ok bool) {
	for _, ext = range []string{dataExt, partialExt, manifestExt} {
		if stem, ok = strings.CutSuffix(file, ext); ok {
			break
		}
	}
	cut := len(stem) - tailLen
	if !ok || cut < len(prefix)+clusterLen+2 {
		return name{}, "", "", false
	}
	at, err := time.Parse(timeForm, stem[cut+1:cut+1+len(timeForm)])
	seq, err2 := strconv.Atoi(stem[len(stem)-4:])
	n = name{owner: stem[:cut], at: at, seq: seq}
	// Written again it must be the same: that refuses all other forms at once.
	if err != nil || err2 != nil || seq < 1 || n.stem() != stem || !validOwner(n.owner) {
		return name{}, "", "", false
	}
	return n, stem, ext, true
}

func validOwner(o string) bool {
	rest, ok := strings.CutPrefix(o, prefix)
	if !ok || len(rest) < clusterLen+2 || rest[clusterLen] != '-' || strings.Trim(rest[:clusterLen], "0123456789abcdef") != "" {
		return false
	}
	for i := range len(rest) {
		if c := rest[i]; !plain(c) && c != '%' && c != '~' {
			return false
		}
	}
	return true
}
