package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/norn-dev/norn/internal/liar"
)

type order struct {
	Rules       []liar.Rule `json:"rules"`
	Seen, Close string
}

func main() {
	to := flag.String("to", "", "`host:port` of the server behind")
	flag.Parse()
	liars := map[string]*liar.Liar{}
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		answer, err := obey(liars, *to, in.Bytes())
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			os.Exit(1)
		}
	}
}

func obey(liars map[string]*liar.Liar, to string, line []byte) (map[string]any, error) {
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return nil, err
	}
	if o.Seen == "" && o.Close == "" {
		l, err := liar.New(to, o.Rules)
		if err != nil {
			return nil, err
		}
		liars[l.Addr()] = l
		return map[string]any{"addr": l.Addr()}, nil
	}
	l := liars[o.Seen+o.Close]
	if l == nil {
		return nil, fmt.Errorf("no liar at %q", o.Seen+o.Close)
	}
	if o.Close != "" {
		l.Close()
		delete(liars, o.Close)
		return map[string]any{}, nil
	}
	return map[string]any{"seen": l.Seen()}, nil
}
