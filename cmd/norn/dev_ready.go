package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	devPoll    = 100 * time.Millisecond
	devAnswer  = 2 * time.Second  // for one status
	devSoon    = time.Second      // what is done by then needs no progress
	devExplain = 10 * time.Second // between two lines that say what is missing, without a terminal
	devWidth   = 79               // of the progress line: no terminal is narrower
)

// devChecks asks every node by itself how it is.
type devChecks struct {
	app     *app
	names   []string
	clients []*client.Client

	mu   sync.Mutex // guards line and done
	line bool       // a progress line is on the terminal
	done bool       // no more progress
}

func newDevChecks(a *app, cfg *config.Config, nodes []devNode) (*devChecks, error) {
	token, secure, err := devCredentials(cfg)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	k := &devChecks{app: a}
	for _, n := range nodes {
		c, err := client.Dial(context.Background(), []string{n.listen}, client.WithAgent("norn-dev/"+version), client.WithAuthToken(token), client.WithTLS(secure))
		if err != nil {
			k.close()
			return nil, err
		}
		k.names, k.clients = append(k.names, n.name), append(k.clients, c)
	}
	return k, nil
}

// devCredentials are what the nodes ask of clients: this one knows what they
// are given.
func devCredentials(cfg *config.Config) (token string, secure *tls.Config, err error) {
	if cfg.AuthTokenFile != "" {
		all, err := secrets.Read(cfg.AuthTokenFile)
		if err != nil {
			return "", nil, fmt.Errorf("auth-token-file: %w", err)
		}
		token = all.First()
	}
	if cfg.TLSCert == "" {
		return token, nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
	if err != nil {
		return "", nil, fmt.Errorf("tls-cert, tls-key: %w", err)
	}
	return token, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		// Whatever the certificate says: it must be this one.
		InsecureSkipVerify: true,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || !bytes.Equal(raw[0], pair.Certificate[0]) {
				return errors.New("the node shows another certificate than it was given")
			}
			return nil
		},
	}, nil
}

func (k *devChecks) close() {
	for _, c := range k.clients {
		_ = c.Close() // only asked questions
	}
}

// wait asks until every node answers and sees a leader and all copies of every
// partition, so that the first death stops nothing; then it sends what people should know about it.
func (k *devChecks) wait(ctx context.Context, ready chan<- []string) {
	tick := time.NewTicker(devPoll)
	defer tick.Stop()
	began := time.Now()
	explained := began
	for {
		missing, clusters := k.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if len(missing) == 0 {
			k.clear()
			var notes []string
			if len(clusters) > 1 {
				notes = []string{fmt.Sprintf("the nodes are %d clusters, not one: %s", len(clusters), strings.Join(clusters, ", "))}
			}
			ready <- notes
			return
		}
		if now := time.Now(); !k.app.ErrTerminal && now.Sub(explained) > devExplain {
			explained = now
			k.app.Note("not ready after %s: %s", now.Sub(began).Round(time.Second), strings.Join(missing, "; "))
		}
		if took := time.Since(began); took > devSoon {
			k.show(fmt.Sprintf("%s: %d of %d nodes are ready; %s", took.Round(time.Second), len(k.names)-len(missing), len(k.names), strings.Join(missing, "; ")))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask gives what is missing, by node, and the clusters that the nodes belong to.
func (k *devChecks) ask(ctx context.Context) (missing, clusters []string) {
	ctx, cancel := context.WithTimeout(ctx, devAnswer)
	defer cancel()
	replies, lacks := make([]*nornv1.StatusReply, len(k.clients)), make([]string, len(k.clients))
	var asking sync.WaitGroup
	for i, c := range k.clients {
		asking.Go(func() {
			s, err := c.Status(ctx)
			if err != nil {
				lacks[i] = "no answer (" + oneLine(err) + ")"
				return
			}
			replies[i], lacks[i] = s, lacking(s)
		})
	}
	asking.Wait()
	for i, what := range lacks {
		if what != "" {
			missing = append(missing, k.names[i]+": "+what)
		}
		if s := replies[i]; s != nil && !slices.Contains(clusters, s.GetClusterId()) {
			clusters = append(clusters, s.GetClusterId())
		}
	}
	return missing, clusters
}

// devVoters is how many members of the register vote at most.
const devVoters = 5

// lacking says what a node's picture of the cluster lacks until any one of three
// nodes may die and the others go on: leaders, copies, voters. Leaders who are about to pass
// their partitions on are waited for too, or the first tasks would wait while they do.
func lacking(s *nornv1.StatusReply) string {
	members, up := 0, map[string]bool{}
	for _, n := range s.GetNodes() {
		up[n.GetName()] = up[n.GetName()] || n.GetState() == "up"
		switch n.GetState() {
		case "up", "down":
			members++
		case "joining":
			return n.GetName() + " is joining"
		}
	}
	copies := min(max(members, 1), int(s.GetReplicas()))
	led, whole, served, spread := 0, 0, 0, 0
	for _, p := range s.GetPartitions() {
		if p.GetLeader() != "" {
			led++
		}
		if len(p.GetCohort()) >= copies {
			whole++
		}
		if p.GetEnqueueAvailable() && p.GetClaimAvailable() {
			served++
		}
		if planned := p.GetPlanned(); len(planned) == 0 || planned[0] == p.GetLeader() || !up[planned[0]] {
			spread++
		}
	}
	voters := min(members, devVoters)
	voters -= (voters + 1) % 2 // an even one would help nobody
	switch all := len(s.GetPartitions()); {
	case led < all || all == 0:
		return fmt.Sprintf("%d of %d partitions have a leader", led, all)
	case whole < all:
		return fmt.Sprintf("%d of %d partitions have %d copies", whole, all, copies)
	case served < all:
		return fmt.Sprintf("%d of %d partitions take and give out tasks", served, all)
	case len(s.GetVoters()) < voters:
		return fmt.Sprintf("%d of %d members of the register vote", len(s.GetVoters()), voters)
	case spread < all:
		return fmt.Sprintf("%d of %d partitions are led by the node that is to lead them", spread, all)
	}
	return ""
}

// show writes one line over the last one.
func (k *devChecks) show(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done || k.app.Quiet || !k.app.ErrTerminal {
		return
	}
	if r := []rune(cli.Clean(text)); len(r) > devWidth {
		text = string(r[:devWidth-1]) + "…"
	}
	fmt.Fprintf(k.app.ErrOut, "\r\x1b[K%s", text)
	k.line = true
}

// clear takes the line away for good.
func (k *devChecks) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.line {
		fmt.Fprint(k.app.ErrOut, "\r\x1b[K")
	}
	k.line, k.done = false, true
}
