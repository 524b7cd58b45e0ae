package render

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Worker shows who has a claim: its name, and the principals that claimed and completed the task.
func Worker(name, principal, completer string) string {
	if completer != "" {
		completer = "completed by " + completer
	}
	var by []string
	for _, who := range []string{principal, completer} {
		if who != "" {
			by = append(by, who)
		}
	}
	if len(by) == 0 {
		return Text([]byte(name), 40)
	}
	return Text([]byte(name), 40) + " (" + Text([]byte(strings.Join(by, ", ")), 60) + ")"
}

// Text shows bytes on one line of a terminal: as they are when they are
// printable, quoted when they are text, else in hexadecimal. Over most
// characters, the rest is an ellipsis; 0 means no limit.
func Text(b []byte, most int) string {
	if room := utf8.UTFMax * (most + 1); most > 0 && len(b) > room { // there is more than fits in what is left
		cut := room
		for back := range utf8.UTFMax { // not in the middle of a character
			if utf8.RuneStart(b[room-back]) {
				cut -= back
				break
			}
		}
		b = b[:cut] // where none begins so near it is no text anyway
	}
	s := string(b)
	switch {
	case !utf8.Valid(b):
		s = "0x" + hex.EncodeToString(b)
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(s) != s:
		s = strconv.Quote(s)
	}
	if runes := []rune(s); most > 0 && len(runes) > most {
		s = string(runes[:most-1]) + "…"
	}
	return s
}

// Lines is Text for several lines, which stay several.
func Lines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		tabless := strings.ReplaceAll(strings.TrimRight(l, " \r"), "\t", "    ")
		if strings.ContainsFunc(tabless, func(r rune) bool { return !unicode.IsPrint(r) }) {
			tabless = strconv.Quote(l)
		}
		lines[i] = tabless
	}
	return strings.Join(lines, "\n")
}

// Duration is a duration in two units at most: 4.2s, 3m20s, 2h5m, 4d3h.
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(max(-d, 0))
	}
	two := func(big, small time.Duration, b, s string) string {
		d = d.Round(small)
		if rest := d % big / small; rest != 0 {
			return fmt.Sprintf("%d%s%d%s", d/big, b, rest, s)
		}
		return fmt.Sprintf("%d%s", d/big, b)
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return two(time.Minute, time.Second, "m", "s")
	case d < day:
		return two(time.Hour, time.Minute, "h", "m")
	}
	return two(day, time.Hour, "d", "h")
}

// Age is how long ago an instant was; "" for the zero time.
func Age(t, now time.Time) string {
	if t.IsZero() || t.Unix() == 0 {
		return ""
	}
	return Duration(max(now.Sub(t), 0).Round(time.Second))
}

// Until is how far ahead an instant lies; "" when it is past.
func Until(t, now time.Time) string {
	if t.IsZero() || !t.After(now) {
		return ""
	}
	return Duration(t.Sub(now).Round(time.Second))
}

// Number writes thousands apart: 12,345.
func Number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
