package guard

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/internal/mutant"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestEveryMethodNeedsAVerb fails for a method of the wire that nobody has given a verb.
func TestEveryMethodNeedsAVerb(t *testing.T) {
	if m := nornv1.Method_METHOD_SET_QUEUE; mutant.RouteUnjudged.On() {
		methods[m] = need{known: true}
	}
	free := []nornv1.Method{nornv1.Method_METHOD_HELLO, nornv1.Method_METHOD_PING, nornv1.Method_METHOD_WHO_AM_I}
	inner := []nornv1.Method{nornv1.Method_METHOD_UNSPECIFIED, nornv1.Method_METHOD_LAUNCH}
	nobody, root := NewPrincipal("nobody", ByNothing, nil, nil, ""), Root("root", ByTokenFile)
	for n, name := range nornv1.Method_name {
		m := nornv1.Method(n)
		v, ok := Verb(m)
		if ok == slices.Contains(inner, m) {
			t.Errorf("%s: is for clients: %v", name, ok)
		}
		if ok && (v == None) != slices.Contains(free, m) {
			t.Errorf("%s needs %q", name, v)
		}
		if n := 0; ok && v != None {
			if v.Each(func(Verbs) { n++ }); n != 1 {
				t.Errorf("%s needs %d verbs", name, n)
			}
			if _, err := Check(nobody, m, nil); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED || err.Effect != nornv1.Effect_EFFECT_NONE || !err.Lasting {
				t.Errorf("%s: nobody gets %v", name, err)
			}
		}
		if s, err := Check(root, m, nil); ok && (s != nil || err != nil) {
			t.Errorf("%s: root gets %v, %v", name, s, err)
		}
	}
	for _, m := range []nornv1.Method{-1, 34, 63, 64, 1000} {
		if _, err := Check(root, m, nil); err == nil {
			t.Errorf("root may use method %d", m)
		}
	}
}

// TestPatterns: a prefix ends where its star stands, and nothing else is special.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "a", true}, {"*", "acme/mail", true}, {"acme/*", "acme/mail", true}, {"acme/*", "acme/", true}, {"acme/*", "acme", false},
		{"acme/*", "acme2/mail", false}, {"acme/*", "acme2", false}, {"acme/mail*", "acme/mail2", true}, {"acme/mail*", "acme/mai", false},
		{"acme", "acme", true}, {"acme", "acme2", false}, {"acme", "acm", false}, {"a.*", "abc", false}, {"acme/mail", "acme/mail*", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
	for text, want := range map[string]string{
		"enqueue:acme/*": "", "enqueue,see:a": "", "*:*": "", "cluster:*": "", "*:acme/*": "is about the cluster",
		"cluster:acme/*": "is about the cluster", "work": "is not VERB", "work:": "is no pattern", "work:a*b": "is no pattern", "work:**": "is no pattern",
		"work:.*": "is no pattern", "wrok:a": `"wrok" is no verb`, ":a": "is no verb", "work:*a": "is no pattern",
	} {
		r, err := ParseRule(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && r.String() != text {
			t.Errorf("%q became %q", text, r)
		}
	}
}

// TestDeniedSaysWhatIsAllowed.
func TestDeniedSaysWhatIsAllowed(t *testing.T) {
	p := NewPrincipal("ci", ByToken, []string{"mailer"}, []Rule{{Enqueue, "acme/mail*"}, {See, "acme/*"}}, "")
	_, err := Check(p, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"acme/billing"}})
	if want := "ci (role mailer) may not work on anything; it may: see acme/*, enqueue acme/mail*"; err == nil || err.Message != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	_, err = Check(p, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "acme/mail"}, {Queue: "acme/billing"}}})
	if want := "ci (role mailer) may not enqueue on queue acme/billing; it may: see acme/*, enqueue acme/mail*"; err == nil || err.Message != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// asked is a request that names queues, and what the reference has to know of it.
type asked struct {
	method nornv1.Method
	body   gproto.Message
	queues []string
	worker string
	linked bool // with dependencies
}

