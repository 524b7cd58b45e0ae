package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// guardedCompany are nodes that take the token of a file, and others once there are.
type guardedCompany struct{ *company }

const rootOfFile = "r00t-of-the-file"

// as runs a command with a token, through these addresses.
func (c guardedCompany) as(token string, to []string, args ...string) result {
	c.t.Helper()
	return nornWith(c.t, "", []string{"NORN_ADDR=" + strings.Join(to, ","), "NORN_AUTH_TOKEN=" + token}, args...)
}

// on runs one that has to do.
func (c guardedCompany) on(token string, to []string, args ...string) string {
	c.t.Helper()
	r := c.as(token, to, args...)
	if r.code != 0 {
		c.t.Fatalf("%v: %+v", args, r)
	}
	return strings.TrimSpace(r.out)
}

// settled waits until each node says that all of the cluster is there.
func (c guardedCompany) settled() {
	c.t.Helper()
	for _, p := range c.all {
		eventually(c.t, p.name+" says that the cluster is whole", func() bool {
			var s statusJSON
			r := c.as(rootOfFile, []string{p.listen}, "cluster", "status", "-o", "json", "--timeout", "5s")
			return r.code == 0 && json.Unmarshal([]byte(r.out), &s) == nil && whole(&s, len(c.all)) == ""
		})
	}
}

func newGuardedCompany(t *testing.T) guardedCompany {
	c := guardedCompany{newCompany(t, "--auth-token-file", write(t, rootOfFile+"\n"))}
	for range 3 {
		c.add().start(t)
	}
	c.settled()
	return c
}

