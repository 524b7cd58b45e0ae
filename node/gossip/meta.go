package gossip

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/norn-dev/norn/register"
)

// Peer is another node as gossip knows it.
type Peer struct {
	// Member is its name and incarnation.
	Member register.Member
	// Address is where it takes connections of nodes, HOST:PORT.
	Address string
	// Client is where it takes connections of clients, HOST:PORT, "" when it has
	// not said.
	Client string
	// Zone names what fails together with it, "" when it has not said.
	Zone string
}

// compare orders peers by name, then incarnation.
func (p Peer) compare(o Peer) int {
	if c := cmp.Compare(p.Member.Node, o.Member.Node); c != 0 {
		return c
	}
	return cmp.Compare(string(p.Member.Incarnation[:]), string(o.Member.Incarnation[:]))
}

// ErrMeta is returned when what a node says of itself cannot be read, or does
// not fit into a packet.
var ErrMeta = errors.New("gossip: bad description of a node")

const (
	// metaVersion is the first byte of a description. A later version adds
	// fields at the end, which an older node skips; it changes only when that is
	// not enough.
	metaVersion = 1
	// maxMeta is memberlist's limit of a description.
	maxMeta = 512
	// maxText is the longest name, address or zone.
	maxText = 255
)

// memberName is the name under which memberlist knows a member.
func memberName(m register.Member) string { return m.Node + "#" + m.Incarnation.String() }

// parseName is the inverse of memberName.
func parseName(name string) (register.Member, error) {
	var m register.Member
	at := strings.LastIndexByte(name, '#')
	if at < 1 || at > maxText || len(name)-at-1 != 2*len(m.Incarnation) {
		return m, fmt.Errorf("%w: name %.300q", ErrMeta, name)
	}
	m.Node = name[:at]
	if _, err := hex.Decode(m.Incarnation[:], []byte(name[at+1:])); err != nil || memberName(m) != name || !utf8.ValidString(name) {
		return register.Member{}, fmt.Errorf("%w: name %.300q", ErrMeta, name)
	}
	return m, nil
}

// appendMeta encodes what a node tells about itself beside its name: version,
// then texts with a length before each.
func appendMeta(b []byte, p Peer) ([]byte, error) {
	b = append(b, metaVersion)
	for _, text := range []string{p.Address, p.Client, p.Zone} {
		if len(text) > maxText || !utf8.ValidString(text) {
			return nil, fmt.Errorf("%w: %.300q is over %d bytes, or not UTF-8", ErrMeta, text, maxText)
		}
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	if len(b) > maxMeta {
		return nil, fmt.Errorf("%w: addresses and zone take %d bytes, over %d", ErrMeta, len(b), maxMeta)
	}
	return b, nil
}

// parseMeta reads a description into p.
func parseMeta(b []byte, p *Peer) error {
	if len(b) == 0 || len(b) > maxMeta || b[0] != metaVersion {
		return fmt.Errorf("%w: %d bytes, or another version", ErrMeta, len(b))
	}
	b = b[1:]
	for _, to := range []*string{&p.Address, &p.Client, &p.Zone} {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > maxText || uint64(len(b)-used) < n {
			return fmt.Errorf("%w: it ends early", ErrMeta)
		}
		*to = string(b[used : used+int(n)])
		if b = b[used+int(n):]; !utf8.ValidString(*to) {
			return fmt.Errorf("%w: not UTF-8", ErrMeta)
		}
	}
	if p.Address == "" {
		return fmt.Errorf("%w: no address", ErrMeta)
	}
	return nil
}

// parsePeer reads a member as memberlist holds it.
func parsePeer(name string, meta []byte) (Peer, error) {
	var p Peer
	var err error
	if p.Member, err = parseName(name); err != nil {
		return Peer{}, err
	}
	if err := parseMeta(meta, &p); err != nil {
		return Peer{}, err
	}
	return p, nil
}
