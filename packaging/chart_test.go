package packaging

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	scaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	strict "sigs.k8s.io/yaml"
)

// helm runs the tool that packaging/release.sh has built.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	found, _ := filepath.Glob("../bin/tools/helm-v*")
	if len(found) == 0 {
		t.Skip("NOT RUN: no helm (make release builds it)")
	}
	var out, errOut bytes.Buffer
	cmd := exec.Command(found[len(found)-1], args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	err := cmd.Run()
	return out.String() + errOut.String(), err
}

// rendered are the manifests of the chart, each read strictly: a field that Kubernetes does
// not know, or of another type, is an error.
type rendered struct {
	set      *apps.StatefulSet
	budget   *policy.PodDisruptionBudget
	services map[string]*core.Service
}

func render(t *testing.T, values string) rendered {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	must(t, os.WriteFile(file, []byte(values), 0o600))
	if out, err := helm(t, "lint", "--strict", "helm/norn", "-f", file); err != nil {
		t.Fatalf("helm lint: %s", out)
	}
	out, err := helm(t, "template", "--kube-version", "1.30.0", "norn", "helm/norn", "-n", "queues", "-f", file)
	if err != nil {
		t.Fatalf("helm template: %s", out)
	}
	return decode(t, out)
}

func decode(t *testing.T, manifests string) rendered {
	t.Helper()
	r := rendered{services: map[string]*core.Service{}}
	for _, text := range regexp.MustCompile(`(?m)^---$`).Split(manifests, -1) {
		var kind struct{ Kind string }
		doc := []byte(text)
		err := strict.Unmarshal(doc, &kind)
		must(t, err)
		switch kind.Kind {
		case "":
		case "StatefulSet":
			r.set = &apps.StatefulSet{}
			err = strict.UnmarshalStrict(doc, r.set)
		case "PodDisruptionBudget":
			r.budget = &policy.PodDisruptionBudget{}
			err = strict.UnmarshalStrict(doc, r.budget)
		case "Service":
			s := &core.Service{}
			err = strict.UnmarshalStrict(doc, s)
			r.services[s.Name] = s
		default:
			err = fmt.Errorf("no test knows %s", kind.Kind)
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
	}
	return r
}

const everything = `
replicas: 5
image: {repository: registry.example.com/norn, tag: 1.2.3, pullPolicy: Always}
imagePullSecrets: [{name: pull}]
peerSecret: peers
tokenSecret: token
tls: {secret: tls, clientCertificates: true}
peerTLS: {secret: peer-tls}
storage: {size: 100Gi, className: local}
settings: {max-payload: 4MiB, disk-reserve: 1GiB, replicas: 3}
httpHosts: [norn.example.com]
stopWait: 120
service: {type: LoadBalancer, annotations: {a: b}}
podAnnotations: {prometheus.io/scrape: "true"}
podLabels: {team: queues}
nodeSelector: {disk: local}
tolerations: [{key: queues, operator: Exists}]
affinity: {podAntiAffinity: {}}
priorityClassName: high
`

// TestChart: the chart's manifests are what Kubernetes reads, fit together, and start a node.
func TestChart(t *testing.T) {
	for name, values := range map[string]string{"defaults": "{}", "everything": everything, "one node": "{replicas: 1, podDisruptionBudget: null}"} {
		t.Run(name, func(t *testing.T) {
			r := render(t, values)
			fits(t, r)
			starts(t, r.set)
		})
	}
	set := render(t, everything).set
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	for _, want := range []string{
		"--bootstrap-expect=5", "--join=norn-0.norn-nodes:7712,norn-1.norn-nodes:7712,norn-2.norn-nodes:7712,norn-3.norn-nodes:7712,norn-4.norn-nodes:7712",
		"--http-hosts=norn,norn.queues.svc,norn.example.com", "--auth-token-file=/etc/norn/auth/token", "--tls-client-ca=/etc/norn/tls/ca.crt",
		"--peer-tls-ca=/etc/norn/peer-tls/ca.crt", "--max-payload=4MiB", "--replicas=3", "--log-format=json",
	} {
		if !slices.Contains(c.Args, want) {
			t.Errorf("no %s in %q", want, c.Args)
		}
	}
	if c.Image != "registry.example.com/norn:1.2.3" || *pod.TerminationGracePeriodSeconds != 150 || *set.Spec.Replicas != 5 || pod.PriorityClassName != "high" {
		t.Errorf("image %s, grace %d, replicas %d, priority %s", c.Image, *pod.TerminationGracePeriodSeconds, *set.Spec.Replicas, pod.PriorityClassName)
	}
	if claim := set.Spec.VolumeClaimTemplates[0].Spec; claim.Resources.Requests.Storage().String() != "100Gi" || *claim.StorageClassName != "local" {
		t.Errorf("claim %+v", claim)
	}
}

// fits: what the manifests say of each other by name is there.
func fits(t *testing.T, r rendered) {
	t.Helper()
	set, pod := r.set, r.set.Spec.Template.Spec
	c := pod.Containers[0]
	matches := func(what string, selector map[string]string) {
		t.Helper()
		for k, v := range selector {
			if len(selector) == 0 || set.Spec.Template.Labels[k] != v {
				t.Errorf("%s selects %v, pods have %v", what, selector, set.Spec.Template.Labels)
			}
		}
	}
	matches("the set", set.Spec.Selector.MatchLabels)
	ports := map[string]core.Protocol{}
	for _, p := range c.Ports {
		ports[p.Name] = p.Protocol
	}
	for name, s := range r.services {
		matches("service "+name, s.Spec.Selector)
		for _, p := range s.Spec.Ports {
			if proto, ok := ports[p.TargetPort.StrVal]; !ok || proto != p.Protocol {
				t.Errorf("service %s leads to port %s (%s), the pod has %v", name, p.TargetPort.StrVal, p.Protocol, ports)
			}
		}
	}
	nodes := r.services[set.Spec.ServiceName]
	if nodes == nil || nodes.Spec.ClusterIP != core.ClusterIPNone || !nodes.Spec.PublishNotReadyAddresses || r.services[set.Name] == nil || r.services[set.Name].Spec.PublishNotReadyAddresses {
		t.Errorf("services %v", r.services)
	}
	if set.Spec.PodManagementPolicy != apps.ParallelPodManagement {
		t.Error("pods do not start at once")
	}
	if r.budget != nil {
		matches("the budget", r.budget.Spec.Selector.MatchLabels)
		if *r.budget.Spec.MaxUnavailable != intstr.FromInt32(1) {
			t.Errorf("budget %v", r.budget.Spec.MaxUnavailable)
		}
	} else if *set.Spec.Replicas > 1 {
		t.Error("no budget")
	}
	volumes := map[string]bool{set.Spec.VolumeClaimTemplates[0].Name: true}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if mode := v.Secret.DefaultMode; mode == nil || *mode != 0o440 {
			t.Errorf("mode of the secret %s: %v", v.Name, mode)
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	mounted := func(path string) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return strings.HasPrefix(path, m.MountPath+"/") })
	}
	for _, path := range regexp.MustCompile(`/(?:etc|var)/[\w./-]+`).FindAllString(strings.Join(c.Args, " ")+fmt.Sprint(c.Env), -1) {
		if !mounted(path) {
			t.Errorf("nothing is mounted for %s", path)
		}
	}
}

