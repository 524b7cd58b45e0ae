package bench

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
)

// overtaking is by how much later than another task one has to be enqueued for
// its grant to count as having overtaken that.
const overtaking = time.Second

// overtakes is when the tasks of a run, all of one queue and one priority, were
// enqueued and granted. Each field of a task has one writer; they are read when
// all are done.
type overtakes struct {
	began time.Time
	tasks []lifetime // by the number of the task
}

// lifetime is what is remembered of a task, 24 bytes.
type lifetime struct {
	// asked and acknowledged are around its enqueue, ns of this process since the
	// run began; 0: not yet.
	asked, acknowledged int64
	granted             int64 // wall ns of its leader; 0: not yet
}

func newOvertakes(tasks int) *overtakes {
	return &overtakes{began: time.Now(), tasks: make([]lifetime, tasks)}
}

// now is the time since the run began, never 0.
func (o *overtakes) now() int64 { return int64(time.Since(o.began)) + 1 }

// asked notes that tasks are about to be enqueued.
func (o *overtakes) asked(numbers []uint32) {
	at := o.now()
	for _, n := range numbers {
		o.tasks[n].asked = at
	}
}

func (o *overtakes) acknowledged(n uint32) { o.tasks[n].acknowledged = o.now() }

func (o *overtakes) granted(n uint32, c *client.Claim) {
	o.tasks[n].granted = c.Grant.GetStart().AsTime().UnixNano()
}

// worst gives the longest time that a task still waited for after another one had
// been granted that was enqueued surely a second or more after it, and how many
// tasks there are that could have been overtaken so. Who was granted first is said
// by the clocks of leaders, so it is as good as these agree; a task that was never
// granted waits until the last grant of all.
func (o *overtakes) worst() (most time.Duration, judged int) {
	later := make([]lifetime, 0, len(o.tasks)) // those that may have overtaken others
	var end int64
	for _, t := range o.tasks {
		if t.asked != 0 && t.granted != 0 {
			later = append(later, t)
			end = max(end, t.granted)
		}
	}
	slices.SortFunc(later, func(a, b lifetime) int { return cmp.Compare(a.asked, b.asked) })
	for i := len(later) - 2; i >= 0; i-- { // from here on: the first grant of this one and all after it
		later[i].granted = min(later[i].granted, later[i+1].granted)
	}
	for _, t := range o.tasks {
		if t.acknowledged == 0 {
			continue // it may not have been there
		}
		i, _ := slices.BinarySearchFunc(later, t.acknowledged+int64(overtaking), func(l lifetime, at int64) int { return cmp.Compare(l.asked, at) })
		if i == len(later) {
			continue
		}
		if t.granted == 0 {
			t.granted = end
		}
		judged++
		most = max(most, time.Duration(t.granted-later[i].granted))
	}
	return most, judged
}

// overtaken adds for how long tasks were overtaken, if the run was long enough for
// any to be.
func (r *Report) overtaken(o *overtakes) {
	if o == nil {
		return
	}
	most, judged := o.worst()
	if judged == 0 {
		return // nothing was shown
	}
	r.add("overtaken_max", float64(most)/float64(time.Millisecond), "ms")
	r.add("overtaken_judged", float64(judged), "tasks")
}
