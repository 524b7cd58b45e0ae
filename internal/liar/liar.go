package liar

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

const (
	head     = 10 // bytes that the length of a frame counts besides the body
	maxFrame = 64 << 20
	method   = 0x03ff // bits of the method in the word of a frame
)

func marshal(fields map[string]any) ([]byte, error) {
	if fields == nil {
		fields = map[string]any{}
	}
	return json.Marshal(fields)
}

// Liar stands before a server.
type Liar struct {
	to       string
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	lies   []*lie
	seen   map[string]int
	open   map[net.Conn]bool
	closed bool
}

// New starts one on a free port of this machine, before the server at the address.
func New(to string, rules []Rule) (*Liar, error) {
	l := &Liar{to: to, seen: map[string]int{}, open: map[net.Conn]bool{}}
	for _, r := range rules {
		one, err := read(r)
		if err != nil {
			return nil, err
		}
		l.lies = append(l.lies, one)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.listener = listener
	l.running.Go(l.accept)
	return l, nil
}

// Addr is where clients connect.
func (l *Liar) Addr() string { return l.listener.Addr().String() }

// Seen is how many requests of each method came so far, by name.
func (l *Liar) Seen() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]int, len(l.seen))
	for name, n := range l.seen {
		out[name] = n
	}
	return out
}

// Close ends it and its connections.
func (l *Liar) Close() {
	l.mu.Lock()
	l.closed = true
	for c := range l.open { // Any order: all are closed.
		_ = c.Close()
	}
	l.mu.Unlock()
	_ = l.listener.Close()
	l.running.Wait()
}

func (l *Liar) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return false
	}
	l.open[c] = true
	return true
}

func (l *Liar) drop(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
}

func (l *Liar) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		if !l.keep(near) {
			return
		}
		l.running.Go(func() { l.serve(near) })
	}
}

// judge counts a request and gives the lie about it, or nil.
func (l *Liar) judge(word uint16) *lie {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := strings.TrimPrefix(nornv1.Method(word&method).String(), "METHOD_")
	l.seen[name]++
	for _, one := range l.lies {
		if one.takes(word & method) {
			return one
		}
	}
	return nil
}

// line is a connection of a client, and the one to the server that belongs to it.
type line struct {
	l         *Liar
	near, far net.Conn

	mu      sync.Mutex // guards lies, and that frames to the client are whole
	pending map[uint64]*lie
}

func (l *Liar) serve(near net.Conn) {
	defer l.drop(near)
	far, err := net.Dial("tcp", l.to)
	if err != nil || !l.keep(far) {
		return
	}
	defer l.drop(far)
	c := &line{l: l, near: near, far: far, pending: map[uint64]*lie{}}
	l.running.Go(func() {
		c.answers()
		_ = near.Close()
		_ = far.Close()
	})
	c.requests()
}

func (c *line) requests() {
	for {
		frame, err := next(c.near)
		if err != nil {
			return
		}
		number, word := binary.BigEndian.Uint64(frame[4:]), binary.BigEndian.Uint16(frame[12:])
		if word&transport.FlagCancel == 0 {
			one := c.l.judge(word)
			if one != nil && !c.before(one, number, word) {
				return
			}
			if one != nil && one.alone() {
				continue
			}
		}
		if _, err := c.far.Write(frame); err != nil {
			return
		}
	}
}

// alone tells whether the server does not get the request.
func (l *lie) alone() bool { return l.Do == Swallow || l.Do == Fail || l.Do == Say }

// before lies about a request that has come; false ends the connection.
func (c *line) before(one *lie, number uint64, word uint16) bool {
	switch one.Do {
	case CutBefore:
		return false
	case Greeting:
		_, err := io.WriteString(c.near, "SSH-2.0-liar\r\n")
		return err == nil && c.rest()
	case Fail:
		return c.say(number, word&method|transport.FlagResponse|transport.FlagError, one.body) == nil
	case Say:
		return c.say(number, word&method|transport.FlagResponse, one.body) == nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[number] = one
	return true
}

// rest reads what a client sends until it goes.
func (c *line) rest() bool {
	_, _ = io.Copy(io.Discard, c.near)
	return false
}

func (c *line) answers() {
	for {
		frame, err := next(c.far)
		if err != nil {
			return
		}
		number := binary.BigEndian.Uint64(frame[4:])
		c.mu.Lock()
		one := c.pending[number]
		delete(c.pending, number)
		c.mu.Unlock()
		if one == nil {
			if c.send(frame) != nil {
				return
			}
			continue
		}
		if !c.after(one, number, frame) {
			return
		}
	}
}

// after lies about an answer; false ends the connection.
func (c *line) after(one *lie, number uint64, frame []byte) bool {
	word := binary.BigEndian.Uint16(frame[12:])
	body := frame[4+head:]
	switch one.Do {
	case Cut:
		return false
	case Drop:
		return true
	case Late:
		time.AfterFunc(time.Duration(one.Seconds*float64(time.Second)), func() { _ = c.send(frame) })
		return true
	case Twice:
		return c.send(append(frame, frame...)) == nil
	case Stranger:
		return c.say(number+1<<40, word, body) == nil && c.send(frame) == nil
	case Garbage:
		return c.say(number, word, []byte{0xff, 0xff, 0xff, 0xff, 0xff}) == nil
	case Misnamed:
		return c.say(number, word&^method|uint16(nornv1.Method_METHOD_LIST), body) == nil
	case Flags:
		return c.say(number, word|0x0400, body) == nil
	case Short:
		binary.BigEndian.PutUint32(frame, head-1)
	case Long:
		binary.BigEndian.PutUint32(frame, 1<<31-1)
	case Cropped:
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4-1))
	case Half:
		_ = c.send(frame[:len(frame)/2])
		return false
	}
	return c.send(frame) == nil
}

func (c *line) say(number uint64, word uint16, body []byte) error {
	frame := binary.BigEndian.AppendUint32(nil, uint32(head+len(body)))
	frame = binary.BigEndian.AppendUint64(frame, number)
	frame = binary.BigEndian.AppendUint16(frame, word)
	return c.send(append(frame, body...))
}

func (c *line) send(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.near.Write(frame)
	return err
}

// next reads a frame whole, with its length.
func next(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < head || n > maxFrame {
		return nil, errors.New("liar: that is no frame")
	}
	frame := append(length[:], make([]byte, n)...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
