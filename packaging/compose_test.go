package packaging

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestCompose: compose.yaml is one by Compose's own reader, and norn takes what it says. No
// engine runs it here.
func TestCompose(t *testing.T) {
	for _, file := range []string{"compose.yaml", one(t, "compose.yaml")} {
		text, err := os.ReadFile(file)
		must(t, err)
		project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
			WorkingDir: ".", ConfigFiles: []types.ConfigFile{{Filename: file, Content: text}}, Environment: types.Mapping{},
		}, func(o *loader.Options) { o.SetProjectName("norn", true) })
		if err != nil {
			t.Fatal(err)
		}
		if len(project.Services) != 3 {
			t.Fatalf("%d services", len(project.Services))
		}
		program, published := norn(t), map[string]bool{}
		for name, s := range project.Services {
			if !s.ReadOnly || len(s.CapDrop) != 1 || len(s.Volumes) != 1 || s.Volumes[0].Source != name || s.Volumes[0].Target != "/var/lib/norn" {
				t.Errorf("%s: %+v", name, s)
			}
			for _, p := range s.Ports {
				if p.HostIP != "127.0.0.1" || published[p.Published] {
					t.Errorf("%s publishes %s:%s", name, p.HostIP, p.Published)
				}
				published[p.Published] = true
			}
			cmd := exec.Command(program, "server", "--print-config")
			for k, v := range s.Environment {
				cmd.Env = append(cmd.Env, k+"="+*v)
			}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "name: "+name) || !strings.Contains(string(out), "bootstrap-expect: 3") || strings.Contains(string(out), "unknown") {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
			for k := range s.Environment {
				setting := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(k, "NORN_SERVER_")), "_", "-")
				if !strings.Contains(string(out), "\n"+setting+":") && !strings.HasPrefix(string(out), setting+":") {
					t.Errorf("%s: norn has no setting %s", name, setting)
				}
			}
		}
	}
	if text, _ := os.ReadFile(one(t, "compose.yaml")); !strings.Contains(string(text), "image: norn:"+version(t)) {
		t.Error("compose.yaml of the release names another image")
	}
}
