package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestDevIsOpenOnLoopback: norn dev asks nobody who they are, unless it is told to, and is heard on loopback alone.
func TestDevIsOpenOnLoopback(t *testing.T) {
	beside(t)
	base := basePort(t, 1)
	d := startDev(t, "--nodes", "1", "--base-port", fmt.Sprint(base)).ready(t)
	if said := d.err.String(); strings.Contains(said, "token") {
		t.Errorf("it asks for a token, or speaks of one: %s", said)
	}
	if r := nornWith(t, "", to(loopback(base)), "access", "whoami"); r.code != 0 || !strings.Contains(r.out, "anonymous") || !strings.Contains(r.out, "admin") {
		t.Errorf("who shows nothing is %+v", r)
	}
	for _, command := range []string{"task enqueue -q q x", "queue pause q", "task cancel --filter queue=q", "access role set r --allow see:*", "cluster status"} {
		if r := nornWith(t, "", to(loopback(base)), strings.Fields(command)...); r.code != 0 {
			t.Errorf("%s: %+v", command, r)
		}
	}
	reply, err := http.Get("http://" + loopback(base+2) + "/api/v1/queues")
	if err != nil {
		t.Fatal(err)
	}
	if _ = reply.Body.Close(); reply.StatusCode != http.StatusOK {
		t.Errorf("over HTTP: %s", reply.Status)
	}
	for i := range 3 { // clients, nodes, HTTP: who listens on all addresses is heard on this one, too
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", base+i)); err == nil {
			_ = c.Close()
			t.Errorf("port %d listens on other addresses than 127.0.0.1", base+i)
		}
	}
}