func draw(r *rand.Rand, names []string) asked {
	q, w := names[r.IntN(len(names))], names[r.IntN(len(names))]
	switch r.IntN(10) {
	case 8:
		linked := &nornv1.TaskSpec{Queue: w, Dependencies: [][]byte{make([]byte, 20)}}
		return asked{nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: q}, linked}}, []string{q, w}, "", true}
	case 0:
		return asked{nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: q}, {Queue: w}}}, []string{q, w}, "", false}
	case 1:
		return asked{nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{q}, Worker: w}, []string{q}, w, false}
	case 2:
		beat := &nornv1.SessionHeartbeat{Name: w, Queues: []*nornv1.SessionQueue{{Queue: q}}}
		return asked{nornv1.Method_METHOD_SESSION, &nornv1.SessionRequest{Messages: []*nornv1.WorkerMessage{{Body: &nornv1.WorkerMessage_Heartbeat{Heartbeat: beat}}}}, []string{q}, w, false}
	case 3:
		return asked{nornv1.Method_METHOD_LIST, &nornv1.ListRequest{Queue: q}, []string{q}, "", false}
	case 4:
		return asked{nornv1.Method_METHOD_SET_QUEUE, &nornv1.SetQueueRequest{Name: q}, []string{q}, "", false}
	case 5:
		return asked{nornv1.Method_METHOD_SET_WORKER, &nornv1.SetWorkerRequest{Name: q}, []string{q}, "", false}
	case 7:
		return asked{nornv1.Method_METHOD_WORKERS, &nornv1.WorkersRequest{Queue: q}, []string{q}, "", false}
	case 6:
		put := &nornv1.ScheduleChange_Put{Put: &nornv1.PutSchedule{Spec: &nornv1.ScheduleSpec{Task: &nornv1.TaskSpec{Queue: q}}}}
		return asked{nornv1.Method_METHOD_CHANGE_SCHEDULES, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{{Name: w, Action: put}}}, []string{q}, w, false}
	}
	return asked{nornv1.Method_METHOD_WORK, &nornv1.WorkRequest{Claim: &nornv1.ClaimRequest{Queues: []string{q}}}, []string{q}, "", false}
}

// reference is the whole rule: within the tenant, and some rule has the verb and the name.
func reference(rules []Rule, prefix string, v Verbs, name string) bool {
	return strings.HasPrefix(name, prefix) && slices.ContainsFunc(rules, func(r Rule) bool {
		stem, star := strings.CutSuffix(r.Pattern, "*")
		return r.Verbs&v != 0 && (r.Pattern == name || star && strings.HasPrefix(name, stem))
	})
}

// TestRandomAgainstReference draws principals, roles, tenants and requests.
func TestRandomAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(52, 1))
	names := []string{"acme", "acme/mail", "acme/mail2", "acme/billing", "acme2", "acme2/mail", "b", "b/mail"}
	patterns := append([]string{"*", "acme/*", "acme*", "acme2/*", "acme/mail*", "b*"}, names...)
	refused, passed := 0, 0
	for range 200_000 {
		var rules []Rule
		for range r.IntN(4) {
			rules = append(rules, Rule{Verbs(r.IntN(int(All) + 1)), patterns[r.IntN(len(patterns))]})
		}
		prefix := []string{"", "", "acme/", "b/"}[r.IntN(4)]
		p := NewPrincipal("p", ByToken, nil, rules, prefix)
		if mutant.TenantSibling.On() {
			p.scope.Prefix = strings.TrimSuffix(prefix, "/")
		}
		a := draw(r, names)
		verb, _ := Verb(a.method)
		want := a.worker == "" || strings.HasPrefix(a.worker, prefix)
		if a.linked { // it would tell whether there is a task, whoever's it is
			want = prefix == "" && slices.ContainsFunc(rules, func(r Rule) bool { return r.Verbs&See != 0 && r.Pattern == Everything })
		}
		for _, q := range a.queues {
			want = want && reference(rules, prefix, verb, q)
		}
		scope, err := Check(p, a.method, a.body)
		if (err == nil) != want {
			t.Fatalf("%v within %q: %s %v: %v, want %v", rules, prefix, a.method, a.body, err, want)
		}
		if err != nil {
			refused++
			continue
		}
		passed++
		for _, name := range names {
			v := Verbs(1 << r.IntN(len(verbNames)))
			if v&(methods[a.method].scoped|methods[a.method].verb) != 0 && scope.May(v, name) != reference(rules, prefix, v, name) {
				t.Fatalf("%v within %q: the scope of %s has %s on %s: %v", rules, prefix, a.method, v, name, scope.May(v, name))
			}
		}
	}
	if refused < 10_000 || passed < 10_000 {
		t.Errorf("%d refused, %d passed: the draw tells little", refused, passed)
	}
}

