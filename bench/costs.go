package bench

import "context"

// costs is what a stage costs: processor time of the servers and of this program, rounds
// that were made durable, messages between nodes.
type costs struct {
	r      *run
	meter  *meter
	before usage
	own    float64 // seconds
	err    error
}

// costs begins to measure. Servers that do not tell what they use are left out where their
// addresses are a guess, and an error of the run where they were named.
func (r *run) costs(ctx context.Context) *costs {
	c := &costs{r: r, meter: newMeter(r.HTTP)}
	c.before, c.err = c.meter.read(ctx)
	c.own = ownSeconds()
	return c
}

// per adds what each of n tasks has cost since.
func (c *costs) per(ctx context.Context, n int) {
	own, tasks := ownSeconds()-c.own, float64(max(1, n))
	after, err := usage{}, c.err
	if err == nil {
		after, err = c.meter.read(ctx)
	}
	c.meter.client.CloseIdleConnections()
	if err != nil {
		if !c.r.HTTPGuessed && len(c.r.HTTP) > 0 {
			c.r.report.fail(err)
		}
		return
	}
	report := c.r.report
	report.add("servers_processor_per_task", 1e6*(after.seconds-c.before.seconds)/tasks, "µs")
	if own > 0 {
		report.add("load_processor_per_task", 1e6*own/tasks, "µs")
	}
	report.add("synced_rounds_per_task", (after.syncs-c.before.syncs)/tasks, "")
	report.add("peer_messages_per_task", (after.sent-c.before.sent)/tasks, "")
}
