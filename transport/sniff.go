package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"
)

// sniffBytes is what it takes to recognise another protocol. All of these,
// read as a length, are far above any frame limit.
const sniffBytes = 4

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

// sniff answers a peer that speaks another protocol in its own words.
func (c *Conn) sniff(b []byte) error {
	switch {
	case isHTTP(b):
		c.answer(httpAnswer)
		return ErrPeerHTTP
	case isTLS(b):
		c.answer(tlsAlert)
		return ErrPeerTLS
	}
	return nil
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