var templated = regexp.MustCompile(`\$\(POD\)`)

// starts: norn itself takes the arguments.
func starts(t *testing.T, set *apps.StatefulSet) {
	t.Helper()
	args := []string{"server", "--print-config"}
	for _, a := range set.Spec.Template.Spec.Containers[0].Args {
		args = append(args, templated.ReplaceAllString(a, set.Name+"-0"))
	}
	if out := run(t, norn(t), args...); !strings.Contains(out, "name: norn-0") {
		t.Errorf("%s", out)
	}
}

// TestChartIsThePage: the chart says of pods what docs/how-to/containers.md says, which
// TestContainers of cmd/norn runs.
func TestChartIsThePage(t *testing.T) {
	text, err := os.ReadFile("../docs/how-to/containers.md")
	must(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(text))
	page := decode(t, block[1])
	chart := render(t, "{}")
	a, b := page.set.Spec.Template.Spec, chart.set.Spec.Template.Spec
	p, c := a.Containers[0], b.Containers[0]
	p.LivenessProbe.HTTPGet.Port, p.ReadinessProbe.HTTPGet.Port = intstr.FromString("http"), intstr.FromString("http") // a name for 7713
	replaced := func(args []string) (names []string) {
		for _, arg := range args {
			name, value, _ := strings.Cut(arg, "=")
			if name != "--http-hosts" && name != "--peer-secret-file" { // of the namespace; a directory of its own
				names = append(names, name+"="+value)
			}
		}
		slices.Sort(names)
		return names
	}
	for what, two := range map[string][2]any{
		"arguments":  {replaced(p.Args), replaced(c.Args)},
		"command":    {p.Command, c.Command},
		"liveness":   {p.LivenessProbe, c.LivenessProbe},
		"readiness":  {p.ReadinessProbe, c.ReadinessProbe},
		"preStop":    {p.Lifecycle, c.Lifecycle},
		"container":  {p.SecurityContext, c.SecurityContext},
		"user":       {*a.SecurityContext.RunAsUser, *b.SecurityContext.RunAsUser},
		"files":      {*a.SecurityContext.FSGroup, *b.SecurityContext.FSGroup},
		"grace":      {*a.TerminationGracePeriodSeconds, *b.TerminationGracePeriodSeconds},
		"resources":  {p.Resources, c.Resources},
		"policy":     {page.set.Spec.PodManagementPolicy, chart.set.Spec.PodManagementPolicy},
		"the budget": {page.budget.Spec.MaxUnavailable, chart.budget.Spec.MaxUnavailable},
		"storage":    {page.set.Spec.VolumeClaimTemplates[0].Spec, chart.set.Spec.VolumeClaimTemplates[0].Spec},
	} {
		x, err := strict.Marshal(two[0])
		must(t, err)
		y, err := strict.Marshal(two[1])
		must(t, err)
		if !bytes.Equal(x, y) {
			t.Errorf("%s: the page has\n%s\nthe chart\n%s", what, x, y)
		}
	}
}

