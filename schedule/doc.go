// Package schedule says when a schedule is due: it reads crontab
// specifications and computes their next and their last instant (design 10;
// G1, G30; demands 2.4).
//
// A [Spec] is what a user wrote. With the UUID of its schedule, which picks the
// values of `?`, and a [Zone] it becomes a [Timetable], which is asked for
// instants. Instants are wall ns since the Unix epoch and always on a full
// second; civil times are seconds that a clock on the wall of the zone shows,
// counted as if they were UTC.
//
// The specification:
//
//	[second] minute hour day-of-month month day-of-week
//	*  n  a-b  a,b  */n  a-b/n  n/step  JAN  MON  ?  ?(a-b)  ?/n
//	L  LW  15W of day-of-month, FRI#2  FRI#L of day-of-week
//	@yearly @monthly @weekly @daily @hourly @every 90s
//	CRON_TZ=Europe/Berlin before any of them
//
// Contract.
//
//   - A day must match both day-of-month and day-of-week where one begins with `*`,
//     and either of them where none does, as in cron(5). What was stored under other
//     rules keeps them: see [Reading].
//   - A schedule whose hour field is written without `*` names times of the day:
//     each local time runs once. One that a jump of the clock leaves out runs at
//     the jump, together with all others of that jump; one that comes twice runs
//     the first time; a date that the zone leaves out has no launch.
//   - One whose hour field is written with `*` follows elapsed time: it runs
//     whenever the clock shows a time that matches.
//   - @every counts from the Unix epoch and knows no zone.
//   - Nothing loops by the minute: a year of one-second instants costs what one
//     costs, and a specification that is never due is found when it is compiled.
//   - Zones come from the tz database in this package, never from the machine,
//     so that all masters agree; [ZonesVersion] names its release.
//
// Nothing here reads a clock.
package schedule
