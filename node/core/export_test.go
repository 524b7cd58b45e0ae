package core

import (
	"fmt"
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/core/operator"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
)

// TestExport: the register comes as its snapshots have it, and one that is too
// large for an answer is refused with what to do.
func TestExport(t *testing.T) {
	r := newTrio(t)
	export := &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Export{Export: &nornv1.ExportRegister{}}}
	from := wire.NewReader(ask[*nornv1.ClusterReply](r, 1, export).Register)
	state := register.ReadState(from)
	if from.End() != nil || state.Revision != r.state().Revision || len(state.Cells) != testPartitions {
		t.Errorf("exported revision %d with %d cells, want %d", state.Revision, len(state.Cells), r.state().Revision)
	}
	large := make([]byte, register.MaxDefinition)
	var put register.Request
	for i := range operator.MaxExport/register.MaxDefinition + 1 {
		put.Schedules = append(put.Schedules, register.ScheduleChange{Name: fmt.Sprint(i), Definition: large})
	}
	r.register.Do(put, func(register.Result) {})
	_, bad := r.admin(1, export)
	if bad == nil || !strings.Contains(bad.Message, "snapshot-to") {
		t.Errorf("a register of %d bytes: %v", r.state().Schedules.Bytes(), bad)
	}
}