// TestExampleWorkers: examples/kubernetes/worker.yaml is what Kubernetes reads.
func TestExampleWorkers(t *testing.T) {
	text, err := os.ReadFile("../examples/kubernetes/worker.yaml")
	must(t, err)
	first, second, _ := strings.Cut(string(text), "\n---\n")
	var d apps.Deployment
	must(t, strict.UnmarshalStrict([]byte(first), &d))
	var h scaling.HorizontalPodAutoscaler
	must(t, strict.UnmarshalStrict([]byte(second), &h))
	c := d.Spec.Template.Spec.Containers[0]
	nodes := render(t, "{}").set
	if want := nodes.Name + "-0." + nodes.Spec.ServiceName + ":7711"; !strings.HasPrefix(c.Env[0].Value, want+",") || h.Spec.ScaleTargetRef.Name != d.Name {
		t.Errorf("it connects to %s, the chart has %s; it scales %s", c.Env[0].Value, want, h.Spec.ScaleTargetRef.Name)
	}
}

// TestChartRefuses: values that would make no cluster, or that the chart sets itself.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"{replicas: 2}":            "replicas",
		"{settings: {name: x}}":    "propertyName 'name'",
		"{tokensecret: x}":         "tokensecret",
		"{peerSecret: ''}":         "peerSecret",
		"{storage: {size: large}}": "storage",
	} {
		file := filepath.Join(t.TempDir(), "values.yaml")
		must(t, os.WriteFile(file, []byte(values), 0o600))
		if out, err := helm(t, "template", "--kube-version", "1.30.0", "norn", "helm/norn", "-f", file); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %.300s", values, err, out)
		}
	}
}

// TestChartOfTheRelease: the packed chart has the release's version, and its image.
func TestChartOfTheRelease(t *testing.T) {
	out, err := helm(t, "template", "--kube-version", "1.30.0", "norn", one(t, "norn-*.tgz"))
	must(t, err)
	if image := decode(t, out).set.Spec.Template.Spec.Containers[0].Image; image != "norn:"+version(t) {
		t.Errorf("image %s", image)
	}
}