// TestRolesComeToAClusterOfAFile: the nodes know a token in a file and nothing else; one after the other is
// replaced by one that keeps an audit, and in the midst of that the first roles and tokens are made. Who has the token
// of the file is refused nothing in the meantime, by no node; who has one of the register nothing from then on.
// Long because: it is one run of events, beside requests that go on.
func TestRolesComeToAClusterOfAFile(t *testing.T) {
	c := newGuardedCompany(t)
	all := c.addresses()
	var mu sync.Mutex
	holders, refusals, done := []string{rootOfFile}, []string(nil), 0
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			mu.Lock()
			tokens := holders
			mu.Unlock()
			for _, token := range tokens {
				r := c.as(token, all, "task", "enqueue", "-q", "mail", "x")
				mu.Lock()
				if done++; r.code != 0 {
					refusals = append(refusals, r.err)
				}
				mu.Unlock()
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	came := func(n int) { // so many requests
		mu.Lock()
		until := done + n
		mu.Unlock()
		eventually(t, "requests come", func() bool { mu.Lock(); defer mu.Unlock(); return done >= until })
	}
	var shop, viewer string
	came(3)
	for i, p := range c.all {
		p.stop(t)
		p.start(t, "--audit-log", filepath.Join(p.data, "audit.log"))
		c.settled()
		for _, q := range c.all {
			if r := c.as("a wrong one", []string{q.listen}, "task", "count"); r.code == 0 {
				t.Errorf("with %d nodes replaced %s lets in who has a wrong token", i+1, q.name)
			}
		}
		if i == 0 {
			c.on(rootOfFile, []string{p.listen}, "access", "role", "set", "shop", "--allow", "enqueue,see:mail")
			shop = c.on(rootOfFile, []string{p.listen}, "access", "token", "create", "--name", "shop", "--role", "shop")
			viewer = c.on(rootOfFile, []string{p.listen}, "access", "token", "create", "--name", "eve", "--role", "viewer")
			for _, q := range c.all { // also those that were not replaced
				eventually(t, q.name+" knows the token", func() bool { return c.as(shop, []string{q.listen}, "task", "count", "-q", "mail").code == 0 })
			}
			mu.Lock()
			holders = append(holders, shop)
			mu.Unlock()
		}
		for _, q := range c.all {
			if r := c.as(viewer, []string{q.listen}, "task", "enqueue", "-q", "mail", "x"); r.code == 0 || !strings.Contains(r.err, "eve (role viewer) may not enqueue") {
				t.Errorf("with %d nodes replaced, through %s: %+v", i+1, q.name, r)
			}
		}
		came(6)
	}
	close(stop)
	<-over
	if len(refusals) > 0 || done < 20 {
		t.Errorf("of %d requests %d were refused: %q", done, len(refusals), refusals)
	}
	if out := c.on(rootOfFile, all, "task", "count", "-q", "mail", "-o", "json"); !strings.Contains(out, fmt.Sprintf(`"total": "%d"`, done)) {
		t.Errorf("of %d tasks are there: %s", done, out)
	}
	if out := c.on(rootOfFile, all, "access", "whoami"); !strings.Contains(out, "root") {
		t.Error(out)
	}
}

// TestARestartWithoutTheOthers: two of three nodes are gone, and the third starts again. It lets in those who
// were let in before, to what their roles allow and to nothing else, and those not whose tokens were revoked; rights
// cannot be changed, and that is said.
func TestARestartWithoutTheOthers(t *testing.T) {
	c := newGuardedCompany(t)
	all, n1 := c.addresses(), c.all[0]
	lone := []string{n1.listen}
	c.on(rootOfFile, all, "access", "role", "set", "shop", "--allow", "enqueue,see:acme/*")
	shop := c.on(rootOfFile, all, "access", "token", "create", "--name", "shop", "--role", "shop")
	gone := c.on(rootOfFile, all, "access", "token", "create", "--name", "gone", "--role", "viewer")
	theirs := c.on(rootOfFile, all, "task", "enqueue", "-q", "billing", "-w", "all", "x")
	c.on(rootOfFile, all, "access", "token", "revoke", strings.Split(gone, "_")[1], "--wait")
	c.all[1].kill(t)
	c.all[2].kill(t)
	n1.kill(t)
	n1.launch(t)
	eventually(t, "the lone node takes a task of who was allowed", func() bool {
		return c.as(shop, lone, "task", "enqueue", "-q", "acme/mail", "-w", "one", "--timeout", "2s", "x").code == 0
	})
	own := c.on(shop, lone, "task", "enqueue", "-q", "acme/mail", "-w", "one", "x")
	c.on(shop, lone, "task", "get", "-r", "one", own)
	if r := c.as(shop, lone, "task", "get", "-r", "one", theirs, "--timeout", "8s"); r.code == 0 || strings.Contains(r.out+r.err, "billing") {
		t.Errorf("a task that may not be seen: %+v", r)
	}
	for _, tt := range []struct {
		token, words string
		args         []string
	}{
		{shop, "shop (role shop) may not enqueue on queue billing", []string{"task", "enqueue", "-q", "billing", "-w", "one", "x"}},
		{shop, "shop (role shop) may not work", []string{"task", "claim", "-q", "acme/mail"}},
		{gone, "auth token", []string{"task", "count"}},
		{rootOfFile, "majority", []string{"access", "token", "create", "--name", "late", "--role", "viewer", "--timeout", "8s"}},
		{rootOfFile, "majority", []string{"access", "token", "revoke", strings.Split(shop, "_")[1], "--timeout", "8s"}},
	} {
		begun := time.Now()
		if r := c.as(tt.token, lone, tt.args...); r.code == 0 || !strings.Contains(r.err, tt.words) {
			t.Errorf("%v after %v: %+v", tt.args, time.Since(begun), r)
		}
	}
	c.all[1].launch(t)
	c.all[2].launch(t)
	c.settled()
	// What had no majority was unknown, not refused: it may be done by now.
	if r := c.as(rootOfFile, lone, "access", "token", "revoke", strings.Split(shop, "_")[1], "--wait"); r.code != 0 && !strings.Contains(r.err, "there is no token") {
		t.Errorf("%+v", r)
	}
	for _, p := range c.all {
		if r := c.as(shop, []string{p.listen}, "task", "get", own); r.code == 0 || !strings.Contains(r.err, "auth token") {
			t.Errorf("through %s after the revocation: %+v", p.name, r)
		}
	}
}
