package guard

import (
	"fmt"
	"strings"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// MethodName is the name of a method without its prefix, in lower case.
func MethodName(m nornv1.Method) string {
	return strings.ToLower(strings.TrimPrefix(m.String(), "METHOD_"))
}

// Object is what a request is about, for people, and how many items it has. It holds no
// payload and no secret.
func Object(request gproto.Message) (object string, items int) {
	switch m := request.(type) {
	case *nornv1.CancelRequest:
		return task(m.GetIds()), len(m.GetIds())
	case *nornv1.RetryRequest:
		return task(m.GetIds()), len(m.GetIds())
	case *nornv1.BulkRequest:
		return bulk(m), 0
	case *nornv1.SetQueueRequest:
		return "queue " + m.GetName() + settings(m), 1
	case *nornv1.ChangeSchedulesRequest:
		return changes(m.GetChanges()), len(m.GetChanges())
	case *nornv1.SetWorkerRequest:
		return "worker " + m.GetName() + ": " + lower(m.GetAction().String(), "WORKER_ACTION_"), 1
	case *nornv1.ClusterRequest:
		return cluster(m), 1
	case *nornv1.AccessRequest:
		return rights(m), 1
	case *nornv1.VerifyRequest:
		return "", len(m.GetPartitions())
	case *nornv1.BackupRequest:
		return fmt.Sprintf("tasks of all queues, from partition %d on", m.GetPartition()), 0
	case *nornv1.RestoreRequest:
		return fmt.Sprintf("tasks, from partition %d on", m.GetPartition()), 0
	case *nornv1.LinesRequest:
		return "worker " + m.GetWorker(), 1
	}
	return data(request)
}

// data is Object of what is about tasks.
func data(request gproto.Message) (object string, items int) {
	switch m := request.(type) {
	case *nornv1.EnqueueRequest:
		if all := m.GetTasks(); len(all) > 0 {
			return aQueue + all[0].GetQueue(), len(all)
		}
	case *nornv1.ClaimRequest:
		return aQueue + strings.Join(m.GetQueues(), ","), int(m.GetMaxTasks())
	case *nornv1.CompleteRequest:
		return "", len(m.GetCompletions())
	case *nornv1.FailRequest:
		return "", len(m.GetFailures())
	case *nornv1.ReleaseRequest:
		return "", len(m.GetClaims())
	case *nornv1.RenewRequest:
		return "", len(m.GetClaims())
	case *nornv1.UpdateRequest:
		return task([][]byte{m.GetId()}), 1
	case *nornv1.GetRequest:
		return task([][]byte{m.GetId()}), 1
	case *nornv1.LogRequest:
		return task([][]byte{m.GetId()}), 1
	case *nornv1.ExplainRequest:
		return task([][]byte{m.GetId()}), 1
	case *nornv1.ListRequest:
		return "queue " + m.GetQueue(), 0
	case *nornv1.CountRequest:
		return "queue " + m.GetQueue(), 0
	}
	return "", 0
}

// lower is the name of a protobuf value as people write it.
func lower(text, prefix string) string { return strings.ToLower(strings.TrimPrefix(text, prefix)) }

// task names the first of some tasks.
func task(ids [][]byte) string {
	if len(ids) == 0 || len(ids[0]) != id.Size {
		return ""
	}
	return "task " + id.ID(ids[0]).String()
}

// bulk tells of a change by filter: which filter it was is not written down, as it may hold
// contents.
func bulk(m *nornv1.BulkRequest) string {
	text := lower(m.GetAction().String(), "BULK_ACTION_") + " by filter: queue=" + m.GetQueue()
	if m.GetAll() {
		text += " all"
	}
	for _, s := range m.GetStates() {
		text += " state=" + lower(s.String(), "STATE_")
	}
	if m.GetFilter() != nil {
		text += " filter"
	}
	if m.GetDryRun() {
		text += " (dry run)"
	}
	return text
}

// settings names what is set of a queue.
func settings(m *nornv1.SetQueueRequest) string {
	if m.GetDelete() {
		return ": delete"
	}
	text := ":"
	for _, f := range m.GetFields() {
		text += " " + f
		switch f {
		case "paused":
			text += onOff(m.GetSettings().GetPaused())
		case "draining":
			text += onOff(m.GetSettings().GetDraining())
		}
		if len(text) > maxObject {
			break
		}
	}
	return text
}

// onOff writes a flag.
func onOff(on bool) string {
	if on {
		return "=true"
	}
	return "=false"
}

// maxObject bounds the text of an object, bytes.
const maxObject = 512

// changes names what is done to which schedules.
func changes(all []*nornv1.ScheduleChange) string {
	text := "schedule"
	for _, c := range all {
		what := "put"
		switch {
		case c.GetPause() != nil:
			what = "pause" + onOff(c.GetPause().GetPaused())
		case c.GetDelete() != nil:
			what = "delete"
		case c.GetTrigger() != nil:
			what = "trigger"
		case c.GetBackfill() != nil:
			what = "backfill"
		}
		if text += " " + c.GetName() + ": " + what; len(text) > maxObject {
			break
		}
	}
	return text
}

// rights names what is asked about rights.
func rights(m *nornv1.AccessRequest) string {
	switch a := m.GetAction().(type) {
	case *nornv1.AccessRequest_SetRole:
		return "set role " + a.SetRole.GetName() + ": " + strings.Join(a.SetRole.GetAllow(), " ")
	case *nornv1.AccessRequest_RemoveRole:
		return "remove role " + a.RemoveRole.GetName()
	case *nornv1.AccessRequest_CreateToken:
		return "create token " + a.CreateToken.GetName() + " with role " + strings.Join(a.CreateToken.GetRoles(), ",")
	case *nornv1.AccessRequest_RenewToken:
		return "renew token " + a.RenewToken.GetId()
	case *nornv1.AccessRequest_RevokeToken:
		return "revoke token " + a.RevokeToken.GetId()
	case *nornv1.AccessRequest_EnableTokens:
		return "enable tokens"
	case *nornv1.AccessRequest_SetMap:
		return "set map " + a.SetMap.GetName() + ": " + a.SetMap.GetCertificate() + a.SetMap.GetJwtSubject() + " has role " + strings.Join(a.SetMap.GetRoles(), ",")
	case *nornv1.AccessRequest_RemoveMap:
		return "remove map " + a.RemoveMap.GetName()
	case *nornv1.AccessRequest_SetTenant:
		return "set tenant " + a.SetTenant.GetName()
	case *nornv1.AccessRequest_RemoveTenant:
		return "remove tenant " + a.RemoveTenant.GetName()
	case *nornv1.AccessRequest_List:
		return "list roles and tokens"
	case *nornv1.AccessRequest_Check:
		return "check " + a.Check.GetId() + " " + a.Check.GetVerb() + " " + a.Check.GetQueue()
	case *nornv1.AccessRequest_Audit:
		return "read the audit log"
	}
	return ""
}

// cluster names a change of the cluster.
func cluster(m *nornv1.ClusterRequest) (text string) {
	switch a := m.GetAction().(type) {
	case *nornv1.ClusterRequest_Leave:
		text = "leave " + a.Leave.GetNode()
	case *nornv1.ClusterRequest_Remove:
		text = "remove " + a.Remove.GetNode()
	case *nornv1.ClusterRequest_Replace:
		text = "replace " + a.Replace.GetOld() + " by " + a.Replace.GetNew()
	case *nornv1.ClusterRequest_AcceptLoss:
		text = "accept loss of " + strings.Join(a.AcceptLoss.GetNodes(), ",")
	case *nornv1.ClusterRequest_Destroy:
		text = "destroy"
	case *nornv1.ClusterRequest_Export:
		text = "export"
	case *nornv1.ClusterRequest_SetReplicas:
		text = "set replicas"
	case *nornv1.ClusterRequest_Repair:
		text = "repair"
	case *nornv1.ClusterRequest_Rebalance:
		text = "rebalance"
	}
	if m.GetDryRun() {
		text += " (dry run)"
	}
	return text
}
