package command

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// maxLeft is how much is read of one output after the command has ended, in bytes:
// as much as a pipe can hold (pipe(7)), so that whoever writes on in the background
// holds nobody up.
const maxLeft = 1 << 20

// streams are the outputs of a command. Package os/exec would not do: it closes a pipe
// a while after the command has ended, whether somebody still reads it or nobody
// writes it. Each line may have to be durable before the next one is read, so what
// the command has written at last takes as long as it takes.
type streams struct {
	readers, writers []*os.File
	to               []io.Writer
	reading          sync.WaitGroup
}

// hear gives the command two outputs.
func hear(cmd *exec.Cmd, out, errOut io.Writer) (*streams, error) {
	s := &streams{to: []io.Writer{out, errOut}}
	for range s.to {
		r, w, err := os.Pipe()
		if err != nil {
			s.begin()
			s.end()
			return nil, err
		}
		s.readers, s.writers = append(s.readers, r), append(s.writers, w)
	}
	cmd.Stdout, cmd.Stderr = s.writers[0], s.writers[1]
	return s, nil
}

// begin reads, once the command has been started or could not be.
func (s *streams) begin() {
	for i, w := range s.writers {
		_ = w.Close() // the command has it
		s.reading.Go(func() { pour(s.to[i], s.readers[i]) })
	}
}

// end hears that the command has ended, and returns when all is read that it has
// written.
func (s *streams) end() {
	for _, r := range s.readers {
		if r.SetReadDeadline(time.Now()) != nil { // not on this system
			defer time.AfterFunc(pipeDelay, func() { _ = r.Close() }).Stop()
		}
	}
	s.reading.Wait()
	for _, r := range s.readers {
		_ = r.Close()
	}
}

// pour reads to the end. From the first time-out on the command has ended, and only
// processes in the background can add something: they are waited for only for
// pipeDelay in all, which does not count the time that the writer takes.
func pour(to io.Writer, from *os.File) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		_, _ = to.Write(b[:n]) // never fails; Write of cfg.Stderr is not our affair
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return
		}
	}
	for wait, left := pipeDelay, maxLeft; wait > 0 && left > 0; {
		began := time.Now()
		if from.SetReadDeadline(began.Add(wait)) != nil {
			return
		}
		n, err := from.Read(b)
		wait -= time.Since(began)
		left -= n
		_, _ = to.Write(b[:n])
		if err != nil {
			return
		}
	}
}
