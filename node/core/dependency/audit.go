package dependency

import "fmt"

// Audit tells which invariant of a machine does not hold. It is for tests.
func (m *Machine) Audit() error {
	for _, n := range m.News {
		if !m.Told[n.Task] {
			return fmt.Errorf("dependency: the dependents of task %s are told, and it would be noted again", n.Task)
		}
	}
	for task, who := range m.Watches.Asked { // Any order: each is judged for itself.
		if len(who) == 0 {
			return fmt.Errorf("dependency: task %s is watched for nobody", task)
		}
	}
	counts := []struct {
		what    string
		n, most int
	}{
		{"tasks are told of, those in line are", len(m.Told), len(m.News)},
		{"dependencies may be forgotten, the limit is", len(m.Forgotten.Missed), MaxMissed},
		{"reads are under way, the limit is", m.Unconfirmed.reads, maxDoubtReads},
		{"failures are not confirmed, the limit is", len(m.Unconfirmed.All), MaxWatched},
		{"tasks are watched, the limit is", len(m.Watches.Asked), MaxWatched},
		{"tasks are kept for others, the limit is", len(m.Watches.Needs.Kept), MaxWatched},
	}
	for _, c := range counts {
		if c.n < 0 || c.n > c.most {
			return fmt.Errorf("dependency: %d %s %d", c.n, c.what, c.most)
		}
	}
	return nil
}
