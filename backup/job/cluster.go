package job

import (
	"context"
	"errors"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Cluster is what is backed up, or restored into.
type Cluster interface {
	// Status tells its shape, Export gives its register (register.AppendState).
	Status(context.Context) (*nornv1.StatusReply, error)
	Export(context.Context) ([]byte, error)
	// Backup gives a page, Restore takes tasks. An error that is [ErrFinal] or of package client
	// says whether to try again.
	Backup(context.Context, *nornv1.BackupRequest) (*nornv1.BackupReply, error)
	Restore(ctx context.Context, partition int, tasks []byte) (*nornv1.RestoreReply, error)
}

// ErrFinal is in errors after which it is of no use to ask again.
var ErrFinal = errors.New("refused")

// final tells whether it is of no use to ask again.
func final(err error) bool {
	for _, one := range []error{ErrFinal, client.ErrInvalid, client.ErrPermissionDenied, client.ErrUnimplemented} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// Over is a cluster behind a client.
func Over(c *client.Client) Cluster { return over{c} }

type over struct{ c *client.Client }

func (o over) Status(ctx context.Context) (*nornv1.StatusReply, error) { return o.c.Status(ctx) }

func (o over) Export(ctx context.Context) ([]byte, error) { return o.c.Cluster().Export(ctx) }

func (o over) Backup(ctx context.Context, m *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	return o.c.Cluster().Backup(ctx, m)
}

func (o over) Restore(ctx context.Context, partition int, tasks []byte) (*nornv1.RestoreReply, error) {
	return o.c.Cluster().RestoreTasks(ctx, partition, tasks)
}
