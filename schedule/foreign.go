package schedule

import (
	"fmt"
	"strings"
)

// foreign tells whose line six or seven fields look like, "" when they do not look
// like another program's: both have years, and want ? in one of the day fields.
func foreign(fields []string) string {
	is := func(i int) bool { return fields[i] == "?" }
	switch {
	case len(fields) < fieldCount || len(fields) > fieldCount+1:
		return ""
	case len(fields) == fieldCount && (is(2) || is(4)):
		return "EventBridge"
	case is(3) || is(5):
		return "Quartz"
	}
	return ""
}

// foreignWarning says what a line that looks like another program's means here.
func foreignWarning(fields []string) string {
	whose := foreign(fields)
	if whose == "" {
		return ""
	}
	own := fields
	theirs := "second minute hour day-of-month month day-of-week, where ? is any value"
	if whose == "EventBridge" {
		theirs, own = "minute hour day-of-month month day-of-week year, where ? is any value", fields[:fieldCount-1]
	}
	own = append([]string{}, own[:min(len(own), fieldCount)]...)
	for i := range own {
		if own[i] == "?" {
			own[i] = "*"
		}
	}
	days := own[len(own)-1]
	advice := fmt.Sprintf("if that is meant, write %s", strings.Join(own, " "))
	if strings.ContainsAny(days, "0123456789") {
		advice += " with names for days of the week, which begin with 1 for Sunday there"
	}
	return fmt.Sprintf("this looks like a line of %s: %s; %s", whose, theirs, advice)
}

// foreignHint is what an error about fields adds.
func foreignHint(text string, words []word) string {
	var fields []string
	for _, w := range words {
		fields = append(fields, text[w.from:w.to])
	}
	for _, form := range []string{"cron(", "rate(", "at("} {
		if strings.HasPrefix(fields[0], form) {
			return "; " + form + "…) is EventBridge's; write minute hour day-of-month month day-of-week, or @every 5m"
		}
	}
	last := fields[len(fields)-1]
	switch w := foreignWarning(fields); {
	case w != "":
		return "; " + w
	case len(fields) >= fieldCount && (len(last) > 4 && isLetter(last[0]) && strings.Contains(last, "/") || last == "UTC"):
		return "; a time zone stands before the fields: CRON_TZ=" + last + " " + strings.Join(fields[:len(fields)-1], " ")
	}
	return ""
}

func isLetter(c byte) bool { return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }

// Warnings says in sentences what a user may not have meant, nil where nothing is
// unusual. They are shown with every answer about the specification.
func (s Spec) Warnings() (all []string) {
	if s.every > 0 {
		return nil
	}
	words := split(s.text)
	if s.zone != "" {
		words = words[1:]
	}
	var fields []string
	for _, w := range words {
		fields = append(fields, s.text[w.from:w.to])
	}
	if w := foreignWarning(fields); w != "" {
		all = append(all, w)
	}
	if len(fields) > 1 { // else it is @daily or the like
		all = append(all, pickWarnings(fields)...)
	}
	if s.either() {
		all = append(all, "a day needs to match either day-of-month or day-of-week: both are given, and neither begins with *")
	}
	if s.readsOtherwise() {
		all = append(all, "it is read by the rules of when it was set; set it again for those of now, by which a day field that begins with * is a star and both fields must match")
	}
	return all
}

// pickWarnings are about fields that are only `?`, which is any value elsewhere.
func pickWarnings(fields []string) (all []string) {
	var names []string
	day := false
	for i, k := range kinds() {
		switch at := i - (fieldCount - len(fields)); {
		case at < 0 || fields[at] != "?":
		case i == dayOfMonth || i == dayOfWeek:
			day = true
		default:
			names = append(names, k.name)
		}
	}
	if len(names) > 0 {
		all = append(all, strings.Join(names, ", ")+": ? picks one value; if it was to mean any value, as in other programs, write *")
	}
	if day {
		all = append(all, "one day is picked; if ? was to mean any day, as in Quartz, write *")
	}
	return all
}

// readsOtherwise tells whether it has other instants than a specification of the
// same text that is set now.
func (s Spec) readsOtherwise() bool {
	if s.by == Current {
		return false
	}
	now, err := Parse(s.text)
	if err != nil {
		return true
	}
	return s.either() != now.either()
}
