package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/internal/objects/objectstest"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/node/peer"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/snapshots"
	"github.com/norn-dev/norn/store"
)

// openPlace opens where a test keeps snapshots.
func openPlace(t *testing.T, address string) objects.Store {
	t.Helper()
	in, err := objects.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return in
}

// backedUp waits until a place has a snapshot of all that a node knows.
func backedUp(t *testing.T, n *Node, address string) {
	t.Helper()
	in := openPlace(t, address)
	eventually(t, "a snapshot of the newest state", func() bool {
		all, err := snapshots.List(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		state := n.members.group.Load().State()
		return len(all) > 0 && all[len(all)-1].Revision == state.Revision && all[len(all)-1].Generation == state.Generation
	})
}

// backupConfig is of a node that makes snapshots all the time.
func backupConfig(t *testing.T, name, address string, seeds ...*Node) *config.Config {
	c := joinConfig(t, name, seeds...)
	c.Partitions, c.SnapshotTo, c.SnapshotEvery = 4, address, 20*time.Millisecond
	return c
}

// restoreConfig is of a node that begins from a snapshot.
func restoreConfig(t *testing.T, name, address string) *config.Config {
	c := joinConfig(t, name)
	c.RestoreFrom = address
	return c
}

func setNote(t *testing.T, n *Node, queue, note string) {
	t.Helper()
	through(t, n, nornv1.Method_METHOD_SET_QUEUE, &nornv1.SetQueueRequest{Name: queue, Fields: []string{"note"}, Settings: &nornv1.QueueSettings{Note: note}}, &nornv1.QueuesReply{})
}

func noteOf(t *testing.T, n *Node, queue string) string {
	t.Helper()
	for _, q := range through(t, n, nornv1.Method_METHOD_QUEUES, &nornv1.QueuesRequest{}, &nornv1.QueuesReply{}).Queues {
		if q.Name == queue {
			return q.Settings.GetNote()
		}
	}
	return ""
}

// tokenOf runs one task of a queue to its claim.
func tokenOf(t *testing.T, n *Node, queue string) uint64 {
	t.Helper()
	through(t, n, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: queue}}}, &nornv1.EnqueueReply{})
	var grants []*nornv1.Grant
	eventually(t, "a claim", func() bool {
		grants = through(t, n, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{queue}, MaxTasks: 1}, &nornv1.ClaimReply{}).Grants
		return len(grants) > 0
	})
	return grants[0].Token
}

// TestAClusterBeginsAnewFromASnapshot: the only node is lost; an empty directory
// that is told where snapshots are has the settings again by itself, takes tasks
// and hands them out under higher tokens, lets others join, and writes snapshots
// of its own. Told the same at its next start it restores nothing, and a second
// restore is another generation.
func TestAClusterBeginsAnewFromASnapshot(t *testing.T) {
	objectstest.Login(t)
	for name, address := range map[string]string{"directory": filepath.Join(t.TempDir(), "snapshots"), "s3": objectstest.Serve(t).Address("norn")} {
		t.Run(name, func(t *testing.T) {
			lost := start(t, backupConfig(t, "n1", address), Options{})
			setNote(t, lost, "mail", "of before")
			before := tokenOf(t, lost, "mail")
			backedUp(t, lost, address)
			cluster := lost.cluster.ID
			backedUp(t, lost, filepath.Join(lost.cfg.Data, snapshotsDir))
			stop(t, lost)

			c := restoreConfig(t, "r1", address)
			c.SnapshotTo, c.SnapshotEvery = address, 20*time.Millisecond
			for range 2 {
				n := start(t, c, Options{})
				if n.cluster.ID != cluster || n.cluster.Partitions != 4 {
					t.Errorf("cluster %v of %d partitions, want %v of 4", n.cluster.ID, n.cluster.Partitions, cluster)
				}
				if got := noteOf(t, n, "mail"); got != "of before" {
					t.Errorf("the settings of the queue are %q", got)
				}
				if after := tokenOf(t, n, "other"); after>>32 < before>>32+register.EpochJump {
					t.Errorf("token %x after %x", after, before)
				}
				if g := n.members.generation(); g != 1 {
					t.Errorf("generation %d", g)
				}
				backedUp(t, n, address)
				stop(t, n)
			}
			again := start(t, restoreConfig(t, "r2", address), Options{})
			second := start(t, joinConfig(t, "r3", again), Options{})
			full(t, second, 2)
			if got := noteOf(t, second, "mail"); got != "of before" {
				t.Errorf("through a node that has joined the settings are %q", got)
			}
			if g := second.members.generation(); g != 2 {
				t.Errorf("the second restore is generation %d", g)
			}
			stop(t, second)
			stop(t, again)
		})
	}
}

