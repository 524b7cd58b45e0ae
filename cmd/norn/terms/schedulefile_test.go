package terms

import (
	"strings"
	"testing"
)

// FuzzScheduleFile: whatever a file holds, what is taken from it has a name and a
// line of the file, and what is not is told with the file's name.
func FuzzScheduleFile(f *testing.F) {
	f.Add("name: nightly\ncron: '30 2 * * *'\nqueue: reports\n")
	f.Add("schedules:\n- {name: a, cron: '@every 5m', queue: q, headers: {h: v}}\n- {name: b, cron: '* * * * *', queue: q, paused: true}\n")
	f.Add("---\n# nothing\n---\n- name: a\n- &x [*x]\n")
	f.Add(`[{"name": "a", "name": "b", "cron": 5, "headers": []}]`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ScheduleFile("s.yaml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "s.yaml") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		lines, names := strings.Count(text, "\n")+strings.Count(text, "\r")+strings.Count(text, "\u0085")+strings.Count(text, "\u2028")+strings.Count(text, "\u2029")+1, map[string]bool{}
		for _, s := range all {
			if s.Name == "" || names[s.Name] || s.Line < 1 || s.Line > lines || s.Spec.GetTask() == nil {
				t.Errorf("%q gives %+v", text, s)
			}
			names[s.Name] = true
		}
	})
}
