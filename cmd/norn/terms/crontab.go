package terms

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/schedule"
)

// Crontab is how a crontab is read, and what is to be said about it.
type Crontab struct {
	// Queue gets the tasks. Prefix begins the names of the schedules.
	Queue, Prefix string
	// Zone is that of lines without CRON_TZ; "": UTC.
	Zone string
	// Users says whether the sixth word of a line is the user, as in /etc/crontab; nil:
	// it is found out.
	Users *bool
	// IsUser tells whether this machine has a user of the name.
	IsUser func(name string) bool

	// Notes are what a crontab says and schedules do not, by line.
	Notes []string

	file     string
	zones    []string // all names
	lines    []cronLine
	problems []error
	names    map[string]int
}

// cronLine is a line that launches something, with what lines before it have set.
type cronLine struct {
	number         int
	times          string // fields, or @daily
	rest           string // user and command
	zone, delay    string
	user           string
	env            []string // name=value
	hasOwn, reboot bool     // has a zone; is @reboot
}

// systemCrontab matches the files whose lines have a user.
var systemCrontab = regexp.MustCompile(`^/etc/(crontab|cron\.d/[^/]+)$`)

// cronSetting matches a line that sets a variable.
var cronSetting = regexp.MustCompile(`^("[A-Za-z_]\w*"|'[A-Za-z_]\w*'|[A-Za-z_]\w*)[ \t]*=[ \t]*(.*)$`)

// Read makes schedules of a crontab's lines: a task has its command as a script for sh.
// Problems name file and line, all of them.
func (c *Crontab) Read(file string, b []byte) (all []FileSchedule, err error) {
	c.file, c.zones, c.names = file, schedule.NewZones().Names(), make(map[string]int)
	c.scan(string(bytes.TrimPrefix(b, []byte("\ufeff"))))
	users := c.withUsers()
	zoned := true
	for i := range c.lines {
		l := &c.lines[i]
		if users {
			word, rest := cutWord(l.rest)
			l.user, l.rest = word, rest
		}
		switch {
		case l.rest == "":
			c.bad(l.number, "the line has no command%s", map[bool]string{true: " after the user", false: ""}[users])
			continue
		case l.reboot:
			c.note(l.number, "@reboot %s is left out: a cluster does not reboot; start it with the machine", l.rest)
			continue
		}
		zoned = zoned && (l.hasOwn || c.Zone != "")
		all = append(all, c.schedule(l))
	}
	switch {
	case len(c.problems) > 0:
		return nil, errors.Join(c.problems...)
	case len(all) == 0:
		return nil, fmt.Errorf("%s: no line of it launches anything that can be a schedule", file)
	case users:
		c.Notes = append(c.Notes, "the first word of each command is taken for its user (--user-field); commands run as the user of their worker, the header crontab-user tells which one was meant")
	}
	if !zoned {
		c.Notes = append(c.Notes, "times without CRON_TZ are taken for UTC; cron goes by the zone of its machine, which --tz names")
	}
	return all, nil
}

func (c *Crontab) bad(line int, format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf("%s:%d: "+format, append([]any{c.file, line}, args...)...))
}

func (c *Crontab) note(line int, format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf("%s:%d: "+format, append([]any{c.file, line}, args...)...))
}

// scan finds the lines that launch something.
func (c *Crontab) scan(text string) {
	zone, delay := "", ""
	var env []string
	number := 0
	for raw := range strings.Lines(text) {
		number++
		line := strings.TrimLeft(strings.TrimRight(raw, "\r\n"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		own := zone
		if m := cronSetting.FindStringSubmatch(line); m != nil {
			name, value := unquote(m[1]), unquote(strings.TrimRight(m[2], " \t"))
			first, rest := cutWord(value)
			switch {
			case (name == "CRON_TZ" || name == "TZ") && rest != "": // of this line
				own, line = first, rest
			case name == "CRON_TZ":
				zone = value
				continue
			case name == "RANDOM_DELAY":
				delay = value
				continue
			case name == "MAILTO" || name == "MAILFROM":
				c.note(number, "%s is left out: nothing is mailed; what a command writes is with its task, and pause-on-failure and alerts tell of failures", name)
				continue
			default:
				env = c.set(number, env, name, value)
				continue
			}
		}
		c.lines = append(c.lines, c.line(number, line, own, delay, env))
	}
}

// set takes a variable of the commands that follow.
func (c *Crontab) set(number int, env []string, name, value string) []string {
	switch name {
	case "SHELL":
		c.note(number, "SHELL is what the worker is to run: norn work -q %s -- %s", c.Queue, value)
	case "TZ":
		c.note(number, "TZ is for the commands; times go by CRON_TZ or --tz")
	}
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, name+"=") {
			kept = append(kept, e)
		}
	}
	return append(kept, name+"="+value)
}

