package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "norn.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func completed() *Config {
	c := Default()
	c.Complete()
	return c
}

func TestDefaultIsValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, completed()) {
		t.Errorf("got %+v", c)
	}
	if c.Name != "127.0.0.1:7712" || c.Buffer != 5*time.Second {
		t.Errorf("not completed: name %q, buffer %s", c.Name, c.Buffer)
	}
}

// TestEveryFieldIsASetting sets every field to something else by its name.
func TestEveryFieldIsASetting(t *testing.T) {
	c := Default()
	v := reflect.ValueOf(c).Elem()
	if n := len(c.Settings()); n != v.NumField() {
		t.Fatalf("%d settings, %d fields", n, v.NumField())
	}
	seen := map[string]bool{}
	for i, s := range c.Settings() {
		before := v.Field(i).Interface()
		text := map[string]string{"string": "x", "int": "77", "float": "0.5", "bool": "true", "duration": "77ms", "size": "77KiB", "list": "x:1,y:2", "networks": "10.0.0.5,10.1.0.0/16,fd00::/8"}[s.Type()]
		if word, ok := map[string]string{"log-level": "warn", "log-format": "json", "audit-data": "all", "auth-cert": "cn", "retention-policy": "keep"}[s.Name]; ok {
			text = word
		}
		if err := s.Set(text); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if s.String() != text {
			t.Errorf("%s: set to %q, reads %q", s.Name, text, s.String())
		}
		if reflect.DeepEqual(before, v.Field(i).Interface()) {
			t.Errorf("setting %s is not field %s", s.Name, v.Type().Field(i).Name)
		}
		name := strings.ToLower(v.Type().Field(i).Name)
		if strings.ReplaceAll(s.Name, "-", "") != name {
			t.Errorf("setting %s stands at the place of field %s", s.Name, name)
		}
		if seen[s.Name] || s.Usage == "" {
			t.Errorf("%s: twice, or without usage", s.Name)
		}
		seen[s.Name] = true
	}
}