// TestWhoHasLess: who may do all that another one might, by rules that are drawn, against what they allow.
func TestWhoHasLess(t *testing.T) {
	r := rand.New(rand.NewPCG(52, 2))
	patterns, names := []string{"*", "a*", "ab*", "ab", "a", "b*"}, []string{"a", "ab", "abc", "ac", "b", "bc", "c"}
	drawn := func() *Principal {
		var rules []Rule
		for range r.IntN(3) {
			rules = append(rules, Rule{Verbs(r.IntN(8)), patterns[r.IntN(len(patterns))]})
		}
		return NewPrincipal("p", ByToken, nil, rules, []string{"", "", "", "ab/"}[r.IntN(4)])
	}
	less := 0
	for range 50_000 {
		was, is := drawn(), drawn()
		kept := true
		for _, name := range names {
			for v := Enqueue; v <= See; v <<= 1 {
				kept = kept && (is.scope.May(v, name) || !was.scope.May(v, name))
			}
		}
		if is.Has(was) && !kept {
			t.Fatalf("%v, %q has all of %v, %q", is.Rules(), is.Prefix(), was.Rules(), was.Prefix())
		}
		if !is.Has(was) {
			less++
		}
		if !is.Has(is) || !Root("root", ByTokenFile).Has(is) {
			t.Fatalf("%v has less than itself, or more than root", is.Rules())
		}
	}
	if less < 1000 {
		t.Errorf("%d of those that were drawn have less", less)
	}
	for _, c := range []struct{ is, was, want string }{
		{"see:*", "see:acme/*", "yes"}, {"see:acme*", "see:acme/mail", "yes"}, {"see:acme/*", "see:acme*", "no"}, {"see:acme/*", "see,work:acme/*", "no"}, {"see:a", "see:b", "no"}, {"access:*", "cluster:*", "no"},
	} {
		is, _ := ParseRule(c.is)
		was, _ := ParseRule(c.was)
		if got := NewPrincipal("p", ByToken, nil, []Rule{is}, "").Has(NewPrincipal("p", ByToken, nil, []Rule{was}, "")); got != (c.want == "yes") {
			t.Errorf("%s has all of %s: %v", c.is, c.was, got)
		}
	}
}

// TestACheckAllocatesNothing, whether there is a scope or not.
func TestACheckAllocatesNothing(t *testing.T) {
	for name, p := range subjects() {
		body := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "acme/mail"}}}
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := Check(p, nornv1.Method_METHOD_ENQUEUE, body); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: a check allocates %v times", name, n)
		}
	}
}

func subjects() map[string]*Principal {
	var many []Rule
	for i := range MaxRules {
		many = append(many, Rule{See, "other/" + string(rune('a'+i%26)) + "*"})
	}
	many = append(many, Rule{Enqueue, "acme/*"})
	return map[string]*Principal{"root": Root("root", ByTokenFile), "many rules": NewPrincipal("ci", ByToken, nil, many, "acme/")}
}

func BenchmarkCheck(b *testing.B) {
	body := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "acme/mail"}}}
	for name, p := range subjects() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Check(p, nornv1.Method_METHOD_ENQUEUE, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