// TestANodeThatLostItsDiskDoesNotRestoreAgain: restore-from stayed in the configuration of the
// node that began the cluster anew. When it lost its disk it began it once more, though the
// others lived, and they would have followed it. Whoever means it can.
func TestANodeThatLostItsDiskDoesNotRestoreAgain(t *testing.T) {
	place := filepath.Join(t.TempDir(), "snapshots")
	lost := start(t, backupConfig(t, "n1", place), Options{})
	backedUp(t, lost, place)
	stop(t, lost)
	again := func() (*Node, *config.Config, error) {
		c := restoreConfig(t, "r1", place)
		c.SnapshotTo, c.SnapshotEvery = place, 20*time.Millisecond
		n, err := Start(c, Options{})
		return n, c, err
	}
	n, _, err := again()
	if err != nil {
		t.Fatal(err)
	}
	backedUp(t, n, place)
	stop(t, n)

	n, c, err := again()
	if err == nil {
		stop(t, n)
		t.Fatal("it began the cluster once more")
	}
	if !strings.Contains(err.Error(), "node r1 has begun the cluster anew from here before") || !strings.Contains(err.Error(), "--join") || exists(filepath.Join(c.Data, identityFile)) {
		t.Error(err)
	}
	all, err := snapshots.List(t.Context(), openPlace(t, place))
	if err != nil {
		t.Fatal(err)
	}
	named := restoreConfig(t, "r1", filepath.Join(place, all[len(all)-1].Name))
	n = start(t, named, Options{})
	if g := n.members.generation(); g != 2 {
		t.Errorf("generation %d", g)
	}
	stop(t, n)
	if _, g, err := Restore(t.Context(), restoreConfig(t, "r1", place), Shape{}, nil); err != nil || g != 3 {
		t.Errorf("by hand: generation %d, %v", g, err)
	}
	// One that was interrupted goes on, and so does nobody else beside a node that lives.
	half := restoreConfig(t, "r1", place)
	half.SnapshotEvery = 20 * time.Millisecond
	if err := os.WriteFile(filepath.Join(half.Data, formattingFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n = start(t, half, Options{})
	defer stop(t, n)
	backedUp(t, n, filepath.Join(half.Data, snapshotsDir))
	other, err := Start(restoreConfig(t, "r2", filepath.Join(half.Data, snapshotsDir)), Options{})
	if err == nil {
		stop(t, other)
	}
	if err == nil || !strings.Contains(err.Error(), "node r1 of the cluster lives at "+n.PeerAddr().String()) {
		t.Error(err)
	}
}

// TestAHalfRestoreAsksAgainWhoLives: a start that was to begin the cluster anew was cut short,
// and the nodes that had been out of reach came back before the next one, which did not ask any
// more and went on.
func TestAHalfRestoreAsksAgainWhoLives(t *testing.T) {
	c := restoreConfig(t, "r1", "")
	c.RestoreFrom, c.SnapshotEvery = "", 20*time.Millisecond
	n := start(t, c, Options{})
	defer stop(t, n)
	place := filepath.Join(c.Data, snapshotsDir)
	backedUp(t, n, place)
	half := restoreConfig(t, "r2", place)
	if err := os.WriteFile(filepath.Join(half.Data, formattingFile), []byte(restoring), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := Start(half, Options{})
	if err == nil {
		stop(t, other)
	}
	if err == nil || !strings.Contains(err.Error(), "node r1 of the cluster lives at "+n.PeerAddr().String()) {
		t.Error(err)
	}
}

// TestANodeThatRefusesToAnswerLives: one that turned the asking node away, as that has another
// secret, was taken for one that is not there.
func TestANodeThatRefusesToAnswerLives(t *testing.T) {
	s := &register.State{Nodes: []register.Node{{Member: register.Member{Node: "n2"}, Addresses: []string{"127.0.0.1:1"}, Status: register.Active}}}
	for name, c := range map[string]struct {
		err   error
		lives bool
	}{
		"another secret":  {&peer.Refusal{Reason: nornv1.PeerRefusal_PEER_REFUSAL_SECRET, Message: "no", By: register.Member{Node: "n2"}}, true},
		"nobody is there": {errors.New("connection refused"), false},
		"no node":         {&peer.Refusal{Reason: nornv1.PeerRefusal_PEER_REFUSAL_MALFORMED, Message: "what?"}, false},
	} {
		err := lives(t.Context(), s, testConfig(t), func(context.Context, string) (peer.Identity, error) { return peer.Identity{}, c.err })
		if (err != nil) != c.lives {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestARestoreEndsWhenItIsToldTo: a store that does not answer held a start up for two
// minutes, whatever it was told.
func TestARestoreEndsWhenItIsToldTo(t *testing.T) {
	objectstest.Login(t)
	asked := make(chan struct{}, 100)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := restoreConfig(t, "r1", "s3://bucket/x?region=here&endpoint="+silent.URL)
	go func() {
		_, err := Start(c, Options{Starting: ctx})
		ended <- err
	}()
	<-asked
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it goes on")
		silent.CloseClientConnections()
		<-ended
	}
}

// TestRestoreRefuses: what cannot be restored from is no reason to begin with
// nothing.
func TestRestoreRefuses(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	n := start(t, backupConfig(t, "n1", full), Options{})
	backedUp(t, n, full)
	stop(t, n)
	all, err := snapshots.List(t.Context(), openPlace(t, full))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	newest := all[len(all)-1].Name
	refused := func(what, from, says string) {
		t.Helper()
		c := restoreConfig(t, "r", from)
		r, err := Start(c, Options{})
		if err == nil {
			stop(t, r)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
		if exists(filepath.Join(c.Data, identityFile)) {
			t.Errorf("%s: a directory was made", what)
		}
	}
	refused("an empty place", t.TempDir(), "no snapshot")
	refused("a place that is not there", filepath.Join(full, "x"), "no snapshot")
	refused("a snapshot that is not there", filepath.Join(full, strings.Replace(newest, "-r0", "-r1", 1)), "not found")

	destroyed := t.TempDir()
	s, _, err := snapshots.Latest(t.Context(), openPlace(t, full), "")
	if err != nil {
		t.Fatal(err)
	}
	s.State.Values = map[string]register.Value{"cluster.destroy": {Version: 1, Data: s.State.Cluster.ID[:]}}
	if !operator.Destroyed(&s.State) {
		t.Fatal("the test knows another value")
	}
	h, b, err := snapshots.Encode(&s.State, time.Now(), "n1")
	if err == nil {
		err = snapshots.Save(t.Context(), openPlace(t, destroyed), h, b, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused("a cluster that was destroyed", destroyed, "was destroyed")

	if err := os.WriteFile(filepath.Join(full, newest), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a damaged snapshot that is named", filepath.Join(full, newest), "damaged")
	for _, l := range all {
		if err := os.WriteFile(filepath.Join(full, l.Name), []byte("half"), 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	refused("damaged snapshots", full, "none of")
}

// TestARestoreByHandIsRepeated: one that was cut short left nothing that counts.
func TestARestoreByHandIsRepeated(t *testing.T) {
	place := filepath.Join(t.TempDir(), "place")
	n := start(t, backupConfig(t, "n1", place), Options{})
	backedUp(t, n, place)
	stop(t, n)
	c := restoreConfig(t, "r", place)
	if _, _, err := Restore(t.Context(), c, Shape{}, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restore(t.Context(), c, Shape{}, nil); !errors.Is(err, ErrDirectory) {
		t.Errorf("into what was restored: %v, want ErrDirectory", err)
	}
	if err := os.WriteFile(filepath.Join(c.Data, formattingFile), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, generation, err := Restore(t.Context(), c, Shape{}, func(err error) { t.Error(err) }); err != nil || generation != 2 {
		t.Errorf("again after it was cut short: generation %d, %v", generation, err)
	}
	if err := os.WriteFile(filepath.Join(c.Data, formattingFile), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(c.Data, identityFile), filepath.Join(c.Data, oldLifeFile)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restore(t.Context(), c, Shape{}, nil); !errors.Is(err, ErrDirectory) {
		t.Errorf("into one that has tasks of before: %v, want ErrDirectory", err)
	}
}

// TestAHalfRestoreIsNoFirstStart: started without restore-from it would have been a new
// cluster, without the settings and schedules that were to come back.
func TestAHalfRestoreIsNoFirstStart(t *testing.T) {
	place := filepath.Join(t.TempDir(), "place")
	n := start(t, backupConfig(t, "n1", place), Options{})
	backedUp(t, n, place)
	stop(t, n)
	c := restoreConfig(t, "r", place)
	full := errors.New("no space left")
	_, err := openDirectory(t.Context(), c, nil, func(dir string) (*store.Pebble, error) {
		if filepath.Base(dir) == registerDir {
			return nil, full
		}
		return store.OpenPebble(store.PebbleOptions{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	})
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	first := *c
	first.RestoreFrom = ""
	if _, err := Start(&first, Options{Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("a start without restore-from: %v, want ErrDirectory", err)
	}
	if _, _, err := Restore(t.Context(), c, Shape{}, func(err error) { t.Error(err) }); err != nil {
		t.Errorf("again: %v", err)
	}
	again := start(t, &first, Options{})
	if again.dir.cluster.ID != n.dir.cluster.ID {
		t.Errorf("it is cluster %v, want %v", again.dir.cluster.ID, n.dir.cluster.ID)
	}
	stop(t, again)
}

// TestADrillLeavesTheRestoreFree: a restore by hand that was only tried out left a note, for
// which the node, with its disk lost for good months later, did not begin the cluster anew by
// itself. One whose directory was started counts.
func TestADrillLeavesTheRestoreFree(t *testing.T) {
	place := filepath.Join(t.TempDir(), "snapshots")
	lost := start(t, backupConfig(t, "n1", place), Options{})
	backedUp(t, lost, place)
	stop(t, lost)
	if _, g, err := Restore(t.Context(), restoreConfig(t, "r1", place), Shape{}, nil); err != nil || g != 1 {
		t.Fatalf("the drill: generation %d, %v", g, err)
	}
	n, err := Start(restoreConfig(t, "r1", place), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if g := n.members.generation(); g != 2 {
		t.Errorf("generation %d", g)
	}
	stop(t, n)

	c := restoreConfig(t, "r2", place)
	if _, _, err := Restore(t.Context(), c, Shape{}, nil); err != nil {
		t.Fatal(err)
	}
	c.RestoreFrom, c.SnapshotTo, c.SnapshotEvery = "", place, 20*time.Millisecond
	n = start(t, c, Options{})
	backedUp(t, n, place)
	stop(t, n)
	n, err = Start(restoreConfig(t, "r2", place), Options{})
	if err == nil {
		stop(t, n)
	}
	if err == nil || !strings.Contains(err.Error(), "node r2 has begun the cluster anew from here before") {
		t.Error(err)
	}
}
