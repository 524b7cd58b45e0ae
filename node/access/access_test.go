package access

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

func records(t *testing.T, b []byte) (all []Record) {
	t.Helper()
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		all = append(all, r)
	}
	return all
}

// TestWhatIsWrittenDown: with nobody asked, and requests for data by the setting.
func TestWhatIsWrittenDown(t *testing.T) {
	task := bytes.Repeat([]byte{7}, 20)
	pause := &nornv1.SetQueueRequest{Name: "mail", Settings: &nornv1.QueueSettings{Paused: true}, Fields: []string{"paused"}}
	for _, c := range []struct {
		m      nornv1.Method
		body   gproto.Message
		object string
		data   bool
	}{
		{nornv1.Method_METHOD_SET_QUEUE, pause, "queue mail: paused=true", false},
		{nornv1.Method_METHOD_SET_QUEUE, &nornv1.SetQueueRequest{Name: "mail", Delete: true}, "queue mail: delete", false},
		{nornv1.Method_METHOD_CANCEL, &nornv1.CancelRequest{Ids: [][]byte{task, task}}, "task 0uQ4k8", false},
		{nornv1.Method_METHOD_BULK, &nornv1.BulkRequest{Action: nornv1.BulkAction_BULK_ACTION_CANCEL, Queue: "mail"}, "cancel by filter: queue=mail", false},
		{nornv1.Method_METHOD_CLUSTER, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Destroy{Destroy: &nornv1.DestroyCluster{}}}, "destroy", false},
		{nornv1.Method_METHOD_SET_WORKER, &nornv1.SetWorkerRequest{Name: "w", Action: nornv1.WorkerAction_WORKER_ACTION_KILL}, "worker w: kill", false},
		{nornv1.Method_METHOD_CHANGE_SCHEDULES, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{{Name: "s", Action: &nornv1.ScheduleChange_Delete{Delete: &nornv1.DeleteSchedule{}}}}}, "schedule s: delete", false},
		{nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "mail", Payload: []byte("s3cret")}}}, "queue mail", true},
		{nornv1.Method_METHOD_PING, &nornv1.Ping{}, "", true},
	} {
		for _, data := range []string{DataOff, DataDenied, DataAll} {
			var b bytes.Buffer
			d := New(Config{Audit: NewAudit(AuditConfig{Node: "n1", To: &b, Data: data, Logger: slog.New(slog.DiscardHandler)})})
			who, err := d.Enter(t.Context(), Shown{Agent: "norn/1"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Check(who, c.m, c.body); err != nil {
				t.Fatal(err)
			}
			all := records(t, b.Bytes())
			if want := !c.data || data == DataAll && c.object != ""; (len(all) == 1) != want {
				t.Errorf("%s, audit-data %s: %v", c.m, data, all)
				continue
			}
			if strings.Contains(b.String(), "s3cret") {
				t.Errorf("the payload is in %s", b.String())
			}
			if len(all) == 1 {
				r := all[0]
				if !strings.HasPrefix(r.Object, c.object) && !strings.HasPrefix(r.Object, "task ") || r.Decision != allowed || r.Principal != "anonymous" || r.Proof != "none" || r.Node != "n1" || r.Agent != "norn/1" || r.Time.IsZero() || r.Times != 1 {
					t.Errorf("%s: %+v", c.m, r)
				}
			}
		}
	}
}

// TestRefusalsAreCounted: one line a second for each principal and verb, and none is lost.
func TestRefusalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		a := NewAudit(AuditConfig{Node: "n1", To: &b, Data: DataDenied, Logger: slog.New(slog.DiscardHandler)})
		d := New(Config{Audit: a})
		for _, name := range []string{"one", "two"} {
			c := &Caller{Principal: guard.NewPrincipal(name, guard.ByToken, nil, nil, "")}
			for range 100 {
				if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}}); err == nil {
					t.Fatal("nobody may claim")
				}
			}
			if _, err := d.Check(c, nornv1.Method_METHOD_CLUSTER, &nornv1.ClusterRequest{}); err == nil {
				t.Fatal("nobody may change the cluster")
			}
		}
		time.Sleep(2 * time.Second)
		a.Close()
		times, lines := map[string]int{}, 0
		for _, r := range records(t, b.Bytes()) {
			if r.Decision != refused {
				t.Errorf("%+v", r)
			}
			times[r.Principal+" "+r.Verb] += r.Times
			lines++
		}
		if lines != 6 || times["one work"] != 100 || times["two work"] != 100 || times["one cluster"] != 1 || times["two cluster"] != 1 {
			t.Errorf("%d lines stand for %v", lines, times)
		}
	})
}

// TestAnAuditFileBeginsAnew when it is full, and so many stay; lines are whole.
func TestAnAuditFileBeginsAnew(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	f, err := OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f.limit = 100
	line := []byte(strings.Repeat("x", 59) + "\n")
	for range 20 {
		if n, err := f.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = OpenFile(name); err != nil || f.size != 60 {
		t.Fatalf("opened again it has %d bytes: %v", f.size, err)
	}
	_ = f.Close()
	all, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(all) != fileCount {
		t.Errorf("%d files stay: %v", len(all), err)
	}
	for _, e := range all {
		if info, err := e.Info(); err != nil || info.Size() != 60 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info, err)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestAnAuditThatCannotBeWrittenIsSaid: the request goes on, and the log says so.
func TestAnAuditThatCannotBeWrittenIsSaid(t *testing.T) {
	var log bytes.Buffer
	d := New(Config{Audit: NewAudit(AuditConfig{To: broken{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})})
	if _, err := d.Check(Self(), nornv1.Method_METHOD_SET_QUEUE, &nornv1.SetQueueRequest{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "audit.lost") {
		t.Errorf("the log says %q", log.String())
	}
}

// TestABackupIsOneLine of the audit, as a restore is, however many requests it takes; one that begins after a pause
// is another one, and so is that of somebody else.
func TestABackupIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		d := New(Config{Audit: NewAudit(AuditConfig{To: &b})})
		one, two := Self(), Self()
		ask := func(c *Caller, m nornv1.Method, body gproto.Message) {
			if _, err := d.Check(c, m, body); err != nil {
				t.Fatal(err)
			}
		}
		for p := range uint32(100) {
			for _, c := range []*Caller{one, two} {
				ask(c, nornv1.Method_METHOD_BACKUP, &nornv1.BackupRequest{Partition: p})
				ask(c, nornv1.Method_METHOD_RESTORE, &nornv1.RestoreRequest{Partition: p})
			}
			time.Sleep(time.Minute)
		}
		if got := len(records(t, b.Bytes())); got != 4 {
			t.Errorf("%d lines", got)
		}
		time.Sleep(movePause)
		ask(one, nornv1.Method_METHOD_BACKUP, &nornv1.BackupRequest{})
		if got := len(records(t, b.Bytes())); got != 5 {
			t.Errorf("%d lines after a pause", got)
		}
	})
}
