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
	head   []byte // checked, and not handed on yet
	opened bool
	left   int // bytes that may still come
	once   sync.Once
	closed func()
}

// Read gives the bytes of one encrypted message.
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
	b := make([]byte, mark+sealedHeader)
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

// Close closes the connection, and tells once.
func (s *stream) Close() error {
	err := s.Conn.Close()
	s.once.Do(s.closed)
	return err
}

// checkPacket checks a packet as open checks a stream.
func checkPacket(b []byte, label string) error {
	at := labelHeader + len(label)
	switch {
	case len(b) < labelHeader || b[0] != StreamByte || int(b[1]) != len(label) || len(b) < at || string(b[labelHeader:at]) != label:
		return ErrForeign
	case len(b) > maxPacket:
		return errTooLong
	case len(b)-at < sealedLeast || b[at] != sealedVersion:
		return fmt.Errorf("%w: not encrypted", ErrForeign)
	}
	return nil
}