func TestPrecedence(t *testing.T) {
	path := file(t, "eta: 1s\nreplicas: 5\nzone: file\ndefault-lease: 7s\n")
	c, err := Load(Sources{
		File:    path,
		Environ: []string{"NORN_SERVER_ETA=2s", "NORN_SERVER_ZONE=env", "NORN_SERVER_REPLICAS=", "HOME=/x"},
		Flags:   map[string]string{"eta": "3s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Eta != 3*time.Second || c.Zone != "env" || c.Replicas != 5 || c.DefaultLease != 7*time.Second || c.Partitions != 64 {
		t.Errorf("eta %s, zone %s, replicas %d, lease %s, partitions %d", c.Eta, c.Zone, c.Replicas, c.DefaultLease, c.Partitions)
	}
	if c, err = Load(Sources{Environ: []string{"NORN_SERVER_CONFIG=" + path}}); err != nil || c.Zone != "file" {
		t.Errorf("NORN_SERVER_CONFIG: %v", err)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	path := file(t, "etta: 1s\nreplicas: 3\nmax_payload: 2MiB\nreplicas: 4\neta:\ndata: [a]\nhead-size: many\ngc-grace: 5\n")
	_, err := Load(Sources{File: path, Environ: []string{"NORN_SERVER_PPROF=maybe"}, Flags: map[string]string{
		"max-payload": "17MiB", "log-level": "loud", "listen": "localhost", "partitions": "0", "tls-key": "k", "retry-jitter": "2",
		"default-lease": "25h", "disk-reserve": "1MiB", "buffer": "1ms", "session-gap": "6s", "name-lease": "10s", "peer-heartbeat": "2s", "register-election-timeout": "150ms", "stop-timeout": "2h",
		"name": "n\xff", "zone": "a\nb", "http-hosts": "https://norn.lan,a/b,norn.lan:", "http-cors-origins": "*,app.lan,https://app.lan/x", "metrics-auth": "true",
		"proxy-from": "10.0.0.5,lb.lan",
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		path + `:1: unknown key "etta"; the nearest is "eta"`,
		path + `:3: unknown key "max_payload"; the nearest is "max-payload"`,
		path + `:4: replicas: set before, in line 2`,
		path + `:5: eta: expected one value`,
		path + `:6: data: expected one value`,
		path + `:7: head-size: "many" is not a whole number`,
		path + `:8: gc-grace: "5" has no unit; write 5s for seconds`,
		`environment variable NORN_SERVER_PPROF: "maybe" is not true or false`,
		`flag --log-level: "loud" is not one of debug, info, warn, error`,
		`max-payload: 17MiB is not between 1 and 16MiB`,
		`listen: "localhost" is not host:port`,
		`partitions: 0 is not between 1 and 4096`,
		`tls-cert, tls-key: one is useless without the other`,
		`retry-jitter: 2 is not between 0 and 1`,
		`default-lease: 25h is not between 1s and 24h`,
		`disk-reserve: 1MiB is less than disk-stop (64MiB)`,
		`buffer: 1ms is less than eta (5s)`,
		`session-gap: 6s is less than two periods (session-period, 5s)`,
		`name-lease: 10s is not between 1m12s, twice session-gap and session-lose together`,
		`peer-timeout: 2.5s is less than two heartbeats (peer-heartbeat, 2s)`,
		`register-election-timeout: 150ms is less than two heartbeats (register-heartbeat, 100ms)`,
		`stop-timeout: 2h is not between 10ms and 1h`,
		`name: "n\xff" has characters that cannot be printed, or is not UTF-8`,
		`zone: "a\nb" has characters`,
		`http-hosts: "https://norn.lan" is not host or host:port`,
		`http-hosts: "a/b" is not`,
		`http-hosts: "norn.lan:" is not`,
		`http-cors-origins: "*" is not https://HOST`,
		`http-cors-origins: "app.lan" is not`,
		`http-cors-origins: "https://app.lan/x" is not`,
		`metrics-auth: there is nothing to ask for`,
		`proxy-from: "lb.lan" is no address or network of addresses`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing: %s\nin: %v", want, err)
		}
	}
	if got, want := len(strings.Split(err.Error(), "\n")), 32; got != want {
		t.Errorf("%d problems, want %d: %v", got, want, err)
	}
}

func TestBadFiles(t *testing.T) {
	for content, want := range map[string]string{
		"eta: [":             "did not find",
		"- eta":              "norn.yaml:1: expected settings",
		"eta: 1s\n---\na: b": "more than one YAML document",
		"data: {a: b}":       "expected one value",
	} {
		_, err := Load(Sources{File: file(t, content)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", content, err, want)
		}
	}
	for _, content := range []string{"", "\n# nothing\n", "---\n", "null\n"} {
		if _, err := Load(Sources{File: file(t, content)}); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := Load(Sources{File: "does/not/exist"}); err == nil || !strings.Contains(err.Error(), "does/not/exist") {
		t.Errorf("missing file: %v", err)
	}
}

func TestPortsMustDiffer(t *testing.T) {
	c := Default()
	c.HTTPListen = c.Listen
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "http-listen: 127.0.0.1:7711 is taken by listen") {
		t.Errorf("got %v", err)
	}
	c.Listen, c.HTTPListen = "127.0.0.1:0", "127.0.0.1:0"
	if err := c.Validate(); err != nil {
		t.Errorf("port 0 is any port: %v", err)
	}
	c.Listen = "127.0.0.1:70000"
	if err := c.Validate(); err == nil {
		t.Error("port 70000 passes")
	}
}

// TestPeers checks what other nodes are told, and where they are looked for.
func TestPeers(t *testing.T) {
	c, err := Load(Sources{
		File:    file(t, "join: n1:7712, n2:7712 ,\n"),
		Environ: []string{"NORN_SERVER_PEER_LISTEN=:7712"},
		Flags:   map[string]string{"peer-advertise": "n3.example:7712"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Join, []string{"n1:7712", "n2:7712"}) || c.Name != "n3.example:7712" || c.Weight != 100 {
		t.Errorf("join %q, name %q, weight %d", c.Join, c.Name, c.Weight)
	}
	_, err = Load(Sources{Flags: map[string]string{
		"join": "n1:7712,n2,:7712,0.0.0.0:1,n3:0", "peer-listen": "[::]:7712", "weight": "0", "gossip-interval": "2m",
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`join: "n2" is not host:port of one node`, `join: ":7712" is not`, `join: "0.0.0.0:1" is not`, `join: "n3:0" is not`,
		"peer-listen: [::]:7712 is every address of this machine; say with peer-advertise", "weight: 0 is not between 1 and 1000000",
		"gossip-interval: 2m is not between 10ms and 1m",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing: %s\nin: %v", want, err)
		}
	}
	if got := len(strings.Split(err.Error(), "\n")); got != 7 {
		t.Errorf("%d problems, want 7: %v", got, err)
	}
	c = Default()
	c.PeerAdvertise = "0.0.0.0:1"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "peer-advertise: ") {
		t.Errorf("advertised is every address: %v", err)
	}
}

// TestExample keeps norn.example.yaml complete, commented, and equal to the
// defaults.
func TestExample(t *testing.T) {
	path := filepath.Join("..", "..", "norn.example.yaml")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.Data, c.Replicas = "other", 9 // so that what the file leaves out is seen
	if problems := readYAML(path, b, c.Settings()); len(problems) > 0 {
		t.Fatal(problems)
	}
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("the example differs from the defaults:\n%+v\n%+v", c, Default())
	}
	commented := false
	at := 0
	settings := Default().Settings()
	for _, line := range strings.Split(string(b), "\n") {
		switch {
		case strings.HasPrefix(line, "# ---") || line == "":
			commented = false
		case strings.HasPrefix(line, "#"):
			commented = true
		default:
			name, _, _ := strings.Cut(line, ":")
			if at >= len(settings) || settings[at].Name != name {
				t.Fatalf("%s is not the next setting, or a setting is missing before it", name)
			}
			if !commented && name != "tls-key" { // explained with tls-cert
				t.Errorf("%s has no comment", name)
			}
			at++
		}
	}
	if at != len(settings) {
		t.Errorf("%d of %d settings are named", at, len(settings))
	}
}

func TestPrintedConfigLoadsAgain(t *testing.T) {
	other := completed()
	other.Zone, other.Name, other.Data, other.Join = "yes", "1", "a: b # c", []string{"n1:1", "n2:2"}
	for _, c := range []*Config{completed(), other} {
		b, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Load(Sources{File: file(t, string(b))})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(c, again) {
			t.Errorf("got %+v, want %+v", again, c)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "1": 1, "1B": 1, "64KiB": 65536, "1MiB": 1 << 20, "2 GiB": 2 << 30, "1TiB": 1 << 40, "5MB": 5e6, "1kB": 1000} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5MiB", "MiB", "1mb", "9999999TiB", "9223372036854775808", "1M"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q passes as %d", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := Size(rapid.Int64Min(0).Draw(t, "n"))
		if got, err := ParseSize(n.String()); err != nil || got != n {
			t.Fatalf("%d is written %s and read %d, %v", n, n, got, err)
		}
	})
}

func TestDurationsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "d"))
		if rapid.Bool().Draw(t, "whole") {
			d = d.Truncate(time.Minute)
		}
		if got, err := time.ParseDuration(formatDuration(d)); err != nil || got != d {
			t.Fatalf("%s is written %s: %v", d, formatDuration(d), err)
		}
	})
	for d, want := range map[time.Duration]string{168 * time.Hour: "168h", 90 * time.Minute: "1h30m", 30 * time.Second: "30s", 0: "0s", 10 * time.Minute: "10m"} {
		if got := formatDuration(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestUnknownEnv(t *testing.T) {
	got := UnknownEnv([]string{"NORN_SERVER_ETTA=1", "NORN_SERVER_ETA=1s", "NORN_SERVER_CONFIG=x", "NORN_ADDR=y", "NORN_SERVER_PORT=tcp://1"})
	if len(got) != 2 || got[0] != "NORN_SERVER_ETTA (nearest: NORN_SERVER_ETA)" || !strings.HasPrefix(got[1], "NORN_SERVER_PORT ") {
		t.Errorf("got %q", got)
	}
}

func FuzzYAML(f *testing.F) {
	f.Add([]byte("eta: 1s\n"))
	f.Add([]byte("- a\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("---\n...\n%YAML 1.2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Default()
		problems := readYAML("f", b, c.Settings())
		for _, err := range problems {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%q does not say where", err)
			}
		}
		if len(problems) > 0 {
			return
		}
		// What was read is written, and read again as the same.
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again := Default()
		if problems := readYAML("g", text, again.Settings()); len(problems) > 0 {
			t.Fatalf("%q was read, and is refused as it is written: %v\n%s", b, problems, text)
		}
		for i, s := range c.Settings() {
			if got := again.Settings()[i].String(); got != s.String() {
				t.Errorf("%s: %q was read, and then %q", s.Name, s.String(), got)
			}
		}
	})
}

// TestSnapshots checks where snapshots go and come from.
func TestSnapshots(t *testing.T) {
	_, err := Load(Sources{Flags: map[string]string{
		"snapshot-to": "s3://key:secret@bucket", "restore-from": "ftp://x", "join": "n1:7712", "snapshot-every": "100ms", "snapshot-keep": "0",
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"snapshot-to: objects: not an address", "restore-from: objects: not an address", "restore-from, join: a restore begins a cluster anew",
		"snapshot-every: 100ms is not between 1s and 24h", "snapshot-keep: 0 is not between",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing: %s\nin: %v", want, err)
		}
	}
	if _, err = Load(Sources{Flags: map[string]string{"snapshot-to": "s3://bucket/prefix", "snapshot-every": "0s"}}); err == nil || !strings.Contains(err.Error(), "nothing is ever written") {
		t.Errorf("a place and no interval: %v", err)
	}
	if _, err = Load(Sources{Flags: map[string]string{"snapshot-to": "/mnt/backup", "restore-from": "s3://bucket"}}); err != nil {
		t.Error(err)
	}
}

func TestAClockIsSetWrongInTestsOnly(t *testing.T) {
	for _, setting := range []string{"test-clock-offset=-1.5s", "test-clock-rate=100000", "test-clock-file=/x"} {
		name, value, _ := strings.Cut(setting, "=")
		_, err := Load(Sources{Flags: map[string]string{name: value}})
		if ForTests {
			if err != nil {
				t.Errorf("%s in a build for tests: %v", name, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "not built for tests (make build-test)") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
