package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// StreamByte is the first byte of every stream of gossip: the mark of
// memberlist's label header.
const StreamByte = 244

// Parts of what is on the wire, as memberlist v0.7 writes it.
const (
	labelHeader   = 2  // StreamByte, length of the label
	sealedMark    = 10 // a stream's message that is encrypted
	sealedVersion = 1  // AES-GCM without padding
	sealedLeast   = 30 // version, nonce, one byte, tag
	sealedHeader  = 1 + 4 + 1
)

// Kinds of messages in plain.
const (
	kindPing     = 0
	kindAck      = 2
	kindState    = 6
	kindPacked   = 9
	kindSealed   = sealedMark
	kindChecksum = 12 // before another one; the last that a packet may begin with
	kindError    = 13
)

var (
	// ErrForeign is returned when a stream is not gossip of this cluster.
	ErrForeign = errors.New("gossip: not of this cluster")
	// errTooLong is returned when a stream brings more than maxStream.
	errTooLong = errors.New("gossip: the stream is too long")
)

// stream is a connection whose incoming bytes are checked and counted before
// memberlist reads them. It ends for good when it is closed.
type stream struct {
	net.Conn
	label  string // expected before anything else; "" in an answer
	plain  bool   // nothing is encrypted
	home   bool   // it comes from where a member is
	head   []byte // checked, and not handed on yet
	opened bool
	left   int // bytes that may still come
	once   sync.Once
	closed func()
}

// Read gives the bytes of one message.
func (s *stream) Read(p []byte) (int, error) {
	if !s.opened {
		if err := s.open(); err != nil {
			return 0, err
		}
		s.opened = true
	}
	if len(s.head) > 0 {
		n := copy(p, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	if s.left <= 0 {
		return 0, errTooLong
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// open reads and checks what is before the encrypted bytes. memberlist would
// take a message that is not encrypted for one from before encryption, and
// panic over an empty or badly padded one.
func (s *stream) open() error {
	mark := 0
	if s.label != "" {
		mark = labelHeader + len(s.label)
	}
	header := sealedHeader
	if s.plain {
		header = 1
	}
	b := make([]byte, mark+header)
	if mark > 0 {
		if _, err := io.ReadFull(s.Conn, b[:mark]); err != nil {
			return err
		}
		if b[0] != StreamByte || int(b[1]) != len(s.label) || string(b[labelHeader:mark]) != s.label {
			return ErrForeign
		}
	}
	if _, err := io.ReadFull(s.Conn, b[mark:]); err != nil {
		return err
	}
	if s.plain {
		return s.openPlain(b, b[mark])
	}
	sealed := b[mark:]
	length := binary.BigEndian.Uint32(sealed[1:])
	if sealed[0] != sealedMark || sealed[5] != sealedVersion || length < sealedLeast {
		return fmt.Errorf("%w: not encrypted", ErrForeign)
	}
	if length > maxStream {
		return errTooLong
	}
	s.head, s.left = b, int(length)-1 // the version is one of them
	return nil
}

// openPlain checks the kind of a message that is not encrypted: what is never sent here, as
// what is packed or an operator's own, would cost memory before it is found bad.
func (s *stream) openPlain(b []byte, kind byte) error {
	if kind == kindState {
		header, err := readStateHeader(s.Conn)
		if err != nil {
			return err
		}
		b = append(b, header...)
	}
	switch {
	case kind == kindState, s.label != "" && kind == kindPing, s.label == "" && (kind == kindAck || kind == kindError):
		s.head, s.left = b, maxStream-len(b)
		return nil
	case kind == kindSealed:
		return fmt.Errorf("%w: encrypted, and this node has no gossip key", ErrForeign)
	}
	return fmt.Errorf("%w: a message of kind %d", ErrForeign, kind)
}

// readStateHeader reads what comes before the members in a message of them in plain: a map of
// msgpack of at most four names of 31 bytes to numbers or truths. memberlist makes room for as
// many members, and as many bytes, as that says.
func readStateHeader(from io.Reader) (all []byte, err error) {
	next := func(n int) []byte {
		b := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(from, b)
		}
		all = append(all, b...)
		return b
	}
	fields := next(1)[0]
	if err == nil && (fields < 0x80 || fields > 0x84) {
		return nil, fmt.Errorf("%w: malformed members", ErrForeign)
	}
	for left := fields & 0x0f; err == nil && left > 0; left-- {
		mark := next(1)[0]
		name := string(next(int(mark & 0x1f)))
		kind := next(1)[0]
		value := uint64(0)
		switch {
		case err != nil:
			return nil, err
		case mark&0xe0 != 0xa0:
			return nil, fmt.Errorf("%w: malformed members", ErrForeign)
		case kind < 0x80:
			value = uint64(kind)
		case kind == 0xc2 || kind == 0xc3: // true and false
		case kind >= 0xcc && kind <= 0xcf: // of 1, 2, 4 or 8 bytes
			for _, b := range next(1 << (kind - 0xcc)) {
				value = value<<8 | uint64(b)
			}
		default:
			return nil, fmt.Errorf("%w: malformed members", ErrForeign)
		}
		if name == "Nodes" && value > 2*maxMembers || name == "UserStateLen" && value > 0 {
			return nil, errTooLong
		}
	}
	return all, err
}

// Close closes the connection, and tells once.
func (s *stream) Close() error {
	err := s.Conn.Close()
	s.once.Do(s.closed)
	return err
}

// checkPacket checks a packet as open checks a stream.
func checkPacket(b []byte, label string, plain bool) error {
	at := labelHeader + len(label)
	switch {
	case len(b) < labelHeader || b[0] != StreamByte || int(b[1]) != len(label) || len(b) < at || string(b[labelHeader:at]) != label:
		return ErrForeign
	case len(b) > maxPacket:
		return errTooLong
	case plain && (len(b) == at || b[at] > kindChecksum || b[at] == kindPacked || b[at] == kindSealed):
		return fmt.Errorf("%w: not a message in plain", ErrForeign)
	case plain:
		return nil
	case len(b)-at < sealedLeast || b[at] != sealedVersion:
		return fmt.Errorf("%w: not encrypted", ErrForeign)
	}
	return nil
}
