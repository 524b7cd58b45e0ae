package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// refuse has a node refuse all claims that are on their way to it, and gives how many
// messages these were. Those to others stay in the post.
func (r *trio) refuse(i int, with message.PartTaken) (n int) {
	for {
		at := slices.IndexFunc(r.post, func(l letter) bool { _, is := l.message.(*message.Claims); return is && l.to == i })
		if at < 0 {
			return n
		}
		l := r.post[at]
		r.post = slices.Delete(r.post, at, at+1)
		answer := &message.ClaimsTaken{Round: l.message.(*message.Claims).Round}
		for _, p := range l.message.(*message.Claims).Parts {
			with.Partition = p.Partition
			answer.Parts = append(answer.Parts, with)
		}
		r.say(i, l.from, answer)
		n++
	}
}

// dies ends a node, and the others hear of it.
func (r *trio) dies(i int) {
	r.kill(i)
	r.tell()
}

// TestADeadMemberIsNotWaitedForOnceAnotherRefuses: with one member dead and the other
// one refusing no majority is to come, and a claim waited for it for two seconds. What
// was tried is taken back at once, nothing is handed out, and the task is free when the
// other one takes it. While nobody has refused, or the third is in reach, it is waited for.
func TestADeadMemberIsNotWaitedForOnceAnotherRefuses(t *testing.T) {
	no, skewed := message.PartTaken{No: true}, message.PartTaken{Refused: []message.Refusal{{Verdict: vnode.SkewedClock}}}
	for _, c := range []struct {
		name  string
		with  message.PartTaken
		third message.PartTaken // what the third says before it dies
		first bool              // it dies before the other one refuses
	}{
		{name: "refuses all, dead before", with: no, first: true},
		{name: "refuses all, dies later", with: no},
		{name: "refuses one, dead before", with: skewed, first: true},
		{name: "refuses one, dies later", with: skewed},
		{name: "one refuses all, one refuses one", with: no, third: skewed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTrio(t)
			task := r.put(0, 1)
			i := r.leader(1)
			other, third := (i+1)%3, (i+2)%3
			passed := func(want uint64, when string) {
				t.Helper()
				if n := r.peers[i].core.Stats().Passed; n != want {
					t.Fatalf("%s %d grants were given up, not %d", when, n, want)
				}
			}
			from := r.send(i, claimUpTo(1))
			if c.first {
				r.dies(third)
				passed(0, "while nobody had refused")
			}
			r.refuse(other, c.with)
			switch {
			case len(c.third.Refused) > 0:
				passed(0, "while the third might have taken it")
				r.refuse(third, c.third)
			case !c.first:
				passed(0, "while the third was in reach")
				r.dies(third)
			}
			passed(1, "with no majority to come")
			if grants, ok := r.granted(i, from); ok {
				t.Fatalf("answered: %v", grants)
			}
			if n := r.peers[i].core.vnodes.See(1).Claimed(); n != 0 {
				t.Fatalf("%d claims are held", n)
			}
			r.live(2*dispatch.Pauses.First, dispatch.Pauses.First, nothing)
			grants, _ := r.granted(i, from)
			if len(grants) != 1 || parse(t, grants[0].Task.Id) != task || r.holders(task, grants[0].Token) < 2 {
				t.Fatalf("granted: %v", grants)
			}
			r.audit()
		})
	}
}

// TestWhatIsRefusedForLongIsTriedRarely: each try stays in the history of its task, and
// nothing slows it down when the third member is dead.
func TestWhatIsRefusedForLongIsTriedRarely(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	i := r.leader(1)
	r.dies((i + 2) % 3)
	m := claimUpTo(1)
	m.WaitSeconds = 60
	r.send(i, m)
	tries := 0
	for range 500 {
		r.pass(20 * time.Millisecond)
		if r.refuse((i+1)%3, message.PartTaken{No: true}) > 0 {
			tries++
		}
		r.settleBut(func(l letter) bool { _, is := l.message.(*message.Claims); return is })
	}
	if tries < 15 || tries > 60 {
		t.Fatalf("%d tries in ten seconds", tries)
	}
}

