package client

import (
	"context"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Backup is what a majority of the replicas of a partition holds, for a backup: a page of it.
// The session of the request is 16 random bytes, the same for all pages of a partition.
// ErrUnavailable: too few have answered.
func (k Cluster) Backup(ctx context.Context, ask *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	m := &nornv1.BackupReply{}
	if err := k.c.read(ctx, "backup", nornv1.Method_METHOD_BACKUP, 0, ask, m); err != nil {
		return nil, err
	}
	return m, nil
}

// RestoreTasks gives a partition tasks of a backup. It may be repeated. After an error some
// of them may be there.
func (k Cluster) RestoreTasks(ctx context.Context, partition int, tasks []byte) (*nornv1.RestoreReply, error) {
	m := &nornv1.RestoreReply{}
	err := k.c.do(ctx, &request{
		op: "restore", method: uint16(nornv1.Method_METHOD_RESTORE), write: true,
		body:   message{m: &nornv1.RestoreRequest{Partition: uint32(partition), Tasks: tasks}},
		decode: func(flags uint16, b []byte) error { return decodeInto(flags, b, m) },
	})
	if err == nil && m.GetResult().GetError() != nil {
		err = &Error{Op: "restore", Attempts: 1, Unknown: true, Err: proto.FromProto(m.GetResult().GetError())}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}
