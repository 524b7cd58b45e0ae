package terms

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// read gives the schedules of a crontab as "line times zone user", and its notes.
func readTab(t *testing.T, c *Crontab, file, text string) (got []string, all []FileSchedule, err error) {
	t.Helper()
	c.Queue, c.Prefix = "q", "cron/"
	if c.IsUser == nil {
		c.IsUser = func(name string) bool { return name == "mail" || name == "backup" }
	}
	all, err = c.Read(file, []byte(text))
	for _, s := range all {
		got = append(got, strings.TrimSpace(fmt.Sprint(s.Line, ": ", s.Spec.GetCron(), " ", s.Spec.GetTimeZone(), " ", s.Spec.GetTask().GetHeaders()["crontab-user"])))
	}
	return got, all, err
}

func TestCrontab(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		name, file, text string
		c                Crontab
		want, notes      string
	}{
		{"of a user", "tab", "\ufeff# c\n\n0 9 */2 * 1-5 /bin/a\r\n\t@daily b  c\n@every_minute d\n-5 4 * * * quiet\n", Crontab{Zone: "Asia/Tokyo"},
			"3: 0 9 */2 * 1-5 Asia/Tokyo|4: @daily Asia/Tokyo|5: * * * * * Asia/Tokyo|6: 5 4 * * * Asia/Tokyo", ""},
		{"zones", "tab", "1 * * * * a\nCRON_TZ=\"Europe/Berlin\"\n2 * * * * a\n3 * * * * Asia/Tokyo a\nCRON_TZ=America/Lima 4 * * * * a\nCRON_TZ=\n@hourly UTC a\n", Crontab{},
			"1: 1 * * * *|3: 2 * * * * Europe/Berlin|4: 3 * * * * Asia/Tokyo|5: 4 * * * * America/Lima|7: @hourly UTC", "taken for UTC"},
		{"of the system", "/etc/crontab", "17 * * * * nobody cd /\n@weekly nobody x\n", Crontab{Zone: "UTC"}, "1: 17 * * * * UTC nobody|2: @weekly UTC nobody", "--user-field"},
		{"a copy of it", "tab", "17 * * * * root cd /\n5 * * * * Europe/Berlin deploy x\n", Crontab{Zone: "UTC"}, "1: 17 * * * * UTC root|2: 5 * * * * Europe/Berlin deploy", "--user-field"},
		{"said", "tab", "17 * * * * mail -s x\n", Crontab{Users: &yes, Zone: "UTC"}, "1: 17 * * * * UTC mail", "--user-field"},
		{"said not", "/etc/cron.d/x", "17 * * * * root x\n", Crontab{Users: &no, Zone: "UTC"}, "1: 17 * * * * UTC", ""},
		{"mixed", "tab", "17 * * * * mail -s x\n18 * * * * other\n", Crontab{Zone: "UTC"}, "1: 17 * * * * UTC|2: 18 * * * * UTC", ""},
		{"named", "tab", "MAILTO=a@b\n@reboot warm up\nTZ=UTC\nSHELL=/bin/bash\n1 * * * * a\n", Crontab{Zone: "UTC"}, "5: 1 * * * * UTC",
			"tab:1: MAILTO|tab:3: TZ is for the commands|tab:4: SHELL is what the worker is to run: norn work -q q -- /bin/bash|tab:2: @reboot warm up is left out"},
	} {
		got, _, err := readTab(t, &tc.c, tc.file, tc.text)
		if err != nil || strings.Join(got, "|") != tc.want {
			t.Errorf("%s: %q, %v; want %s", tc.name, got, err, tc.want)
		}
		for i, want := range strings.Split(tc.notes, "|") {
			if tc.notes == "" && len(tc.c.Notes) == 0 {
				continue
			}
			if i >= len(tc.c.Notes) || !strings.Contains(tc.c.Notes[i], want) || tc.notes == "" {
				t.Errorf("%s: notes %q, want %s", tc.name, tc.c.Notes, tc.notes)
			}
		}
	}
	for text, want := range map[string]string{
		"1 * * * * mail x\n2 * * * * backup\n": "tab:1: \"mail\" may be a user",
		"1 * * * *\n":                          "tab:1: the line has no command",
		"x\n1 * * * * root\n":                  "tab:2: the line has no command after the user",
		"@reboot a\n":                          "no line of it launches",
		"":                                     "no line of it launches",
		"RANDOM_DELAY=x\n1 * * * * a\n":        "RANDOM_DELAY=x is not a number",
	} {
		if _, _, err := readTab(t, &Crontab{}, "tab", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestCrontabScripts are run by sh, as a worker does.
func TestCrontabScripts(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	for text, want := range map[string]string{
		"* * * * * echo a; echo b": "a\nb\n",
		"* * * * * cat":            "",
		"* * * * * cat%":           "",
		"* * * * * cat; echo end # all%one%two\\%%%INPUT":               "one\ntwo%\n\nINPUT\nend\n",
		"* * * * * cat%$HOME `id`%":                                     "$HOME `id`\n",
		"* * * * * printf '\\%s' x":                                     "x",
		"A = it's\nB=\"q  \"\nA='two words'\n* * * * * echo \"$A.$B.\"": "two words.q  .\n",
		"A=$HOME\n* * * * * echo $A":                                    "$HOME\n",
		"A=it's\n* * * * * echo $A":                                     "it's\n",
	} {
		_, all, err := readTab(t, &Crontab{}, "tab", text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		cmd := exec.Command(sh)
		cmd.Stdin = strings.NewReader(string(all[0].Spec.GetTask().GetPayload()))
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("%q: %q, %v; want %q\n%s", text, out, err, want, all[0].Spec.GetTask().GetPayload())
		}
	}
}

// TestCrontabNames stay while the command does, and are names.
func TestCrontabNames(t *testing.T) {
	names := func(text string) (out []string) {
		_, all, err := readTab(t, &Crontab{}, "tab", text)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			out = append(out, s.Name)
		}
		return out
	}
	one, two := names("1 * * * * /usr/bin/a --b\n1 * * * * [ -x c ]\n"), names("# c\n1 * * * * :\n2 3 * * * /usr/bin/a --b\n3 3 * * * /usr/bin/a --b\n")
	if one[0] != two[1] || two[2] != two[1]+"-2" || one[0] == one[1] || !strings.HasPrefix(one[0], "cron/a-b-") || !strings.HasPrefix(two[0], "cron/job-") {
		t.Errorf("%q and %q", one, two)
	}
}

// FuzzCrontab: what is taken has a name, a command and a line; what is not is told with the file.
func FuzzCrontab(f *testing.F) {
	f.Add("0 9 * * * Europe/Berlin root a%b\nCRON_TZ=x\n@reboot c\nA='b\n")
	f.Add("@every 5m a\nMAILTO=\n* * * * * \\%\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := Crontab{Queue: "q", Prefix: "p/", IsUser: func(string) bool { return false }}
		all, err := c.Read("tab", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tab:") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		names := map[string]bool{}
		for _, s := range all {
			if names[s.Name] || s.Line < 1 || len(s.Spec.GetTask().GetPayload()) < 2 || s.Spec.GetOverlap() != nornv1.Overlap_OVERLAP_ALLOW {
				t.Errorf("%q gives %+v", text, s)
			}
			names[s.Name] = true
		}
	})
}
