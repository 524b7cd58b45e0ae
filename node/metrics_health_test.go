package node

import "testing"

// TestMetricsOfANodeThatIsWell: what alarms look at says that nothing is wrong.
func TestMetricsOfANodeThatIsWell(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	ready(t, n)
	eventually(t, "it has all its copies", func() bool {
		enqueue, claim := n.Ready()
		return enqueue && claim && Filled(n)
	})
	want := map[string]float64{
		"norn_ready": 1, "norn_partitions_unled": 0, "norn_partitions_short": 0, "norn_nodes": 1, "norn_nodes_down": 0,
		"norn_register_majority": 1, "norn_clock_off": 0, "norn_clock_correction_seconds": 0, "norn_build_info": 1,
		"norn_forgot": 0, "norn_register_back": 0,
	}
	all, err := n.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		v, asked := want[f.GetName()]
		if got := f.GetMetric()[0].GetGauge().GetValue(); asked && got != v {
			t.Errorf("%s is %v, want %v", f.GetName(), got, v)
		}
		delete(want, f.GetName())
	}
	if len(want) > 0 {
		t.Errorf("there are no %v", want)
	}
}

// TestAJoinerThatWaitsTellsNothingOfTheCluster: alarms look at the least of what nodes tell.
func TestAJoinerThatWaitsTellsNothingOfTheCluster(t *testing.T) {
	cfg := testConfig(t)
	cfg.Join = []string{"127.0.0.1:1"}
	n := start(t, cfg, Options{})
	defer stop(t, n)
	all, err := n.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	ready := -1.0
	for _, f := range all {
		switch name := f.GetName(); name {
		case "norn_ready":
			ready = f.GetMetric()[0].GetGauge().GetValue()
		case "norn_partitions_unled", "norn_partitions_short", "norn_nodes", "norn_nodes_down":
			t.Errorf("it says %s of a cluster that it is not in", name)
		}
	}
	if ready != 0 {
		t.Errorf("norn_ready is %v", ready)
	}
}
