package node

import (
	"context"
	"errors"
	"time"

	"github.com/norn-dev/norn/archive"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/store"
)

// retentionOf reads the word of the configuration.
func retentionOf(policy string) nornv1.Retention {
	switch policy {
	case "archive":
		return nornv1.Retention_RETENTION_ARCHIVE
	case "keep":
		return nornv1.Retention_RETENTION_KEEP
	}
	return nornv1.Retention_RETENTION_DELETE
}

// archiveTime bounds the writing of one archive (archive.MaxBytes at 2 MB/s): a directory that
// does not answer is to be told of.
const archiveTime = 10 * time.Minute

// writeArchive writes finished tasks beside the loop and tells it whether they
// are safe. A failure keeps them where they are.
func (n *Node) writeArchive(ctx context.Context, view store.Snapshot, a *message.Archive) {
	tasks, err := a.Tasks(view)
	view.Close()
	if err != nil {
		n.fatal(err)
		return
	}
	var m archive.Manifest
	if n.archive == nil {
		err = errors.New("there is no archive directory")
	} else {
		ctx, cancel := context.WithTimeout(ctx, archiveTime)
		defer cancel()
		m, err = n.archive.Write(ctx, n.clock.Wall(), tasks)
	}
	if err != nil {
		n.log.Error("archive.failed", "tasks", len(tasks), "error", err, "meaning", "the tasks stay; free space or repair archive-dir")
	} else {
		n.log.Info("archive.written", "tasks", m.Tasks, "file", m.File)
	}
	n.inbox.Post(message.Archived{Tag: a.Tag, Tasks: len(tasks), Failed: err != nil})
}