// TestMembersThatFindEachOtherElectAtOnce: their leader is dead, and they were out of
// each other's reach, too. When that is over there is a majority, and one of them leads
// within the time that they give each other. They waited for up to eight seconds: for the
// end of candidacies that had met in one epoch, and of pauses after defeats without a
// majority.
func TestMembersThatFindEachOtherElectAtOnce(t *testing.T) {
	for apart := 100 * time.Millisecond; apart < 7*time.Second; apart += 300 * time.Millisecond {
		r := newTrio(t)
		dead := r.leader(1)
		r.lead(dead)
		b, c := (dead+1)%3, (dead+2)%3
		r.kill(dead)
		r.cut[[2]int{b, c}], r.cut[[2]int{c, b}] = true, true
		r.live(apart, 10*time.Millisecond, nothing)
		if n := r.peers[b].core.Leading() + r.peers[c].core.Leading(); n != 0 {
			t.Fatalf("%d partitions are led by a minority", n)
		}
		clear(r.cut)
		r.live(leadership.StandAfter+50*time.Millisecond, 10*time.Millisecond, nothing)
		if n := r.peers[b].core.Leading() + r.peers[c].core.Leading(); n != testPartitions {
			t.Errorf("after %v apart only %d partitions are led", apart, n)
		}
	}
}

// keepsOut has the claims of one partition taken by nobody but its leader, and refused
// or not answered, while all others are taken. It gives how many messages there were.
func (r *trio) keepsOut(p ring.Partition, silent bool) (n int) {
	for len(r.post) > 0 {
		l := r.post[0]
		m, is := l.message.(*message.Claims)
		if !is || !slices.ContainsFunc(m.Parts, func(c message.PartClaims) bool { return c.Partition == p }) {
			r.deliver(0)
			continue
		}
		n++
		r.post = r.post[1:]
		rest := &message.Claims{Round: m.Round, Parts: slices.DeleteFunc(slices.Clone(m.Parts), func(c message.PartClaims) bool { return c.Partition == p })}
		if len(rest.Parts) > 0 {
			r.say(l.from, l.to, rest)
		}
		if !silent {
			r.say(l.to, l.from, &message.ClaimsTaken{Round: m.Round, Parts: []message.PartTaken{{Partition: p, No: true}}})
		}
	}
	return n
}

// TestAPartitionWithoutAMajorityKeepsNoOtherUp: each request was tried with the best
// task of all, of a partition whose members refused it or did not answer, and again with
// the same one after a pause; what others had was not handed out. Only the first request
// finds that out, nothing of the partition is handed out until a majority answers, which
// is asked a few times a second, and then it is at once.
func TestAPartitionWithoutAMajorityKeepsNoOtherUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		silent bool
		first  time.Duration // until it is known
	}{{"refused", false, 0}, {"not answered", true, lease.Timeout}} {
		t.Run(c.name, func(t *testing.T) {
			r := newTrio(t)
			r.lead(0)
			for range 20 {
				r.put(0, 1)
			}
			for range 20 {
				r.put(0, 2)
			}
			began, tries, got := r.now, 0, 0
			worker := func(until func() bool) {
				from := r.send(0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 5, LeaseSeconds: 300})
				for steps := 0; !until(); steps++ {
					tries += r.keepsOut(1, c.silent)
					if _, ok := r.peers[0].replies[from]; ok {
						got += len(r.got(0, from))
						from = r.send(0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 5, LeaseSeconds: 300})
					}
					r.pass(10 * time.Millisecond)
				}
			}
			worker(func() bool { return got == 20 || r.now.Mono > began.Add(10*time.Second).Mono })
			if took := time.Duration(r.now.Mono - began.Mono); took > c.first+time.Second {
				t.Fatalf("%d tasks of the other partition in %v", got, took)
			}
			tries = 0
			end := r.now.Add(10 * time.Second).Mono
			worker(func() bool { return r.now.Mono > end })
			if tries > 80 || tries < 20 { // two members, twice a second, and what is taken back
				t.Errorf("%d messages in ten seconds", tries)
			}
			if got != 20 {
				t.Errorf("%d tasks are granted", got)
			}
			back := r.now
			from := r.send(1, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 5, LeaseSeconds: 300})
			for len(r.peers[1].replies) == 0 || r.peers[1].replies[from].Message == nil {
				r.settle()
				if r.pass(10 * time.Millisecond); r.now.Mono > back.Add(time.Second).Mono {
					t.Fatal("nothing is granted a second after the members are back")
				}
			}
			r.audit()
		})
	}
}
