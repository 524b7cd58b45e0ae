// Package terms reads what users write as name=value: conditions on tasks, and
// settings of queues.
//
// Contract.
//
//   - What is no known name is refused, with the nearest one that is; what is no
//     value of its name is refused with an example of one.
//   - Every name is documented in [FilterHelp] or [SettingsHelp].
package terms