// line reads the times of a line, and a zone behind them.
func (c *Crontab) line(number int, text, zone, delay string, env []string) cronLine {
	l := cronLine{number: number, zone: zone, delay: delay, env: env}
	text = strings.TrimPrefix(text, "-") // do not log it
	words := 5
	if text != "" && text[0] == '@' {
		words = 1
		if strings.HasPrefix(text, "@every ") {
			words = 2
		}
	}
	var times []string
	for range words {
		var w string
		w, text = cutWord(text)
		times = append(times, w)
	}
	l.times, l.rest = strings.TrimRight(strings.Join(times, " "), " "), text
	switch l.times {
	case "@reboot":
		l.reboot = true
	case "@every_minute":
		l.times = "* * * * *"
	}
	if w, rest := cutWord(text); slices.Contains(c.zones, w) || zoneWord.MatchString(w) {
		l.zone, l.rest = w, rest
	}
	l.hasOwn = l.zone != ""
	return l
}

// zoneWord matches what was meant for a time zone, where there is none of the name, too.
var zoneWord = regexp.MustCompile(`^(Africa|America|Antarctica|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)/[A-Za-z0-9_+/-]+$`)

// withUsers tells whether lines have a user before the command: the file is one of the
// system's, or it has a line of root. Where all could be of users and none is root's, nobody
// can tell.
func (c *Crontab) withUsers() bool {
	if c.Users != nil {
		return *c.Users
	}
	if systemCrontab.MatchString(c.file) {
		return true
	}
	all := len(c.lines) > 0
	for i := range c.lines {
		w, _ := cutWord(c.lines[i].rest)
		if w == "root" {
			return true
		}
		all = all && c.IsUser(w)
	}
	if all {
		w, _ := cutWord(c.lines[0].rest)
		c.bad(c.lines[0].number, "%s may be a user, as in /etc/crontab, or the command; say --user-field or --user-field=false", strconv.Quote(w))
	}
	return false
}

// schedule makes the schedule of a line.
func (c *Crontab) schedule(l *cronLine) FileSchedule {
	s := &nornv1.ScheduleSpec{Cron: l.times, TimeZone: cmp.Or(l.zone, c.Zone), Task: &nornv1.TaskSpec{Queue: c.Queue, Payload: []byte(script(l.rest, l.env))}}
	if l.user != "" {
		s.Task.Headers = map[string]string{"crontab-user": l.user}
	}
	if l.delay != "" && l.delay != "0" {
		minutes, err := strconv.ParseUint(l.delay, 10, 16)
		if err != nil {
			c.bad(l.number, "RANDOM_DELAY=%s is not a number of minutes", l.delay)
		}
		s.JitterSeconds = float64(minutes) * 60
	}
	name := c.Prefix + cronName(l.user, l.rest)
	if c.names[name]++; c.names[name] > 1 { // the same command at other times
		name += "-" + strconv.Itoa(c.names[name])
	}
	return FileSchedule{Name: name, Spec: s, Line: l.number}
}

// ofName matches what names are made of.
var ofName = regexp.MustCompile(`[A-Za-z0-9._]+`)

// cronName is a name that stays while user and command do, whatever the times.
func cronName(user, command string) string {
	var words []string
	shown, _, _ := percent(command)
	for _, w := range strings.Fields(shown) {
		w = w[strings.LastIndexByte(w, '/')+1:]
		words = append(words, ofName.FindAllString(w, -1)...)
	}
	text := strings.Join(words, "-")
	text = strings.Trim(text[:min(len(text), 40)], "-._")
	sum := sha256.Sum256([]byte(user + "\x00" + command))
	return fmt.Sprintf("%s-%x", cmp.Or(text, "job"), sum[:3])
}

// script is what sh is to do for a line: what follows the first % is the command's input,
// and each further one ends a line of it.
func script(text string, env []string) string {
	var out strings.Builder
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(&out, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	command, input, has := percent(text)
	switch {
	case !has:
		return out.String() + command + "\n"
	case input == "":
		return out.String() + "{ " + command + "\n} </dev/null\n"
	}
	end := "INPUT"
	for strings.Contains(input, end) {
		end += "_" // no line of the input is to end it
	}
	fmt.Fprintf(&out, "{ %s\n} <<'%s'\n%s\n%s\n", command, end, input, end)
	return out.String()
}

// percent splits a command at its first % and takes \% for a plain one.
func percent(text string) (command, input string, has bool) {
	var parts [2]strings.Builder
	at := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '%':
			i++
			parts[at].WriteByte('%')
		case text[i] == '%' && at == 0:
			at = 1
		case text[i] == '%':
			parts[at].WriteByte('\n')
		default:
			parts[at].WriteByte(text[i])
		}
	}
	return parts[0].String(), strings.TrimSuffix(parts[1].String(), "\n"), at == 1
}

func cutWord(text string) (word, rest string) {
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], strings.TrimLeft(text[i:], " \t")
	}
	return text, ""
}

// unquote takes quotes off that are around the whole.
func unquote(text string) string {
	if n := len(text); n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}
