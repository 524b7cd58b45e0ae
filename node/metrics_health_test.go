package node

import "testing"

// TestMetricsOfANodeThatIsWell: what alarms look at says that nothing is wrong.
func TestMetricsOfANodeThatIsWell(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	ready(t, n)
	want := map[string]float64{
		"norn_ready": 1, "norn_partitions_unled": 0, "norn_partitions_short": 0, "norn_nodes": 1, "norn_nodes_down": 0,
		"norn_register_majority": 1, "norn_clock_off": 0, "norn_clock_correction_seconds": 0, "norn_build_info": 1,
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
