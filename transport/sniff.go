package transport

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// sniffBytes is what it takes to recognise another protocol: a length of ours, and
	// the beginning of a word of others.
	sniffBytes = 4
	// mostLength is over the length of any frame: what begins with more is no frame.
	mostLength = skipFactor * DefaultMaxFrame
	// mostQuoted is how much of what somebody says an error repeats, bytes.
	mostQuoted = 80
)

const httpAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"This port speaks the Norn protocol, not HTTP. Use the norn command or a Norn client;\n" +
	"the HTTP API and the dashboard have an address of their own.\n"

const httpNeedsTLS = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"This port speaks the Norn protocol over TLS, not HTTP.\n"

// tlsAlert is a fatal alert, protocol_version.
const tlsAlert = "\x15\x03\x01\x00\x02\x02\x46"

// protocolVersion is what it says. A port that does not speak TLS says it, and none
// that does: those speak the versions of a client.
const protocolVersion tls.AlertError = 0x46

// isAlert recognises an alert of the other side, by the name that package tls gives
// it: the type of it is not exported.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// isHTTP recognises the beginning of an HTTP request, isHTTPReply that of an answer.
func isHTTP(b []byte) bool {
	for _, method := range []string{"GET ", "POST", "HEAD", "PUT ", "OPTI", "DELE", "PATC", "CONN", "TRAC", "PRI "} {
		if strings.HasPrefix(string(b), method) {
			return true
		}
	}
	return false
}

func isHTTPReply(b []byte) bool { return strings.HasPrefix(string(b), "HTTP") }

// isTLS recognises a TLS handshake, isTLSAlert the alert of a TLS server that
// got something else.
func isTLS(b []byte) bool      { return b[0] == 0x16 && b[1] == 0x03 }
func isTLSAlert(b []byte) bool { return b[0] == 0x15 && b[1] == 0x03 }

// stranger is why the first bytes of a connection are not those of a frame; nil: they may
// be. With less than sniffBytes it does not know HTTP from other text.
func stranger(b []byte) error {
	switch {
	case len(b) == 0:
		return nil
	case len(b) < sniffBytes:
		if int(b[0]) <= mostLength>>24 {
			return nil
		}
	case isHTTP(b), isHTTPReply(b):
		return fmt.Errorf("%w: it says %s", ErrPeerHTTP, quoted(b))
	case isTLS(b), isTLSAlert(b):
		return ErrPeerTLS
	default:
		if length := binary.BigEndian.Uint32(b); headBytes <= length && length <= mostLength {
			return nil
		}
	}
	return fmt.Errorf("%w: it says %s", ErrPeerOther, quoted(b))
}

// quoted is the beginning of what somebody says, safe to show: the first line of a text,
// and of anything else so many bytes.
func quoted(b []byte) string {
	if line, _, ok := bytes.Cut(b, []byte("\n")); ok && len(line) > 1 && !bytes.ContainsFunc(bytes.TrimRight(line, "\r"), func(r rune) bool { return r < ' ' }) {
		b = bytes.TrimRight(line, "\r")
	}
	if len(b) > mostQuoted {
		return strconv.QuoteToASCII(string(b[:mostQuoted])) + "…"
	}
	return strconv.QuoteToASCII(string(b))
}

// proxyHeaders are the beginnings of a header of the PROXY protocol, version 1 and 2; what
// comes behind them is not needed to know it.
var proxyHeaders = []string{"PROXY", "\r\n\r\n\x00"}

// BeginsProxied tells whether a connection begins with a header of the PROXY protocol: a
// proxy says by it for whom it connects.
func BeginsProxied(b []byte) bool {
	return slices.ContainsFunc(proxyHeaders, func(begin string) bool { return strings.HasPrefix(string(b), begin) })
}

// MayBeginProxied tells whether so much of a connection is the beginning of one, and too
// little to know.
func MayBeginProxied(b []byte) bool {
	return slices.ContainsFunc(proxyHeaders, func(begin string) bool { return len(b) < len(begin) && strings.HasPrefix(begin, string(b)) })
}

// proxied refuses such a header: whose word counts was seen before.
func (c *Conn) proxied() error {
	return fmt.Errorf("%w, and %s is not named in proxy-from", ErrPeerProxied, c.RemoteAddr())
}

// sniff answers a peer that speaks another protocol in its own words.
func (c *Conn) sniff(b []byte) error {
	err := stranger(b)
	switch {
	case errors.Is(err, ErrPeerHTTP):
		c.answer(httpAnswer)
	case errors.Is(err, ErrPeerTLS):
		c.answer(tlsAlert)
	case err != nil && BeginsProxied(b):
		return c.refuse(Frame{}, c.proxied())
	case err != nil:
		return c.refuse(Frame{}, err)
	}
	return err
}

// answer writes text instead of frames. Nothing else was written before: the
// first frame has not come.
func (c *Conn) answer(text string) {
	answer(c.nc, text, c.srv.cfg.WriteTimeout)
}

func answer(nc net.Conn, text string, timeout time.Duration) {
	if nc.SetWriteDeadline(time.Now().Add(timeout)) != nil {
		return
	}
	if _, err := nc.Write([]byte(text)); err == nil {
		linger(nc)
	}
}

// answerPlain answers a peer that does not speak TLS where TLS is due: HTTP in
// its own words, others with an alert that a Norn client knows.
func answerPlain(raw net.Conn, start []byte, timeout time.Duration) {
	if isHTTP(start) {
		answer(raw, httpNeedsTLS, timeout)
		return
	}
	answer(raw, tlsAlert, timeout)
}
