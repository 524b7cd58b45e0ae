package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestClusterTokenIsReplaced as docs/how-to/versions.md says: the new token is in the file, the
// nodes are restarted one after the other, and whoever names all of them finds one that
// takes the token that it has, the old one until the last node has the new one and the new
// one from when the first has it.
func TestClusterTokenIsReplaced(t *testing.T) {
	thorough(t)
	const old, fresh = "the old token", "the new token"
	file := write(t, old)
	c := newCompany(t, "--auth-token-file", file)
	for range 3 {
		c.add().start(t)
	}
	ask := func(to, token string, args ...string) result {
		t.Helper()
		return nornWith(t, "", []string{"NORN_ADDR=" + to, "NORN_AUTH_TOKEN=" + token}, append(args, "--timeout", "20s")...)
	}
	settled := func(token string) {
		t.Helper()
		eventually(t, "the cluster is whole", func() bool {
			var s statusJSON
			r := ask(strings.Join(c.addresses(), ","), token, "cluster", "status", "-o", "json")
			return r.code == 0 && json.Unmarshal([]byte(r.out), &s) == nil && whole(&s, 3) == ""
		})
	}
	settled(old)
	if err := os.WriteFile(file, []byte(fresh), 0o600); err != nil {
		t.Fatal(err)
	}
	tried := 0
	look := func(restarted int) {
		t.Helper()
		for _, token := range []string{old, fresh} {
			for i, p := range c.all {
				takes := (token == fresh) == (i < restarted)
				if r := ask(p.listen, token, "task", "count"); (r.code == 0) != takes || !takes && !strings.Contains(r.err, "--auth-token") {
					t.Errorf("%d nodes have the new token; %s with %s: %+v", restarted, p.name, token, r)
				}
			}
			if token == old && restarted == len(c.all) || token == fresh && restarted == 0 {
				continue
			}
			for range 2 * len(c.all) { // the address that is tried first is drawn
				tried++
				if r := ask(strings.Join(c.addresses(), ","), token, "task", "enqueue", "-q", "q", "x"); r.code != 0 {
					t.Errorf("%d nodes have the new token; all of them with %s: %+v", restarted, token, r)
				}
			}
		}
	}
	look(0)
	for i, p := range c.all {
		p.stop(t)
		p.start(t)
		settled(fresh)
		look(i + 1)
	}
	if r := ask(c.all[0].listen, fresh, "task", "count", "-o", "json"); r.code != 0 || !strings.Contains(r.out, `36`) || tried != 36 {
		t.Errorf("of %d tasks are there: %+v", tried, r)
	}
}
