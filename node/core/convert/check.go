package convert

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// CheckStates refuses states that there are not.
func CheckStates(states []nornv1.State) *proto.Error {
	for _, s := range states {
		if _, ok := nornv1.State_name[int32(s)]; !ok || s == 0 {
			return proto.Invalid("the filter has the unknown state %d", s)
		}
	}
	return nil
}

// CheckID checks the ID that a client made.
func CheckID(wall int64, b []byte, eta time.Duration) (id.ID, *proto.Error) {
	task := id.ID(b)
	if task.Kind() != id.KindTask {
		return task, proto.Invalid("ID %s is of a kind that clients do not make", task)
	}
	if ahead := task.Nanos() - wall; ahead > int64(eta) {
		return task, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW,
			"ID %s lies %.1f s in the future, more than eta (%v); set the clock of the client", task, float64(ahead)/1e9, eta)
	}
	return task, nil
}

// CheckTasks refuses more tasks than fit one request, or larger ones.
func CheckTasks(tasks []*nornv1.TaskSpec) *proto.Error {
	if err := CheckBatch(len(tasks)); err != nil {
		return err
	}
	size, dependencies := 0, 0
	for _, t := range tasks {
		size += proto.SpecBytes(t)
		dependencies += len(t.GetDependencies())
	}
	if dependencies > proto.MaxBatchDependencies {
		return proto.Invalid("the batch has %d dependencies in all, over the limit of %d; send smaller batches", dependencies, proto.MaxBatchDependencies)
	}
	if size > proto.MaxBatchBytes {
		return proto.Invalid("the batch has %d payload bytes, over the limit of %d; send smaller batches", size, proto.MaxBatchBytes)
	}
	return nil
}

// CheckBatch refuses a batch of nothing, or of more items than one may have.
func CheckBatch(n int) *proto.Error {
	switch {
	case n == 0:
		return proto.Invalid("the request is empty")
	case n > proto.MaxBatchTasks:
		return proto.Invalid("the batch has %d items, over the limit of %d; send smaller batches", n, proto.MaxBatchTasks)
	}
	return nil
}

// CheckConsistency refuses what would not count: with less than it asks for a read would be answered.
func CheckConsistency(l *nornv1.Consistency) *proto.Error {
	switch {
	case l.GetReplicas() != 0 && l.GetLevel() != nornv1.ReadLevel_READ_LEVEL_COUNT:
		return proto.Invalid("consistency has %d replicas, and not the level for them, count", l.GetReplicas())
	case (l.GetAtLeastToken() != 0 || l.GetAtLeastSeq() != 0) && !l.GetAtLeast():
		return proto.Invalid("consistency has at_least_token and at_least_seq, and not at_least, without which they do not count")
	}
	return nil
}

// WindowStart is the first instant of the window, at least 1: 0 means none.
func WindowStart(wall, window int64) int64 { return max(wall-wall%window, 1) }

// CheckUnanswered checks what a claim request says of earlier ones.
func CheckUnanswered(m *nornv1.ClaimRequest) *proto.Error {
	all := m.GetUnanswered()
	switch {
	case len(all) == 0:
		return nil
	case len(all) > proto.MaxUnanswered:
		return proto.Invalid("%d unanswered requests are over the limit of %d", len(all), proto.MaxUnanswered)
	case len(m.GetSession()) != 16 || [16]byte(m.GetSession()) == [16]byte{}:
		return proto.Invalid("unanswered requests need a session that they belong to")
	case slices.Contains(all, m.GetRequestNo()):
		return proto.Invalid("request_no %d is among the unanswered ones: a repeated request needs a new one", m.GetRequestNo())
	case slices.Contains(all, PushedAsk):
		return proto.Invalid("unanswered names %d, which is no request's number", PushedAsk)
	}
	return nil
}

// ReadID reads the ID of a task.
func ReadID(b []byte) (id.ID, *proto.Error) {
	if len(b) != len(id.ID{}) {
		return id.ID{}, proto.Invalid("task ID has %d bytes, not 20", len(b))
	}
	return id.ID(b), nil
}

// CheckWait refuses to wait for other than it may be.
func CheckWait(m interface{ GetWaitSeconds() float64 }) *proto.Error {
	if !proto.Within(m.GetWaitSeconds(), proto.MaxWait) {
		return proto.Invalid("wait of %v seconds is outside 0 to %v", m.GetWaitSeconds(), proto.MaxWait)
	}
	return nil
}

// PushedAsk marks grants in answers to workers: whether they were sent is what a
// session has to know, not the request that they were granted to.
const PushedAsk = ^uint64(0)

// TaskRef checks the ID and token of a claim.
func TaskRef(b []byte, token uint64) (id.ID, *proto.Error) {
	if len(b) != len(id.ID{}) {
		return id.ID{}, proto.Invalid("task ID has %d bytes, not 20", len(b))
	}
	if token == 0 {
		return id.ID{}, proto.Invalid("the claim's token is missing")
	}
	return id.ID(b), nil
}

// ClaimRef is the same for what is taken from any side, whatever is known here of the
// claim: the token has to be one that can have been granted.
func ClaimRef(b []byte, token uint64) (id.ID, *proto.Error) {
	task, bad := TaskRef(b, token)
	if bad == nil && token>>32 == 0 { // the upper half is an epoch, and those begin with 1
		bad = proto.Invalid("%d is no token of a claim: the smallest ever granted is %d", token, uint64(1)<<32+1)
	}
	return task, bad
}

// CheckWork finds what is wrong with a request as a whole.
func CheckWork(m *nornv1.WorkRequest) *proto.Error {
	switch ended := len(m.GetCompletions()) + len(m.GetFailures()) + len(m.GetReleases()); {
	case ended == 0:
		return proto.Invalid("the request ends no task; ask for tasks alone with claim")
	case ended > proto.MaxBatchTasks:
		return proto.Invalid("the request ends %d tasks, over the limit of %d; send smaller batches", ended, proto.MaxBatchTasks)
	case m.GetClaim().GetWaitSeconds() != 0:
		return proto.Invalid("the claim waits for %v s, and what is ended would wait with it; ask for 0 here, and wait with claim", m.GetClaim().GetWaitSeconds())
	}
	return nil
}

// CheckPartitions refuses partitions that there are not, of n.
func CheckPartitions(all []uint32, n int) *proto.Error {
	for _, p := range all {
		if int(p) >= n {
			return proto.Invalid("there is no partition %d: they are numbered 0 to %d", p, n-1)
		}
	}
	return nil
}
