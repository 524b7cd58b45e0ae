package sim

import (
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/checks"
	"github.com/norn-dev/norn/jepsen/sim/faults"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/witness"
)

// Cluster runs one seed of a cluster.
//
// It begins with one node; the others join it. When all of them hold their
// share the storm begins, and after it everything heals: what is down starts
// again, and the cluster has to come to rest with every acknowledged task on
// every replica of its cohort, all replicas equal, nobody else with data, and
// the same answers from every node.
func Cluster(seed uint64) *Result { return ClusterMutant(seed, nodes.Mutant{}) }

// ClusterMutant runs one seed of a cluster of mutants.
func ClusterMutant(seed uint64, m nodes.Mutant) *Result {
	return runCluster(seed, Many{Mutant: m, Cluster: true})
}

// planned makes the plan that of the kind of clusters that is asked for.
func planned(s *sim, m *Many) {
	if m.Forget {
		s.Plan.Forgetful()
	}
	if m.Fierce {
		s.Plan.Fierce(&s.World)
	}
	if m.Cuts {
		s.Plan.Cuts()
	}
	if m.Lies {
		s.Plan.Lies()
	}
	if m.Size > 0 {
		s.Plan.Cluster.Nodes = m.Size
	}
}

func runCluster(seed uint64, m Many) *Result {
	s := newSim(seed, m.Mutant)
	s.Tracing, s.Stop = m.Trace, m.Stop
	s.Plan = plan.DrawCluster(&s.World)
	planned(s, &m)
	s.Stalls = s.Plan.Disk.Stall > 0
	o := check.Options{
		Partitions: s.Plan.Partitions, Slack: int64(10*time.Second + s.Plan.Steps()),
		Elected: true, Sessions: s.Plan.Hands > 0, Lossy: s.Plan.Cluster.Lossy(), Lease: leastLease, Attempts: s.Plan.Work.Attempts, Skew: int64(s.Plan.Eta / 8), Backoff: leastPause - int64(s.Plan.Eta/8),
	}
	if s.Plan.Collect > 0 {
		o.Retention, o.Grace = int64(s.Plan.Retention), int64(s.Plan.Grace)
	}
	s.Checker = check.New(o)
	s.Note("seed %d, a cluster: %+v", seed, s.Plan)
	f, harm := s.cluster()
	f.Leaders, harm.Size, s.Lossy = witness.NewLeaders(f.Seen()), m.Size, s.Plan.Cluster.Lossy()
	if m.Fierce {
		f.Witness = witness.New(f.Seen())
	}
	for range s.Plan.Cluster.Nodes {
		f.Add()
	}
	f.Found(f.Nodes[0])
	for _, n := range f.Nodes[1:] {
		s.After(s.Between(time.Second, 4*time.Second), func() { f.Join(n) })
	}
	s.After(2*time.Second, s.Begin)
	if m.also != nil {
		s.After(2*time.Second, func() { m.also(s) })
	}
	harm.Early()
	f.Gossip()
	end := checks.NewEnding(s.People)
	end.WhenWhole(s.Now+int64(checks.FormFor), "the cluster never forms", func() {
		f.Forming, f.Whole = false, s.Now
		end.Watch()
		s.After(checks.Lull, func() {
			f.Stormy, f.Before, f.Stable = true, s.Stats, end.Unmoved(f.Whole)
			s.Note("the storm begins")
			if m.Cuts {
				harm.CutOff()
			} else {
				harm.Trouble()
			}
			if m.Lies {
				harm.Lie()
			}
			s.After(s.Plan.Storm, func() { harm.Heal(end.Begin) })
		})
	})
	s.Run()
	r := s.result(seed)
	r.Calm, r.Again = end.Calm(), m.again(seed)
	if v := r.Violation; v != nil && !v.Task.IsZero() {
		r.Detail = end.Facts(v.Task)
	}
	if r.Violation != nil {
		r.Detail = append(r.Detail, end.Roll()...)
	}
	return r
}

// cluster makes the run one of a cluster, and what does harm to it.
func (s *sim) cluster() (*nodes.Fleet, *faults.Nemesis) {
	f := nodes.NewFleet(s.System)
	f.Believed = s.Believed()
	return f, faults.NewNemesis(s.People)
}
